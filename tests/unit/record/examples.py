"""One proven state, for tests to vary."""

from rigops.record import Bios, Driver, Pair, Proven, ProvenGpu

FIRST = ProvenGpu("GPU-aaaa", "0000:0a:00.0", "NVIDIA GeForce RTX 3090", 285.0)
SECOND = ProvenGpu("GPU-bbbb", "0000:0b:00.0", "NVIDIA GeForce RTX 3090", None)

PROVEN = Proven(
    host="rig1",
    at="2026-01-31T18:00:00Z",
    rigops="0.1.0",
    inventory_digest="c0ffee",
    driver=Driver("535.54.03", "proprietary"),
    packages={"nvidia-driver-535": "535.54.03-0ubuntu1", "linux-image-generic": "6.8.0-45"},
    kernel="6.8.0-45-generic",
    command_line=("root=UUID=1234", "iommu=pt", "quiet"),
    bios=Bios("American Megatrends", "F12"),
    gpus=(FIRST, SECOND),
    level="L1",
    pairs=(
        Pair("0000:0a:00.0", "0000:0b:00.0", "ok", 12.5),
        Pair("0000:0b:00.0", "0000:0a:00.0", "not_granted", None),
    ),
)
