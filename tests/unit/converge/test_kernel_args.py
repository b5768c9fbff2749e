"""The kernel_args deploy, planned and applied by the engine on a host that only remembers."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from rigops import assets
from rigops.concerns.kernel_args.bootloader import grub
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError
from rigops.facts.sections import (
    Boot,
    Bootloader,
    CommandLine,
    RigopsState,
    SectionFact,
)
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.plan.context import Consent
from rigops.probe.sections import proc_cmdline
from rigops.probe.sections.boot import Boot as BootIdFacts
from rigops.probe.sections.bootloader import Bootloader as BootFacts
from rigops.probe.sections.bootloader import MenuEntry
from rigops.probe.sections.rigops_state import ARGUMENTS, LEAVING, Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.record.kernel_arguments import Arguments, arguments_document, read_leaving
from rigops.transport import Privilege
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import GUARD_PATHS, boot_facts, engine_of, guarded

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.plan.change import Plan

DEPLOY = assets.find("deploys") / "kernel_args.py"
BOOT_ID = "6d3c8f4e-0000-4000-8000-000000000001"
DEFAULTS = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'


def boot(*menu: str, drop_in: str = "", defaults: str = DEFAULTS) -> BootFacts:
    files = {grub.DEFAULTS: defaults} | ({grub.DROP_IN: drop_in} if drop_in else {})
    return BootFacts(
        files=files,
        tools=("/usr/sbin/update-grub", "/usr/sbin/grub-mkconfig"),
        reads_drop_ins=True,
        menu=tuple(MenuEntry("/vmlinuz", tuple(line.split()), line) for line in menu),
    )


def ours(*arguments: str) -> StateFacts:
    """The record after these arguments were added."""
    digest = sha256(grub.drop_in(arguments).encode()).hexdigest()
    owned = OwnedFile(
        path=grub.DROP_IN, concern="kernel_args", digest=digest, mode=grub.DROP_IN_MODE
    )
    return StateFacts(
        owned=Ownership({grub.DROP_IN: owned}).to_json(),
        present={grub.DROP_IN: Present(digest, grub.DROP_IN_MODE)},
    )


class Rig:
    def __init__(
        self, declared: list[str] | None, facts: BootFacts, state: StateFacts | None = None
    ) -> None:
        self.host = FakeHost()
        known = boot_facts(facts, state, boot_id=BOOT_ID) | guarded()
        data = {"kernel_args": declared, "kernel_trial": "off"}
        self.engine = engine_of(self.host, data, known, GUARD_PATHS)

    def plan(self) -> Plan:
        planned = self.engine.plan("rig", [DEPLOY])
        assert self.host.sent == []  # a plan touches nothing, and asks nothing that is known
        return planned

    def apply(self) -> str:
        self.engine.apply("rig", [DEPLOY])
        return "".join(sent.stdin for sent in self.host.sent)


def test_a_new_argument_is_written_into_a_drop_in_of_ours_and_the_menu_is_made_anew() -> None:
    rig = Rig(["iommu=pt"], boot("root=UUID=1 ro quiet"))

    (change,) = rig.plan().changes
    script = rig.apply()

    assert (change.subject, change.before) == (grub.DROP_IN, None)
    assert change.after == grub.drop_in(["iommu=pt"])
    assert len(rig.host.sent) == 1  # one exec for record, file and menu
    written = [b64decode(line).decode() for line in script.splitlines() if _is_base64(line)]
    assert grub.drop_in(["iommu=pt"]) in written
    assert script.index('mkconfig" -o') < script.index("script-check")
    assert script.index("script-check") < script.index('mv -f "$new"')


def test_what_is_configured_is_left_alone() -> None:
    facts = boot("root=UUID=1 ro quiet iommu=pt", drop_in=grub.drop_in(["iommu=pt"]))
    rig = Rig(["iommu=pt"], facts, ours("iommu=pt"))

    assert not rig.plan().pending
    assert rig.apply() == ""


def test_an_argument_of_somebody_elses_is_neither_added_again_nor_owned() -> None:
    rig = Rig(["quiet"], boot("root=UUID=1 ro quiet"))

    assert not rig.plan().pending


def test_a_menu_that_an_interrupted_run_did_not_make_is_made_now() -> None:
    facts = boot("root=UUID=1 ro quiet", drop_in=grub.drop_in(["iommu=pt"]))
    rig = Rig(["iommu=pt"], facts, ours("iommu=pt"))

    assert rig.plan().pending
    script = rig.apply()
    assert "grub-mkconfig" in script
    assert "base64 -d <<" not in script
    assert grub.DROP_IN not in script


def test_a_menu_that_is_gone_is_made_where_it_has_to_have_arguments_of_ours() -> None:
    drop_in = grub.drop_in(["iommu=pt"])

    assert Rig(["iommu=pt"], boot(drop_in=drop_in), ours("iommu=pt")).plan().pending
    assert not Rig([], boot()).plan().pending


def test_a_recovery_entry_need_not_have_the_argument() -> None:
    facts = boot(
        "root=UUID=1 ro quiet iommu=pt", "root=UUID=1 ro single",
        drop_in=grub.drop_in(["iommu=pt"]),
    )  # fmt: skip
    assert not Rig(["iommu=pt"], facts, ours("iommu=pt")).plan().pending


def test_an_empty_declaration_takes_ours_back_and_forgets_it_only_after_the_menu_is_made() -> None:
    facts = boot("root=UUID=1 ro quiet iommu=pt", drop_in=grub.drop_in(["iommu=pt"]))
    rig = Rig([], facts, ours("iommu=pt"))

    (change,) = rig.plan().changes
    script = rig.apply()

    assert change.after is None
    gone = script.index(f"rm -f {grub.DROP_IN}")
    assert gone < script.index("grub-mkconfig") < script.rindex("settle /var/lib/rigops/owned.json")


def test_ours_in_a_drop_in_and_in_grubs_own_file_go_before_the_last_menu_is_made() -> None:
    facts = boot("root=UUID=1 ro quiet iommu=pt", drop_in=grub.drop_in(["iommu=pt"]))
    record = arguments_document(Arguments(written=("quiet",)))
    rig = Rig([], facts, replace(ours("iommu=pt"), records={ARGUMENTS: record}))

    assert {one.subject for one in rig.plan().changes} == {grub.DEFAULTS, grub.DROP_IN}
    script = rig.apply()
    for gone in (f"readlink -f {grub.DEFAULTS}", f"rm -f {grub.DROP_IN}"):
        assert script.index(gone) < script.rindex('mkconfig" -o')


def test_what_nobody_declares_any_more_is_taken_back_only_where_that_was_agreed_to() -> None:
    facts = boot("root=UUID=1 ro quiet iommu=pt", drop_in=grub.drop_in(["iommu=pt"]))
    rig = Rig(None, facts, ours("iommu=pt"))

    assert rig.plan().undeclared == {"kernel_args": (grub.DROP_IN,)}
    assert not rig.engine.plan("rig", [DEPLOY], consent=Consent()).pending
    assert rig.apply() == ""
    rig.engine.apply("rig", [DEPLOY], consent=Consent(removals=("kernel_args",)))
    assert f"rm -f {grub.DROP_IN}" in rig.host.sent[-1].stdin


def test_the_debt_is_written_down_before_the_argument_goes_out_of_the_menu() -> None:
    facts = boot("root=UUID=1 ro quiet splash", drop_in=grub.drop_in(["quiet", "splash"]))
    rig = Rig([], facts, ours("quiet", "splash"))

    script = rig.apply()

    assert script.index(f"settle {LEAVING}") < script.index(f"rm -f {grub.DROP_IN}")
    record = _written(script, LEAVING)
    assert read_leaving(record, BOOT_ID) == ("quiet",)  # the kernel never ran with the other


def test_an_unknown_bootloader_is_in_the_way_and_its_host_alone_fails() -> None:
    rig = Rig(["iommu=pt"], BootFacts())
    rig.host.exit_code = 1
    rig.host.stderr = b"no bootloader"

    assert [concern for concern, _ in rig.plan().blocked] == ["kernel_args"]
    with pytest.raises(DeployError, match="no bootloader"):
        rig.apply()


def test_a_damaged_record_is_never_taken_for_an_empty_one() -> None:
    rig = Rig(["iommu=pt"], boot("ro"), StateFacts(owned='{"schema": "rigops.owned/1", "fil'))

    ((concern, reason),) = rig.plan().blocked
    assert concern == "kernel_args"
    assert "damaged or incomplete" in reason


def test_hosts_that_raise_leave_the_others_alone(tmp_path: Path) -> None:
    deploy = tmp_path / "deploy.py"
    deploy.write_text(
        "from pyinfra.context import host\n"
        "if host.name == 'bad':\n    raise ValueError('this one')\n"
        "from rigops.concerns.kernel_args.operations import kernel_args\n"
        "kernel_args(wanted=('iommu=pt',), trial='off')\n"
    )
    engine = Engine({"bad": {}, "good": {}})
    known: list[tuple[type[SectionFact[Any]], object]] = [
        (Boot, BootIdFacts(boot_id=BOOT_ID)),
        (Bootloader, boot("ro")),
        (CommandLine, proc_cmdline.parse("ro")),
        (RigopsState, StateFacts()),
    ]
    for name in ("bad", "good"):
        channel = HostChannel(FakeHost(), Privilege("root"))
        engine.attach(name, channel, known)

    with pytest.raises(ValueError, match="this one"):
        engine.plan("bad", [deploy])
    assert engine.plan("good", [deploy]).pending


def _written(script: str, path: str) -> str:
    text = script.partition(f"aside {path} ")[2].splitlines()[1]
    return b64decode(text).decode()


def _is_base64(line: str) -> bool:
    try:
        return len(line) > 20 and bool(b64decode(line, validate=True))
    except ValueError:
        return False
