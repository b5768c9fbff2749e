"""New kernel arguments are tried by one boot: what a plan, an order and a look after it come to."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from rigops import assets
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.operations import TrialConditions as Ground
from rigops.concerns.kernel_args.trial_boot.conditions import Conditions, Grub
from rigops.concerns.kernel_args.trial_boot.parts import PROGRAM, UNIT_FILE
from rigops.facts.files import FileFound
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.plan.context import Consent, TrialOptions
from rigops.probe.sections.bootloader import Bootloader as BootFacts
from rigops.probe.sections.bootloader import MenuEntry
from rigops.probe.sections.rigops_state import ARGUMENTS, Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.record.kernel_arguments import Arguments, arguments_document, read_arguments
from rigops.record.trial_boot import LOG
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import boot_facts, engine_of

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.plan.change import Plan

DEPLOY = assets.find("deploys") / "kernel_args.py"
CONSENT = Consent(removals=None)
OPTIONS = TrialOptions(deadline_s=900, cards=("0000:0a:00.0",))
BEFORE, AFTER = "6d3c8f4e-0000-4000-8000-00000000000a", "6d3c8f4e-0000-4000-8000-00000000000b"
RUNNING = "BOOT_IMAGE=/vmlinuz-6.1.0-50-amd64 root=UUID=1 ro quiet"
CUSTOM = "/boot/grub/custom.cfg"
CONFIG = """\
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
fi
menuentry 'Debian GNU/Linux' $menuentry_id_option 'gnulinux-simple-1' {
\tsearch --no-floppy --fs-uuid --set=root 1
\tlinux\t/vmlinuz-6.1.0-50-amd64 root=UUID=1 ro quiet
\tinitrd\t/initrd.img-6.1.0-50-amd64
}
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
fi
"""
TOOLS = ("/usr/sbin/update-grub", "/usr/sbin/grub-mkconfig")
GOOD = Conditions(
    grub=Grub(folder="/boot/grub", config=CONFIG, file_system="ext2"),
    free_kib=100_000,
    systemd=252,
    tools=("grub-reboot", "grub-editenv", "grub-script-check", "grub-mkconfig"),
)
UNWRITABLE = Conditions(
    grub=Grub(folder="/boot/grub", config=CONFIG, file_system="btrfs"),
    free_kib=100_000,
    systemd=252,
    tools=GOOD.tools,
)


def boot(drop_in: str = "") -> BootFacts:
    files = {grub.DEFAULTS: 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'}
    words = f"root=UUID=1 ro quiet {' '.join(grub.added_arguments(drop_in))}".split()
    return BootFacts(
        files=files | ({grub.DROP_IN: drop_in} if drop_in else {}),
        tools=TOOLS,
        reads_drop_ins=True,
        menu=(MenuEntry("/vmlinuz", tuple(words), " ".join(words)),),
    )


def state(record: Arguments = Arguments(), **owned: bytes) -> StateFacts:  # noqa: B008 - frozen
    paths = {"drop_in": grub.DROP_IN, "custom": CUSTOM, "unit": UNIT_FILE}
    files = {
        paths[name]: OwnedFile(
            path=paths[name],
            concern="kernel_args",
            digest=sha256(content).hexdigest(),
            mode=0o644,
        )
        for name, content in owned.items()
    }
    return StateFacts(
        owned=Ownership(files).to_json() if files else None,
        present={path: Present(file.digest, file.mode) for path, file in files.items()},
        records={ARGUMENTS: arguments_document(record)} if record or record.armed_in else {},
    )


class Rig:
    def __init__(
        self,
        declared: list[str] | None,
        *,
        ground: Conditions = GOOD,
        found: StateFacts | None = None,
        drop_in: str = "",
        running: str = RUNNING,
        boot_id: str = BEFORE,
        log: str | None = None,
        deploy: Path = DEPLOY,
    ) -> None:
        self.host, self.deploy = FakeHost(), deploy
        known = boot_facts(boot(drop_in), found, line=running, boot_id=boot_id)
        files = {LOG: FileFound(Present("0" * 64, 0o644), log)} if log is not None else {}
        self.engine = engine_of(
            self.host,
            {"kernel_args": declared},
            known | {Ground: ground},
            [CUSTOM, PROGRAM, UNIT_FILE, LOG],
            files,
        )

    def plan(self, consent: Consent = CONSENT, **options: Any) -> Plan:
        trial = replace(OPTIONS, **options)
        return self.engine.plan("rig", [self.deploy], consent=consent, trial=trial)

    def apply(self, **options: Any) -> str:
        self.engine.apply("rig", [self.deploy], trial=replace(OPTIONS, **options))
        return "".join(sent.stdin for sent in self.host.sent)


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """The operation without its guards, which ask for more."""
    deploy = tmp_path / "kernel_args.py"
    deploy.write_text(
        "from pyinfra.context import host\n"
        "from rigops.concerns.kernel_args.operations import kernel_args\n"
        "wanted = host.data.get('kernel_args')\n"
        "kernel_args(wanted=tuple(wanted or ()), declared=wanted is not None)\n"
    )
    return deploy


def recorded(script: str) -> Arguments:
    text = script.partition(f"aside {ARGUMENTS} ")[2].splitlines()[1]
    return read_arguments(b64decode(text).decode())


def test_a_new_argument_goes_into_the_record_and_into_nothing_that_a_bootloader_reads(
    alone: Path,
) -> None:
    rig = Rig(["iommu=pt"], deploy=alone)

    planned = rig.plan()
    script = rig.apply()

    assert [(one.kind, one.after) for one in planned.changes] == [("argument", "iommu=pt")]
    assert planned.trial_arguments == ("iommu=pt",)
    assert any("tried by one boot first" in text for _, text in planned.notices)
    assert recorded(script) == Arguments(("iommu=pt",), (), "")
    assert grub.DROP_IN not in script
    assert "grub-mkconfig" not in script
    assert "grub-reboot" not in script


def test_what_waits_for_its_trial_is_no_change_any_more(alone: Path) -> None:
    planned = Rig(["iommu=pt"], found=state(Arguments(("iommu=pt",))), deploy=alone).plan()

    assert not planned.pending
    assert planned.trial_arguments == ("iommu=pt",)


def test_right_before_the_reboot_the_entry_is_laid_out_and_ordered_once(alone: Path) -> None:
    rig = Rig(["iommu=pt"], found=state(Arguments(("iommu=pt",))), deploy=alone)

    script = rig.apply(now=True)

    record = recorded(script)
    assert (record.armed_in, record.cards) == (BEFORE, OPTIONS.cards)
    assert script.index(f"settle {ARGUMENTS}") < script.index(f"aside {CUSTOM} ")
    assert script.index(f"aside {CUSTOM} ") < script.index("grub-reboot rigops-trial")
    assert f"aside {grub.DROP_IN} " not in script


def test_arguments_that_the_kernel_came_up_with_become_permanent_and_the_entry_goes(
    alone: Path,
) -> None:
    found = state(Arguments(("iommu=pt",), (), BEFORE), custom=b"entry", unit=b"unit")
    rig = Rig(["iommu=pt"], found=found, running=f"{RUNNING} iommu=pt rigops.trial panic=10",
              boot_id=AFTER, deploy=alone)  # fmt: skip

    script = rig.apply()

    assert f"aside {grub.DROP_IN} " in script
    assert "grub-mkconfig" in script
    assert "systemctl stop rigops-trial.service" in script  # which confirms it
    assert f"rm -f {CUSTOM}" in script
    assert recorded(script) == Arguments()


def test_a_plan_of_what_was_tried_takes_no_argument_away(alone: Path) -> None:
    """The run that was to make it permanent was interrupted during the trial boot."""
    record = Arguments(trying=("iommu=pt",), armed_in=BEFORE, cards=OPTIONS.cards)

    plan = Rig(
        ["iommu=pt"],
        found=state(record),
        running=f"{RUNNING} iommu=pt",
        boot_id=AFTER,
        deploy=alone,
    ).plan()

    (change,) = plan.changes
    assert (change.kind, change.subject, change.before) == ("file", grub.DROP_IN, None)
    assert "iommu=pt" in str(change.after)
    assert plan.headlines == (("kernel_args", "tried kernel argument iommu=pt"),)


def test_a_trial_that_did_not_hold_leaves_nothing_behind(alone: Path) -> None:
    found = state(Arguments(("iommu=pt",), (), BEFORE), custom=b"entry", unit=b"unit")
    rig = Rig(["iommu=pt"], found=found, boot_id=AFTER, log="", deploy=alone)

    script = rig.apply(given_up=True)

    assert f"rm -f {CUSTOM}" in script
    assert recorded(script) == Arguments()
    assert grub.DROP_IN not in script
    assert "grub-reboot rigops-trial" not in script


def test_the_next_run_tells_of_a_trial_that_nobody_could_tell_of(alone: Path) -> None:
    found = state(Arguments(("iommu=pt",), (), BEFORE), custom=b"entry", unit=b"unit")
    log = f"reached {AFTER} 12\ngiven-up 900\n"
    planned = Rig(["iommu=pt"], found=found, boot_id=AFTER, log=log, deploy=alone).plan()

    (text,) = (text for _, text in planned.notices if "earlier trial boot" in text)
    assert "it was not confirmed, and ended itself 900 s" in text
    assert planned.pending  # what is left of it goes


def test_where_no_boot_can_try_it_the_plan_says_why_and_wants_consent(alone: Path) -> None:
    rig = Rig(["iommu=pt"], ground=UNWRITABLE, deploy=alone)

    agreed, not_agreed = rig.plan(), rig.plan(Consent(no_trial=False))

    assert "btrfs" in agreed.no_trial
    assert not agreed.blocked
    assert [one.subject for one in agreed.changes] == [grub.DROP_IN]
    ((concern, reason),) = not_agreed.blocked
    assert concern == "kernel_args"
    assert "--accept-no-trial" in reason


def test_plain_pyinfra_refuses_what_it_cannot_try(alone: Path) -> None:
    rig = Rig(["iommu=pt"], deploy=alone)

    planned = rig.engine.plan("rig", [alone])

    ((_, reason),) = planned.blocked
    assert '"kernel_trial": "off"' in reason


def test_while_a_changed_value_is_tried_the_old_one_stays_in_every_other_boot(alone: Path) -> None:
    drop_in = grub.drop_in(["iommu=soft"])
    found = state(drop_in=drop_in.encode())
    rig = Rig(["iommu=pt"], found=found, drop_in=drop_in, running=f"{RUNNING} iommu=soft",
              deploy=alone)  # fmt: skip

    script = rig.apply(now=True)

    assert f"aside {grub.DROP_IN} " not in script
    entry = next(text for text in written(script) if "menuentry" in text)
    linux = next(line for line in entry.splitlines() if line.strip().startswith("linux"))
    assert " iommu=pt " in linux
    assert "iommu=soft" not in linux


def test_an_argument_that_runs_already_needs_no_trial(alone: Path) -> None:
    planned = Rig(["iommu=pt"], running=f"{RUNNING} iommu=pt", deploy=alone).plan()

    assert planned.trial_arguments == ()
    assert [one.subject for one in planned.changes] == [grub.DROP_IN]


def test_what_is_only_on_trial_goes_with_its_declaration(alone: Path) -> None:
    found = state(Arguments(("iommu=pt",)))

    assert Rig(None, found=found, deploy=alone).plan().undeclared == {"kernel_args": (ARGUMENTS,)}
    assert recorded(Rig([], found=found, deploy=alone).apply()) == Arguments()


def written(script: str) -> list[str]:
    lines = script.splitlines()
    return [
        b64decode(lines[at + 1]).decode()
        for at, line in enumerate(lines)
        if line.startswith("aside /") and line.endswith("<<'RIGOPS_END'")
    ]
