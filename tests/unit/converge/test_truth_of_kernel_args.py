"""Doctor says apply of a kernel argument if and only if plan changes it, or a reboot brings it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rigops import assets
from rigops.concerns.kernel_args.boot_places import place_of
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.bootloader.choice import Blocker
from rigops.doctor.registry import examine
from rigops.ownership.ownership import Ownership
from rigops.plan.context import Consent
from rigops.probe.sections import bootloader, proc_cmdline
from rigops.probe.sections.rigops_state import ARGUMENTS, Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.record.kernel_arguments import Arguments, arguments_document
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import GUARD_PATHS, boot_facts, engine_of, guarded
from tests.unit.converge.test_kernel_args import BOOT_ID, ours
from tests.unit.doctor.examining import catalog, check_of, snapshot_of, spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.plan.change import Plan
    from rigops.probe.sections.bootloader import Bootloader as BootFacts

PASSTHROUGH: Final = "iommu=pt"
AWAKE: Final = "pcie_port_pm=off"
UNKNOWN: Final = "pci=noacs"
EARLIER: Final = "/etc/default/grub.d/50-cloud.cfg"
LATER: Final = "/etc/default/grub.d/zz.cfg"
RESET: Final = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'
OTHERS: Final = grub.drop_in([PASSTHROUGH])


@dataclass(frozen=True)
class Row:
    """`written`: in the file of rigops; `others`: in that of somebody else. The menu has them all.

    `recorded`: there too, by rigops. `more`: a file beside them and its text. `has_drop_ins`: GRUB
    reads any.
    """

    doctor: str
    plan: str
    declared: Sequence[str] | None = (PASSTHROUGH,)
    live: Sequence[str] = ()
    written: Sequence[str] = ()
    recorded: Sequence[str] = ()
    others: Sequence[str] = ()
    menu: Sequence[str] | None = None  # where it was not made of the files
    is_changed: bool = False  # by hand
    more: tuple[str, str] | None = None
    has_grub: bool = True
    has_drop_ins: bool = True

    @property
    def boots(self) -> BootFacts:
        own = (*self.others, *self.recorded)
        files = {grub.DEFAULTS: f'GRUB_CMDLINE_LINUX_DEFAULT="{" ".join(own)}"\n'}
        if self.written:
            files[grub.DROP_IN] = grub.drop_in(tuple(self.written))
        if self.more:
            files[self.more[0]] = self.more[1]
        menu = (*own, *self.written) if self.menu is None else self.menu
        found = {"grep linux /boot/grub/grub.cfg": f"linux /vmlinuz {' '.join(menu)}\n"}
        if self.has_grub:
            found |= files | {
                "command -v update-grub grub-mkconfig grub2-mkconfig grubby bootctl "
                "kernel-install": "/usr/sbin/update-grub\n",
                "grep -l default/grub.d grub-mkconfig": "grub-mkconfig\n" * self.has_drop_ins,
            }
        return bootloader.parse("".join(f"== {head}\n{body}" for head, body in found.items()))

    @property
    def state(self) -> StateFacts:
        found = ours(*self.written) if self.written else StateFacts()
        if self.recorded:
            record = arguments_document(Arguments(written=tuple(self.recorded)))
            found = replace(found, records={ARGUMENTS: record})
        there = {grub.DROP_IN: Present("b" * 64, grub.DROP_IN_MODE)}
        return replace(found, present=there) if self.is_changed else found

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
    "configured by somebody else after the menu was made": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,), others=(PASSTHROUGH,), menu=()
    ),
    "configured by somebody else after the menu was made, and GRUB reads no drop-ins": Row(
        "fail, fix: apply+reboot", "change", others=(PASSTHROUGH,), menu=(), has_drop_ins=False
    ),
    "ours, and configured by somebody else since": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,), written=(PASSTHROUGH,),
        others=(PASSTHROUGH,),
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
    "live, and ours in GRUB's own file": Row(
        "ok", "no change", live=(PASSTHROUGH,), recorded=(PASSTHROUGH,), has_drop_ins=False
    ),
    "live, and ours in GRUB's own file, and the menu was not made": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,), recorded=(PASSTHROUGH,),
        menu=(), has_drop_ins=False,
    ),
    "the same, and GRUB reads drop-ins since": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,), recorded=(PASSTHROUGH,), menu=()
    ),
    "one of ours in GRUB's own file is not declared any more": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH, AWAKE),
        recorded=(PASSTHROUGH, AWAKE), has_drop_ins=False,
    ),
    "live, and ours in GRUB's own file, and GRUB reads drop-ins since": Row(
        "ok", "no change", live=(PASSTHROUGH,), recorded=(PASSTHROUGH,)
    ),
    "one of ours in GRUB's own file is not declared any more, and GRUB reads drop-ins since": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH, AWAKE),
        recorded=(PASSTHROUGH, AWAKE),
    ),
    "ours in GRUB's own file are declared to be none, and GRUB reads drop-ins since": Row(
        "warn, fix: apply+reboot", "change", (), (AWAKE,), recorded=(AWAKE,)
    ),
    "one of ours in GRUB's own file is not declared any more, beside ours in a drop-in": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH, AWAKE), written=(PASSTHROUGH,),
        recorded=(AWAKE,),
    ),
    "a file that GRUB reads since overwrites ours, and the menu is older": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,), recorded=(PASSTHROUGH,),
        more=(EARLIER, RESET),
    ),
    "a file that GRUB reads since overwrites ours in GRUB's own": Row(
        "fail, fix: apply+reboot", "change", recorded=(PASSTHROUGH,), menu=(),
        more=(EARLIER, RESET),
    ),
    "our file was changed by hand, which rigops.files says": Row(
        "ok", "change", live=(PASSTHROUGH, AWAKE), written=(PASSTHROUGH, AWAKE), is_changed=True
    ),
    "an argument that no kernel knows, and that is live": Row(
        "ok", "no change", (UNKNOWN,), (UNKNOWN,), written=(UNKNOWN,)
    ),
    "one that is live, beside one that no kernel knows and that is live": Row(
        "warn, fix: apply+reboot", "change", (UNKNOWN, AWAKE), (UNKNOWN, AWAKE)
    ),
    "an argument that no kernel knows, of somebody else": Row(
        "warn, fix: apply+reboot", "reboot", (UNKNOWN,), others=(UNKNOWN,)
    ),
    "a list with an option that no kernel knows": Row(
        "fail, fix: hands", "blocked", ("pci=noaer,noacs",)
    ),
    "an argument that no kernel knows": Row("fail, fix: hands", "blocked", (UNKNOWN,)),
    "a file that overwrites ours": Row("fail, fix: hands", "blocked", more=(LATER, RESET)),
    "a file that adds to ours": Row(
        "fail, fix: apply+reboot", "change", more=(LATER, RESET.replace("=", "+=", 1))
    ),
    "a file that overwrites what every boot has": Row(
        "fail, fix: apply+reboot", "change", more=(LATER, RESET.replace("_DEFAULT", ""))
    ),
    "a file that overwrites GRUB's own before ours": Row(
        "fail, fix: apply+reboot", "change", others=("splash",), menu=("quiet",),
        more=(EARLIER, RESET),
    ),
    "GRUB reads no drop-ins, and only a file there has it": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,), menu=(PASSTHROUGH,),
        more=(LATER, OTHERS), has_drop_ins=False,
    ),
    "GRUB reads no drop-ins, and a file there overwrites ours": Row(
        "ok", "no change", live=(PASSTHROUGH,), recorded=(PASSTHROUGH,), more=(LATER, RESET),
        has_drop_ins=False,
    ),
    "ours, and GRUB reads no drop-ins any more": Row(
        "warn, fix: apply+reboot", "change", live=(PASSTHROUGH,), written=(PASSTHROUGH,),
        has_drop_ins=False,
    ),
    "ours are declared to be none, and GRUB reads no drop-ins any more": Row(
        "warn, fix: apply+reboot", "change", (), written=(AWAKE,), menu=(), has_drop_ins=False
    ),
    "no bootloader that rigops changes": Row("fail, fix: hands", "blocked", has_grub=False),
}  # fmt: skip


def planned(row: Row) -> Plan:
    known = boot_facts(row.boots, row.state, line=row.line, boot_id=BOOT_ID) | guarded()
    data = {**row.keys, "kernel_trial": "off"}
    engine = engine_of(FakeHost(), data, known, GUARD_PATHS)
    return engine.plan("rig", [assets.find("deploys") / "kernel_args.py"], consent=Consent())


def by_plan(row: Row) -> str:
    plan = planned(row)
    if plan.blocked:
        return "blocked"
    if plan.changes:
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


def test_with_ours_the_menu_gets_what_somebody_else_has_configured() -> None:
    row = Row("", "", (PASSTHROUGH, AWAKE), others=(PASSTHROUGH,), menu=())

    (change,) = planned(row).changes

    assert (change.subject, change.after) == (grub.DROP_IN, grub.drop_in([AWAKE]))


def test_plan_shows_the_file_of_ours_that_grub_does_not_read_any_more() -> None:
    row = ROWS["ours are declared to be none, and GRUB reads no drop-ins any more"]

    (change,) = planned(row).changes

    assert (change.subject, change.after) == (grub.DROP_IN, None)
    assert (change.before or "").strip() == grub.drop_in([AWAKE]).strip()


def test_of_a_file_that_was_changed_by_hand_no_argument_is_ours() -> None:
    row = Row("", "", written=(PASSTHROUGH,), is_changed=True)
    owned = Ownership.from_state(row.state)
    place = place_of(row.boots, owned, row.state, Arguments())

    assert not isinstance(place, Blocker)
    assert place.written == ()


_WORDS: Final = some.sampled_from([PASSTHROUGH, AWAKE, UNKNOWN])
_SOME: Final = some.sets(_WORDS).map(sorted)  # the order is the file's, which ownership judges


@given(
    some.builds(
        Row,
        doctor=some.just(""),
        plan=some.just(""),
        declared=some.none() | _SOME,
        live=_SOME,
        written=_SOME,
        recorded=_SOME,
        others=some.lists(some.just(PASSTHROUGH), max_size=1),
        menu=some.none() | _SOME,
        more=some.sampled_from([None, (LATER, RESET), (LATER, OTHERS)]),
        has_grub=some.booleans(),
        has_drop_ins=some.booleans(),
    ).filter(lambda row: set(row.written).isdisjoint(row.recorded))  # no run writes one into both
)
def test_doctor_says_apply_if_and_only_if_plan_or_a_reboot_changes_something(row: Row) -> None:
    assert ("apply" in by_doctor(row)) == (by_plan(row) in {"change", "reboot"})
