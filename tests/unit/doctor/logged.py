"""A rig with kernel logs, looked at by one check."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from tests.unit.doctor.examining import EVERY_CONCERN, judge
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rigops.doctor.check import Check
    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec

BOOTED = datetime(2026, 1, 30, 17, tzinfo=timezone.utc)
BOOTED_BEFORE = BOOTED - timedelta(days=1)
OSC = "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR]"


def journal(*said: tuple[float, str], booted: datetime = BOOTED) -> str:
    """What journalctl -o short-iso-precise shows: seconds after the boot, and a message."""
    lines = [(0.0, "Linux version 6.1.0-18-amd64"), (0.1, OSC), *said]
    return "== journalctl -k -b\n" + "".join(
        f"{(booted + timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S.%f')}+0000"
        f" rig kernel: {message}\n"
        for seconds, message in lines
    )


def xid(number: int, address: str = "0a:00", rest: str = "pid=7, name=python3, x") -> str:
    return f"NVRM: Xid (PCI:0000:{address}): {number}, {rest}"


WELL = journal((5, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.261.03"))
WELL_BEFORE = journal((5, "NVRM: loading"), booted=BOOTED_BEFORE)
SECTIONS: Mapping[str, str] = {
    **answers.BROKEN,
    "nvidia-version": answers.VERSION.format("535.261.03"),
    "kernel-log": WELL,
    "kernel-log-previous": WELL_BEFORE,
    "xid-history": "",
}


def look(
    check: Check,
    changed: Mapping[str, str | None] | None = None,
    *,
    cut: Mapping[str, int] | None = None,
    timed_out: Collection[str] = (),
    root: bool = True,
    without_root: Collection[str] = (),
    spec: RigSpec | None = None,
) -> list[Finding]:
    """Sections may be changed, or lost where None; `cut` gives them other codes than 0."""
    return judge(
        {**SECTIONS, **(changed or {})},
        spec,
        checks=[check],
        concerns=EVERY_CONCERN | {"gpu_tuning"},
        codes=cut or {},
        timed_out=timed_out,
        root=root,
        without_root=without_root,
    )
