"""Doctor says apply of a kernel argument if and only if plan changes it, or a reboot brings it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rigops import assets
from rigops.concerns.kernel_args.bootloader import grub
from rigops.doctor.registry import examine
from rigops.plan.context import Consent
from rigops.probe.sections import proc_cmdline
from rigops.probe.sections.bootloader import Bootloader as BootFacts
from rigops.probe.sections.bootloader import MenuEntry
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import GUARD_PATHS, boot_facts, engine_of, guarded
from tests.unit.converge.test_kernel_args import BOOT_ID, ours
from tests.unit.doctor.examining import catalog, check_of, snapshot_of, spec

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSTHROUGH: Final = "iommu=pt"
AWAKE: Final = "pcie_port_pm=off"
UNKNOWN: Final = "pci=noacs"
LATER: Final = "/etc/default/grub.d/zz.cfg"
RESET: Final = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'


@dataclass(frozen=True)
class Row:
    """`written`: in the file of rigops; `others`: in that of somebody else. The menu has both."""

    doctor: str
    plan: str
    declared: Sequence[str] | None = (PASSTHROUGH,)
    live: Sequence[str] = ()
    written: Sequence[str] = ()
    others: Sequence[str] = ()
    menu: Sequence[str] | None = None  # where it was not made of the files
    is_ours: bool = True
    is_reset: bool = False
    has_grub: bool = True

    @property
    def boots(self) -> BootFacts:
        files = {grub.DEFAULTS: f'GRUB_CMDLINE_LINUX_DEFAULT="{" ".join(self.others)}"\n'}
        if self.written:
            files[grub.DROP_IN] = grub.drop_in(tuple(self.written))
        if self.is_reset:
            files[LATER] = RESET
        menu = (*self.others, *self.written) if self.menu is None else self.menu
        return BootFacts(
            files=files if self.has_grub else {},
            tools=("/usr/sbin/update-grub",) if self.has_grub else (),
            reads_drop_ins=True,
            menu=(MenuEntry("/vmlinuz", tuple(menu), " ".join(menu)),),
        )

    @property
    def state(self) -> StateFacts:
        return ours(*self.written) if self.written and self.is_ours else StateFacts()

    @property
    def line(self) -> str:
        return " ".join(("root=UUID=1", "ro", *self.live))

    @property
    def keys(self) -> dict[str, object]:
        return {} if self.declared is None else {"kernel_args": list(self.declared)}


ROWS: Final = {
    "live and configured": Row("ok", "no change", live=(PASSTHROUGH,), written=(PASSTHROUGH,)),
    "neither": Row("fail, fix: apply+reboot", "change"),
    "configured, and waits for a reboot": Row(
        "warn, fix: apply+reboot", "reboot", written=(PASSTHROUGH,)
    ),
    "configured by somebody else": Row(
        "ok", "no change", live=(PASSTHROUGH,), others=(PASSTHROUGH,)
    ),
    "live, and the menu has it not": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,)
    ),
    "live and in the menu, whose files have it not": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,), menu=(PASSTHROUGH,)
    ),
    "the menu was not made": Row(
        "fail, fix: apply+reboot", "change", written=(PASSTHROUGH,), menu=()
    ),
    "one of ours is not declared any more": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH, AWAKE),
        written=(PASSTHROUGH, AWAKE),
    ),
    "ours are declared to be none": Row(
        "warn, fix: apply+reboot", "change", (), (AWAKE,), written=(AWAKE,)
    ),
    "ours are not declared at all": Row(
        "skipped", "no change", None, (AWAKE,), written=(AWAKE,)
    ),
    "an argument that no kernel knows": Row("fail, fix: hands", "blocked", (UNKNOWN,)),
    "a file that overwrites ours": Row("fail, fix: hands", "blocked", is_reset=True),
    "no bootloader that rigops changes": Row("fail, fix: hands", "blocked", has_grub=False),
}  # fmt: skip


def by_plan(row: Row) -> str:
    known = boot_facts(row.boots, row.state, line=row.line, boot_id=BOOT_ID) | guarded()
    data = {**row.keys, "kernel_trial": "off"}
    engine = engine_of(FakeHost(), data, known, GUARD_PATHS)
    planned = engine.plan("rig", [assets.find("deploys") / "kernel_args.py"], consent=Consent())
    if planned.blocked:
        return "blocked"
    if planned.changes:
        return "change"
    return "reboot" if not set(row.declared or ()) <= set(row.live) else "no change"


def by_doctor(row: Row) -> str:
    snapshot = snapshot_of(
        bootloader=row.boots, rigops_state=row.state, proc_cmdline=proc_cmdline.parse(row.line)
    )
    (found,) = examine(
        snapshot, spec(**row.keys), catalog(), checks=(check_of("cmdline.drift"),),
        concerns=frozenset({"kernel_args"}),
    )  # fmt: skip
    return f"{found.status}, fix: {found.fix.kind}" if found.fix else found.status


@pytest.mark.parametrize("name", ROWS)
def test_plan_and_doctor_agree(name: str) -> None:
    row = ROWS[name]

    assert (by_doctor(row), by_plan(row)) == (row.doctor, row.plan)


_WORDS: Final = some.sampled_from([PASSTHROUGH, AWAKE, UNKNOWN])
_SOME: Final = some.sets(_WORDS).map(sorted)  # the order is the file's, which ownership judges


@settings(max_examples=60)
@given(
    some.builds(
        Row,
        doctor=some.just(""),
        plan=some.just(""),
        declared=some.none() | _SOME,
        live=_SOME,
        written=_SOME,
        others=some.lists(some.just(PASSTHROUGH), max_size=1),
        menu=some.none() | _SOME,
        is_reset=some.booleans(),
        has_grub=some.booleans(),
    )
)
def test_doctor_says_apply_if_and_only_if_plan_or_a_reboot_changes_something(row: Row) -> None:
    assert ("apply" in by_doctor(row)) == (by_plan(row) in {"change", "reboot"})
