"""The window to a card's memory."""

from __future__ import annotations

import pytest

from tests.unit.doctor.examining import spec
from tests.unit.doctor.pcie_rigs import (
    HEALTHY,
    ONE,
    OTHER,
    ROOT_PORTS,
    card,
    found,
    look,
    port,
    smi,
    smi_card,
)

SIZE = "bar1.size"
SMALL = {
    "pci": port("pci0000:40/0000:40:01.1")
    + card(f"pci0000:40/0000:40:01.1/{ONE}", window=str(256 << 20))
    + port("pci0000:60/0000:60:03.1")
    + card(f"pci0000:60/0000:60:03.1/{OTHER}"),
    "nvidia-smi-xml": smi(smi_card(ONE, window=256), smi_card(OTHER)),
    "lspci": ROOT_PORTS.replace("[size=64G]", "[size=256M]", 1),
}


def test_a_window_as_large_as_the_memory() -> None:
    assert look(SIZE).status == "ok"
    assert look(SIZE, spec(p2p="required")).status == "ok"


@pytest.mark.parametrize(("p2p", "status"), [("required", "warn"), ("measure", "info")])
@pytest.mark.parametrize("kept", [("pci",), ("nvidia-smi-xml",), ("lspci",), tuple(SMALL)])
def test_a_small_window_matters_where_p2p_is_required(
    p2p: str, status: str, kept: tuple[str, ...]
) -> None:
    texts = {**dict.fromkeys(SMALL), **{name: SMALL[name] for name in kept}}
    judged = found(SIZE, {**HEALTHY, **texts}, spec(p2p=p2p))
    finding = next(one for one in judged if one.subject == f"gpu {ONE}")

    assert finding.status == status
    assert "256 MiB" in finding.summary
    assert (finding.fix is not None) == (status == "warn")
    if finding.fix:
        assert finding.fix.kind == "bios"
        assert "Above 4G" in finding.fix.text


@pytest.mark.parametrize(
    "texts",
    [
        {"lspci": ROOT_PORTS.replace("Memory at 28000000000", "Memory at <ignored>", 1)},
        {"lspci": ROOT_PORTS.replace("Memory at 28000000000", "Memory at <unassigned>", 1)},
        {"pci": HEALTHY["pci"].replace(f"bar1={64 << 30}", "bar1=0", 1)},
    ],
)
def test_a_window_without_room_is_a_failure(texts: dict[str, str]) -> None:
    (finding,) = found(SIZE, {**HEALTHY, **texts})

    assert (finding.status, finding.subject) == ("fail", f"gpu {ONE}")
    assert finding.evidence


def test_nothing_known_is_unknown() -> None:
    blind = {"pci": HEALTHY["pci"].replace(f"bar1={64 << 30}", "bar1=-")}

    assert found(SIZE, blind)[0].status == "unknown"


def test_the_sizes_that_a_card_offers() -> None:
    check = "bar1.capability"
    top = "64MB 128MB 256MB 512MB 1GB 2GB 4GB 8GB 16GB 32GB 64GB"
    little = ROOT_PORTS.replace("64G]", "256M]").replace(top, "64MB 128MB 256MB", 1)

    assert look(check).status == "ok"
    finding = look(check, lspci=little)
    assert (finding.status, finding.subject) == ("info", f"gpu {ONE}")
    assert "supported: 64MB 128MB 256MB" in finding.evidence[0].line
    assert look(check, lspci=None).status == "unknown"
    hidden = little.replace("\tCapabilities: [", "\tCapabilities: <access denied> [")
    assert look(check, lspci=hidden.replace("BAR 1:", "-")).status == "unknown"


def test_the_driver_names_the_card_that_got_no_room() -> None:
    log = (
        "[    4.1] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "[    4.1] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:61:00.0)\n"
    )
    finding = look(SIZE, kernel_log=log)

    assert (finding.status, finding.subject) == ("fail", f"gpu {OTHER}")
    assert "BAR1 is 0M" in finding.evidence[0].line
