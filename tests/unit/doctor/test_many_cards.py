"""A host may claim any number of cards: what doctor does grows with them, not with their square.

Steps are lines of rigops that run, so no clock and no busy machine has a say in them.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import rigops
from rigops.concerns.registry import read
from rigops.doctor.examined import Examined
from rigops.doctor.registry import CHECKS, examine
from rigops.doctor.stories import put_together
from rigops.doctor.views import peers
from rigops.doctor.views.peers import MOST_CARDS
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.pastes.reading import read_apart
from rigops.probe.snapshot import HostSnapshot
from tests.shards import PROPERTIES
from tests.unit.doctor.examining import catalog, check_of
from tests.unit.doctor.logged import journal
from tests.unit.doctor.pcie_rigs import HEALTHY, card, counters, port, smi, smi_card

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from _typeshed import TraceFunction

    from rigops.inventory.spec import RigSpec

_OURS: Final = str(Path(rigops.__file__).parent)
_FEW: Final = 60
_IN_ITS_SHARD: Final = pytest.mark.shard(PROPERTIES)  # every line is counted, which takes seconds
# Of each card: what doctor looks up by address.
_LOG: Final = (
    "pci {a}: [10de:26b3] type 00 class 0x030000",
    (
        "pci {a}: 31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4 link at {a} "
        "(capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)"
    ),
    "pci {a}: BAR 1: no space for [mem size 0x10000000 64bit pref]",
    "nvidia {a}: Unable to change power state from D3cold to D0, device inaccessible",
    "NVRM: Xid (PCI:{a}): 79, pid=1, name=x, GPU has fallen off the bus.",
    "NVRM: GPU {a}: RmInitAdapter failed! (0x24:0x65:1423)",
    "AMD-Vi: Event logged [IO_PAGE_FAULT device={a} domain=0x000e address=0xf0 flags=0x0020]",
    "{{{n}}}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0",
    "{{{n}}}[Hardware Error]: event severity: corrected",
    "{{{n}}}[Hardware Error]:   device_id: {a}",
    "pcieport {a}: AER: Corrected error message received from {a}",
    "nvidia {a}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)",
)


def _rig(cards: int) -> dict[str, str]:
    sections = {"pci": "", "lspci": "", "iommu-groups": "", "aer": ""}
    listed, logged = [], []
    for number in range(cards):
        domain, bus = divmod(number, 100)
        root = f"{domain:04x}:00:{bus % 32:02x}.{bus // 32}"
        address = f"{domain:04x}:{bus + 1:02x}:00.0"
        sections["pci"] += port(f"pci{domain:04x}:00/{root}")
        sections["pci"] += card(f"pci{domain:04x}:00/{root}/{address}")
        sections["lspci"] += (
            f"{root} PCI bridge [0604]: AMD [1022:1483]\n\tBus: primary=00, secondary={bus + 1:02x}"
            "\n\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00\n"
            "\t\tACSCtl:\tSrcValid+ ReqRedir+ CmpltRedir+ EgressCtrl-\n\n"
            f"{address} VGA compatible controller [0300]: NVIDIA Corporation [10de:26b3]\n"
            "\t\tLnkSta: Speed 2.5GT/s, Width x16\n\n"
        )
        sections["iommu-groups"] += f"{number} DMA-FQ {address}\n"
        sections["aer"] += counters(address, corrected=1)
        listed.append(smi_card(address, uuid=f"00000000-0000-0000-0000-{number:012x}"))
        logged += [(1.0 + number, line.format(a=address, n=number)) for line in _LOG]
    log = journal(*logged)
    return {**HEALTHY, **sections, "nvidia-smi-xml": smi(*listed), "kernel-log": log}


def _without_routes(cards: int) -> str:
    """Bridges that redirect, and cards of which nothing shows what is above them."""
    return "".join(
        f"0000:{number // 32:02x}:{number % 32:02x}.0 PCI bridge [0604]: AMD [1022:1483]\n"
        "\t\tACSCtl:\tReqRedir+ CmpltRedir+ EgressCtrl-\n"
        f"0001:{number // 32:02x}:{number % 32:02x}.0 VGA compatible controller [0300]: NVIDIA "
        "Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"
        for number in range(cards)
    )


def _snapshot(texts: dict[str, str]) -> HostSnapshot:
    sections = {name: Collected(text, root=True) for name, text in texts.items()}
    return HostSnapshot(Bundle("rig", "2026-01-31T18:00:00Z", root=True, sections=sections))


def _lines_run(work: Callable[[], object]) -> int:
    """Of rigops."""
    count = 0

    def line(_frame: FrameType, event: str, _value: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, _event: str, _value: object) -> TraceFunction | None:
        return line if frame.f_code.co_filename.startswith(_OURS) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _steps(snapshot: HostSnapshot, spec: RigSpec) -> dict[str, int]:
    examined = Examined(snapshot, spec, catalog())
    steps = {check.id: _lines_run(partial(check.findings, examined)) for check in CHECKS}
    found = [finding for check in CHECKS for finding in check.findings(examined)]
    return {**steps, "stories": _lines_run(lambda: put_together(found, snapshot, catalog()))}


DECLARED: Final = {
    "gpu_power_limit": {"GPU-00000000-0000-0000-0000-000000000001": 250, "default": 200},
    "gpu_clocks": {"GPU-00000000-0000-0000-0000-000000000001": "graphics=210,1410"},
    "p2p": "required",
}


@pytest.mark.parametrize(
    "lost",
    [
        (),
        pytest.param(("pci", "nvidia-smi-xml"), marks=_IN_ITS_SHARD),
        pytest.param(("lspci",), marks=_IN_ITS_SHARD),
    ],
)
def test_twice_the_cards_take_twice_the_steps(
    lost: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "MOST_CARDS", _FEW // 2)
    spec = read(DECLARED)

    def measured(cards: int) -> dict[str, int]:
        texts = {name: text for name, text in _rig(cards).items() if name not in lost}
        return _steps(_snapshot(texts), spec)

    few, many = measured(_FEW), measured(2 * _FEW)

    assert {name: few[name] for name in few if many[name] > 2.2 * few[name]} == {}


def test_pairs_of_as_many_cards_as_a_machine_may_have_are_judged_without_their_devices() -> None:
    def measured(cards: int) -> int:
        snapshot = _snapshot({"lspci": _without_routes(cards)})
        return _steps(snapshot, read({}))["acs.path"]

    assert measured(64) < 4.4 * measured(32)  # four times the pairs


@pytest.mark.parametrize("name", ["acs.path", "mixed.gpus", "p2p.grant", "nccl.level"])
def test_pairs_of_more_cards_than_a_machine_may_have_are_unknown(name: str) -> None:
    snapshot = _snapshot({"lspci": _without_routes(MOST_CARDS + 1)})

    (found,) = check_of(name).findings(Examined(snapshot, read({}), catalog()))

    assert (found.status, found.summary) == (
        "unknown",
        f"{MOST_CARDS + 1} cards: rigops judges pairs of at most {MOST_CARDS}",
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            "{a} VGA compatible controller [0300]: NVIDIA Corporation Card {n} [10de:{d:04x}]\n",
            marks=_IN_ITS_SHARD,
        ),
        "{a} 3D controller: NVIDIA Corporation Device {d:04x} (rev ff)\n",
        pytest.param(
            "{a} PCI bridge [0604]: AMD [1022:1483]\n\tBus: primary=00, secondary={d:02x}\n\n",
            marks=_IN_ITS_SHARD,
        ),
        pytest.param(
            "{a} 0300: 10de:{d:04x}\n\tCapabilities: [100 v1] Virtual Channel\n",
            marks=_IN_ITS_SHARD,
        ),
        "\tCapabilities: [2a0 v1] Access Control Services\n\t\tACSCtl:\tReqRedir+\n",
        pytest.param(
            "           +-{b:02x}.0-[{n:02x}]----00.0\n",
            marks=_IN_ITS_SHARD,
        ),
    ],
)
def test_twice_the_paste_takes_twice_the_steps(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MOST_CARDS", _FEW // 2)

    def measured(lines: int) -> int:
        places = (divmod(number, 32) for number in range(lines))
        text = "01:00.0 VGA compatible controller: NVIDIA Corporation (rev a1)\n" + "".join(
            line.format(a=f"0002:{bus:02x}:{slot:02x}.0", b=slot, n=bus, d=bus * 32 + slot)
            for bus, slot in places
        )

        def work() -> None:
            (bundle,) = read_apart(text.encode(), host="rig")
            examine(HostSnapshot(bundle), None, catalog())

        return _lines_run(work)

    assert measured(300) < 2.2 * measured(150)
