"""What stands together in a paste decides, and not one line: each alarm that there is, no other.

Facts of NVIDIA/open-gpu-kernel-modules#246 and #259 among others; all texts are made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.doctor.registry import examine
from rigops.probe.bundles.reading import read_content
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor.examining import catalog

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

CARD = "01:00.0 VGA compatible controller: NVIDIA Corporation GP107M [GeForce GTX 1050 Mobile]"
JOURNAL = "Nov 08 11:14:4{} box {}\n"
NVBANDWIDTH = """\
nvbandwidth Version: v0.4
CUDA Runtime Version: 12030
CUDA Driver Version: 12030
Driver Version: {}

Device 0: NVIDIA GeForce RTX 4090
Device 1: NVIDIA GeForce RTX 4090 (00000000:02:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     26.55     26.54

SUM host_to_device_memcpy_ce 53.09
"""
NCCL_TESTS = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 \
agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  25462 on  box device  0 [0x01] RTX 4090
"""
P2P_TEST = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA GeForce RTX 4090, pciBusID: 1, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA GeForce RTX 4090, pciBusID: 2, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 CAN Access Peer Device=0
NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Wed Nov 23 23:04:03 UTC 2022
"""
ALARMS = {
    "one that the driver could not start is not lost": (
        "Unable to determine the device handle for gpu 0000:01:00.0: Not Found\n",
        {"fail gpu.init"},
    ),
    "one that bbswitch has switched off is not lost": (
        f"0000:01:00.0 OFF\n{CARD} (rev ff)\n[   15.0] bbswitch: disabling discrete graphics\n",
        set(),
    ),
    "one that nothing has switched off is lost": (
        f"{CARD} (rev ff)\n",
        {"fail gpu.lost", "fail gpu.count"},
    ),
    "nouveau had the cards until NVIDIA's driver was loaded": (
        (
            "[    2.1] nouveau 0000:08:00.0: NVIDIA GB206 (1b6000a1)\n"
            "[    5.2] nvidia-nvlink: Nvlink Core is being initialized, major device number 510\n"
            "[    5.3] nvidia 0000:08:00.0: vgaarb: VGA decodes changed: olddecodes=io+mem\n"
            "[    5.4] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05\n"
        ),
        set(),
    ),
    "nouveau has a card": (
        "[    2.1] nouveau 0000:08:00.0: NVIDIA GB206 (1b6000a1)\n",
        {"fail drv.nouveau"},
    ),
    "nccl-tests began on two cards and printed nothing more": (
        f"{NCCL_TESTS}#  Rank  1 Group  0 Pid  25462 on  box device  1 [0x02] RTX 4090\n",
        {"warn bench.nccl"},
    ),
    "nccl-tests on one card has no peer to wait for": (NCCL_TESTS, set()),
    "PackageKit without a network is no error of apt": (
        JOURNAL.format(0, "packagekitd[2557]: E: Failed to fetch https://a.example/InRelease")
        + "              E: Some index files failed to download. They have been ignored.\n"
        + JOURNAL.format(5, "kernel: usb 1-1: new device"),
        set(),
    ),
    "apt without a network is one": (
        (
            "E: Failed to fetch https://a.example/InRelease  Could not resolve 'a.example'\n"
            "E: Some index files failed to download. They have been ignored.\n"
        ),
        {"fail pkg.errors"},
    ),
    "Secure Boot refuses another's module": (
        "modprobe: ERROR: could not insert 'nct6687': Key was rejected by service\n",
        {"warn drv.secureboot"},
    ),
    "the kernel's own line of it names no module": (
        (
            "modprobe: ERROR: could not insert 'nct6687': Key was rejected by service\n"
            "[   12.3] Loading of module with unavailable key is rejected\n"
        ),
        {"warn drv.secureboot"},
    ),
    "nvbandwidth names a bad driver": (NVBANDWIDTH.format("545.29.06"), {"fail drv.pin"}),
    "nvbandwidth names a good driver": (NVBANDWIDTH.format("535.183.01"), set()),
    "a matrix of latencies alone has a copy that times out": (
        (
            "P2P=Enabled Latency (P2P Writes) Matrix (us)\n"
            "   GPU     0      1\n     0   1.65 49206.68\n     1 49205.92   1.60\n"
        ),
        {"fail bench.p2p"},
    ),
    "p2pBandwidthLatencyTest names the cards of a bad driver": (
        P2P_TEST.format("525.60.11"),
        {"fail drv.pin"},
    ),
}


def found(text: str) -> list[Finding]:
    (bundle,) = read_content(text.encode(), place="post", host="post", is_known=lambda _: True)
    return examine(HostSnapshot(bundle), None, catalog())


@pytest.mark.parametrize("letters", ["CNS", "NS"])
def test_a_matrix_that_refuses_every_pair_is_told_without_the_cards(letters: str) -> None:
    matrix = f" \tGPU0\tGPU1\n GPU0\tX\t{letters}\n GPU1\t{letters}\tX\n\nLegend:\n  X = Self\n"
    grant = next(
        one for one in found(f"$ nvidia-smi topo -p2p r\n{matrix}") if one.id == "p2p.grant"
    )
    partly = matrix.replace(letters, "U", 1)
    other = next(
        one for one in found(f"$ nvidia-smi topo -p2p r\n{partly}") if one.id == "p2p.grant"
    )

    assert (grant.status, other.status) == ("info", "unknown")
    assert f"between its 2 cards ({letters})" in grant.summary
    assert "through the host's memory" in grant.why


@pytest.mark.parametrize("name", ALARMS)
def test_a_paste_has_these_alarms(name: str) -> None:
    text, expected = ALARMS[name]

    assert {
        f"{one.status} {one.id}" for one in found(text) if one.status in {"fail", "warn"}
    } == expected


@pytest.mark.parametrize(
    ("refused", "cause", "said"),
    [
        ("'nvidia': Exec format error", "drv.dkms", "the NVIDIA module on disk is for another"),
        ("'nvidia': Key was rejected by service", "drv.secureboot", "because of Secure Boot"),
        ("'clevo_acpi': Key was rejected by service", "drv.secureboot", "clevo_acpi, which is not"),
    ],
)
def test_a_known_line_says_why_no_driver_is_loaded(refused: str, cause: str, said: str) -> None:
    smi = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    text = f"modprobe: ERROR: could not insert {refused}\n\n$ nvidia-smi\n{smi}"
    loaded = next(one for one in found(text) if one.id == "drv.loaded")

    assert said in loaded.summary
    assert loaded.data == {"cause": cause}


def test_an_xid_that_the_firmware_of_the_card_tells_names_it_as_its_cause() -> None:
    gsp = "[ 9.{}] NVRM: Xid (PCI:0000:09:00): {}, pid=1, name=python3, Timeout waiting for RPC\n"

    def causes(*numbers: int) -> list[object]:
        text = "".join(gsp.format(at, number) for at, number in enumerate(numbers))
        return [one.data.get("cause") for one in found(text) if one.id == "xid"]

    assert causes(119) == ["drv.gsp"]
    assert causes(119, 154) == causes(79) == [None]


def test_a_paste_of_which_nothing_can_be_judged_says_why_for_the_check_that_it_names() -> None:
    (unknown,) = [one for one in found("$ nvidia-smi topo -p2p\n") if one.status == "unknown"]

    assert (unknown.id, unknown.summary) == (
        "gpu.count",
        "nothing in this paste can be judged: no card is listed",
    )


def test_cards_of_a_matrix_are_counted_by_its_rows() -> None:
    rows = ("GPU0\t X \tPHB", "GPU1\tPHB\t X ")
    matrix = "\n".join(("\tGPU0\tGPU1", *rows, "", "Legend:", "  X = Self", ""))
    test = "".join(P2P_TEST.splitlines(keepends=True)[:5])

    for text in (f"$ nvidia-smi topo -m\n{matrix}", f"$ nvidia-smi topo -m\n{matrix}\n{test}"):
        count = next(one for one in found(text) if one.id == "gpu.count")
        assert [one.line for one in count.evidence] == list(rows)


def test_a_lost_card_without_a_name_is_named_by_its_address_alone() -> None:
    text = (
        "[ 9.1] nvidia 0000:42:00.0: Unable to change power state from D3cold to D0, "
        "device inaccessible\n"
    )
    lost = next(one for one in found(text) if one.id == "gpu.lost")

    assert lost.summary == "lost: it did not answer when it was woken"
    assert lost.fix is not None
    assert "d3cold_allowed" in lost.fix.text


@pytest.mark.parametrize(
    ("beside", "number", "said"),
    [
        ("It broke after resuming from suspend.", 13, "nvidia_uvm"),
        ("| 95%   96C    P2   301W / 300W |", 79, "fans"),
        ("        GPU Shutdown Temp                 : 98 C", 79, ""),
        ("The card is in a Thunderbolt enclosure.", 79, "external card"),
        ("The cards are not overclocked.", 31, ""),
        ("The memory is overclocked by 1200.", 31, "clocks"),
    ],
)
def test_what_stands_around_an_xid_tells_its_cause(beside: str, number: int, said: str) -> None:
    line = f"[ 40.775718] NVRM: Xid (PCI:0000:01:00): {number}, pid=1, name=python3"
    (one,) = (one for one in found(f"{beside}\n{line}\n") if one.id == "xid")
    assert one.fix
    assert said in one.fix.text
    assert ("If that is not it" in one.fix.text) is bool(said)
