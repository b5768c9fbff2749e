"""Kernel arguments in files of somebody else's: our words come and go, and nothing else changes."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.kernel_args.boot_places import Words, with_menu_of
from rigops.concerns.kernel_args.bootloader import grub
from rigops.plan.context import Consent
from rigops.probe.boot_files import Files
from rigops.probe.sections.bootloader import Bootloader as BootFacts
from rigops.probe.sections.bootloader import MenuEntry
from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.record.kernel_arguments import Arguments, arguments_document, read_arguments
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import boot_facts, engine_of

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.plan.change import Plan

THEIRS = "# mine\nGRUB_TIMEOUT=3\nGRUB_CMDLINE_LINUX_DEFAULT='loglevel=3 quiet'  # keep\n"
OURS = THEIRS.replace("quiet'", "quiet iommu=pt'")


class Rig:
    """Arch: GRUB whose generator reads /etc/default/grub alone, and has made the menu of it."""

    def __init__(
        self,
        deploy: Path,
        declared: list[str] | None,
        *,
        defaults: str = THEIRS,
        record: Arguments | None = None,
        reads_drop_ins: bool = False,
    ) -> None:
        self.host, self.deploy = FakeHost(), deploy
        records = {ARGUMENTS: arguments_document(record)} if record else {}
        files = {grub.DEFAULTS: defaults}
        boot = BootFacts(
            files=files,
            tools=("/usr/bin/grub-mkconfig",),
            reads_drop_ins=reads_drop_ins,
            menu=(
                MenuEntry("/vmlinuz-linux", grub.foreign_arguments(files), "linux"),
                MenuEntry("/vmlinuz-of-another-system", ("rw",), "linux"),
            ),
        )
        state = StateFacts(records=records)
        known = boot_facts(boot, state, line="rw loglevel=3 quiet", boot_id="a")
        self.engine = engine_of(self.host, {"kernel_args": declared}, known)

    def plan(self) -> Plan:
        return self.engine.plan("rig", [self.deploy])

    def apply(self) -> str:
        self.engine.apply("rig", [self.deploy], consent=Consent(removals=("kernel_args",)))
        return "".join(sent.stdin for sent in self.host.sent)


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    path = tmp_path / "kernel_args.py"
    path.write_text(
        "from pyinfra.context import host\n"
        "from rigops.concerns.kernel_args.operations import kernel_args\n"
        "wanted = host.data.get('kernel_args')\n"
        "kernel_args(wanted=tuple(wanted or ()), declared=wanted is not None, trial='off')\n"
    )
    return path


def texts(script: str) -> list[str]:
    lines = script.splitlines()
    return [
        b64decode(lines[at + 1]).decode()
        for at, line in enumerate(lines)
        if line.endswith("<<'RIGOPS_END'")
    ]


def test_a_word_of_ours_is_added_and_all_else_stays_as_it_is(deploy: Path) -> None:
    (change,) = Rig(deploy, ["iommu=pt"]).plan().changes
    script = Rig(deploy, ["iommu=pt"]).apply()

    assert (change.subject, change.before, change.after) == (grub.DEFAULTS, THEIRS, OURS)
    assert OURS in texts(script)
    assert "mkconfig" in script


def test_the_record_is_unsettled_until_the_menu_was_made(deploy: Path) -> None:
    script = Rig(deploy, ["iommu=pt"]).apply()

    first, last = (read_arguments(one) for one in texts(script) if "rigops.kernel_args/1" in one)
    assert (first.written, first.is_unsettled) == (("iommu=pt",), True)
    assert (last.written, last.is_unsettled) == (("iommu=pt",), False)
    assert script.index(f"settle {ARGUMENTS}") < script.index("mkconfig")
    assert script.rindex(f"settle {ARGUMENTS}") > script.rindex("mkconfig")


@pytest.mark.parametrize("reads_drop_ins", [False, True])
def test_what_is_there_already_is_left_alone(deploy: Path, *, reads_drop_ins: bool) -> None:
    record = Arguments(written=("iommu=pt",))
    rig = Rig(
        deploy, ["iommu=pt"], defaults=OURS, record=record, reads_drop_ins=reads_drop_ins
    )  # fmt: skip

    assert not rig.plan().pending
    assert rig.apply() == ""


def test_entries_that_are_no_menu_of_grubs_are_not_made_again() -> None:
    record = Arguments(written=("iommu=pt",))
    menu = (MenuEntry("/vmlinuz", (), ""),)
    place = Words(grub.Bls(), Files({grub.DEFAULTS: OURS}), record, menu)

    part = place.having(("iommu=pt",))

    assert part.more_effects == ()
    assert with_menu_of(("quiet",), place, part) == part


def test_a_run_that_was_cut_off_is_finished(deploy: Path) -> None:
    record = Arguments(written=("iommu=pt",), is_unsettled=True)
    rig = Rig(deploy, ["iommu=pt"], defaults=OURS, record=record)

    assert rig.plan().pending
    script = rig.apply()
    assert "mkconfig" in script
    assert not read_arguments(texts(script)[-1]).is_unsettled


def test_taking_ours_out_leaves_the_file_as_it_was(deploy: Path) -> None:
    rig = Rig(deploy, [], defaults=OURS, record=Arguments(written=("iommu=pt",)))

    script = rig.apply()

    assert THEIRS in texts(script)
    assert read_arguments(texts(script)[-1]) == Arguments()


def test_what_is_ours_in_grubs_own_file_goes_though_grub_reads_drop_ins_since(deploy: Path) -> None:
    record = Arguments(written=("iommu=pt", "quiet"))
    rig = Rig(deploy, ["quiet", "quiet=1"], defaults=OURS, record=record, reads_drop_ins=True)

    script = rig.apply()

    written = texts(script)
    assert written.index(grub.drop_in(["quiet=1"])) < written.index(THEIRS)
    assert read_arguments(written[-1]) == Arguments(written=("quiet",))
    last_edit = script.index(f"readlink -f {grub.DEFAULTS}")
    assert last_edit < script.index("mkconfig") < script.rindex(f"settle {ARGUMENTS}")


def test_what_nobody_declares_any_more_wants_an_agreement_here_too(deploy: Path) -> None:
    rig = Rig(deploy, None, defaults=OURS, record=Arguments(written=("iommu=pt",)))

    assert rig.plan().undeclared == {"kernel_args": (ARGUMENTS,)}
    assert not rig.engine.plan("rig", [deploy], consent=Consent()).pending


def test_a_word_of_somebody_elses_is_never_ours(deploy: Path) -> None:
    assert not Rig(deploy, ["quiet"]).plan().pending
    assert not Rig(deploy, [], record=Arguments(written=("gone=1",))).plan().changes


def test_a_value_that_is_computed_is_refused_and_left(deploy: Path) -> None:
    computed = 'GRUB_CMDLINE_LINUX_DEFAULT="$(cat /etc/arguments)"\n'
    planned = Rig(deploy, ["iommu=pt"], defaults=computed).plan()

    ((concern, reason),) = planned.blocked
    assert concern == "kernel_args"
    assert grub.DEFAULTS in reason
