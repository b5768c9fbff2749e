"""The window to a card's memory."""

from __future__ import annotations

import pytest

from tests.unit.doctor.examining import checks_of, judge, spec
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


NEW = "pci {}: BAR 1 [mem size 0x1000000000 64bit pref]: {}"
OLD = "pci {}: BAR 1: {} [mem size 0x1000000000 64bit pref]"
REFUSED = [
    NEW.format(ONE, "can't assign; no space"),
    NEW.format(ONE, "failed to assign"),
    OLD.format(ONE, "no space for"),
    OLD.format(ONE, "failed to assign"),
    f"pci {ONE}: BAR 0 [mem size 0x04000000]: can't assign; no space",
    f"NVRM: BAR2 is 0M @ 0x0 (PCI:{ONE})",
    f"NVRM: BAR1 is 0M @ 0x0 (PCI:{ONE})",
]


def log(*lines: str) -> str:
    return "".join(f"[    2.83111{n}] {line}\n" for n, line in enumerate(lines))


@pytest.mark.parametrize("line", REFUSED)
def test_a_card_that_the_kernel_found_no_room_for(line: str) -> None:
    """Layouts: HeyMeco/Rockchip-pcie-devices#2, system76/firmware-open#66."""
    blind = {"pci": HEALTHY["pci"].replace(f"bar1={64 << 30}", "bar1=-"), "lspci": None}
    judged = found(SIZE, {**HEALTHY, **blind, "nvidia-smi-xml": None, "kernel-log": log(line)})
    finding = next(one for one in judged if one.subject == f"gpu {ONE}")

    assert finding.status == "fail"
    assert finding.evidence[0].line.endswith(line)
    assert finding.fix is not None


@pytest.mark.parametrize(
    "lines",
    [
        (REFUSED[0], f"pci {ONE}: BAR 1 [mem 0x8880000000-0x907fffffff 64bit pref]: assigned"),
        (REFUSED[2], f"pci {ONE}: BAR 1: assigned [mem 0xc1000000-0xd0ffffff 64bit pref]"),
        (f"pci {ONE}: VF BAR 2 [mem size 0x10000000 64bit pref]: can't assign; no space",),
        (f"pci {ONE}: BAR 5 [io  size 0x0080]: can't assign; no space",),
        (f"pci {ONE}: BAR 6: no space for [mem size 0x00080000 pref]",),
        (f"pci {ONE}: ROM [mem size 0x00080000 pref]: failed to assign",),
        ("pci 0000:01:00.0: BAR 0 [mem size 0x00200000 64bit]: failed to assign",),
        (REFUSED[0],),  # sysfs and lspci have its size
    ],
)
def test_what_found_its_room_later_or_needs_none(lines: tuple[str, ...]) -> None:
    assert look(SIZE, kernel_log=log(*lines)).status == "ok"


@pytest.mark.parametrize(
    "lines", [(f"pci {ONE}: [10de:17fd] type 00 class 0x030000", REFUSED[0]), (REFUSED[-1],)]
)
def test_a_pasted_log_alone_is_enough(lines: tuple[str, ...]) -> None:
    judged = judge({"kernel-log": log(*lines)}, checks=checks_of(SIZE))

    assert ("fail", f"gpu {ONE}") in [(one.status, one.subject) for one in judged]


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
