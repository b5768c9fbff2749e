"""Rigs for pages: recorded ones, pastes, and one with switches and disks on shared lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.doctor.examined import Examined
from rigops.doctor.host_report import HostReport, summary
from rigops.doctor.registry import examine
from rigops.doctor.stories import put_together
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.snapshot import HostSnapshot
from rigops.report.html.doctor import ExaminedHost
from tests.unit.doctor.examining import catalog, spec
from tests.unit.doctor.pcie_rigs import card, port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.inventory.spec import RigSpec

CARDS = tuple(f"0000:{bus}:00.0" for bus in ("03", "04", "83", "84", "c3", "c4", "e3", "e4"))
FEEDS = {
    "psus": [
        {"watts": 2000, "host": True, "gpus": list(CARDS[:4]), "circuit": "desk"},
        {"watts": 2000, "gpus": list(CARDS[4:]), "circuit": "wall"},
    ],
    "circuits": {"desk": "230V/16A", "wall": "230V/16A"},
}


def examined_host(bundle: Bundle, declared: RigSpec | None = None) -> ExaminedHost:
    snapshot, declares = HostSnapshot(bundle), declared or spec()
    found = examine(snapshot, declared, catalog())
    findings, stories = put_together(found, snapshot, catalog())
    report = HostReport(
        host=bundle.host,
        source="bundle",
        collected_at=bundle.collected_at,
        duration_ms=1,
        facts=summary(snapshot, catalog()),
        findings=findings,
        stories=stories,
        is_paste=bundle.paste is not None,
    )
    return ExaminedHost(report, Examined(snapshot, declares, catalog()))


def bundle_of(texts: dict[str, str], host: str = "rig") -> Bundle:
    sections = {name: Collected(text, root=True) for name, text in texts.items()}
    return Bundle(host, "2026-01-31T18:00:00Z", root=True, sections=sections)


def switched() -> Bundle:
    """Eight cards below four switches, each pair beside an NVMe; one card has 4 of 16 lanes."""
    lines, groups, disk = [], [], "0x010802"
    for number, (one, other) in enumerate(_pairs(CARDS)):
        bus = one[5:6] + "0"
        root = f"pci0000:{bus}/0000:{bus}:01.1"
        upper = f"{root}/0000:{bus[0]}1:00.0"
        lines += [port(root), port(upper)]
        nvme = f"0000:{bus[0]}5:00.0"
        for place, address in enumerate((one, other, nvme)):
            below = f"{upper}/0000:{bus[0]}2:0{place}.0"
            lines.append(port(below))
            path = f"{below}/{address}"
            lines.append(
                card(path, lanes="16.0,4" if address == CARDS[2] else "16.0,16")
                if address != nvme
                else card(path, lanes="8.0,4", most="8.0,4", driver="nvme")
                .replace("0x030000", disk)
                .replace("0x10de", "0x144d")
            )
            groups.append(f"{number * 3 + place} DMA {address}\n")
    return bundle_of({"pci": "".join(lines), "iommu-groups": "".join(groups)}, "switched")


def _pairs(cards: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(cards[::2], cards[1::2], strict=True))


def with_record(bundle: Bundle, path: str, text: str) -> Bundle:
    state = Collected(f"== {path}\n{text}\n", root=True)
    return replace(bundle, sections={**bundle.sections, "rigops-state": state})
