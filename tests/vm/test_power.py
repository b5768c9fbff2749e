"""Power that is cut in the middle of an apply: the machine boots, and the next apply finishes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.lab import demo_deploy
from tests.lab.applying import DROP_IN, MENU
from tests.lab.demo_packages import Demo, publish, state
from tests.lab.laptop import RIGOPS, Laptop
from tests.shards import VM_POWER
from tests.vm.cutting import applying, cut_at, cut_when, switch_on
from tests.vm.trying import Tended

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_POWER)

HALF_WRITTEN = "find /boot /etc /usr/local /var/lib -name '*.rigops-new*'"
ASIDE = f"{MENU}.rigops-new"
SLOW = Demo("rigdemo-slow", "1.0", postinst="#!/bin/sh\nset -e\nsleep 20\n")
NEXT = Demo("rigdemo", "1.0")
JOURNAL = "/var/lib/rigops/journal.jsonl"
# Instead of dd, which adds a line to the journal: what of it is on the disk when the power goes.
TORN = f"""
mv /usr/bin/dd /usr/bin/dd.whole
cat >/usr/bin/dd <<'END'
#!/bin/sh
case "$*" in *{JOURNAL}*) ;; *) exec dd.whole "$@" ;; esac
cat >/run/line
size=$(stat -c %s /run/line)
head -c $((size * SHARE / 100)) /run/line >>{JOURNAL}
truncate -s +ZEROS {JOURNAL}
sync
touch /run/torn
exec sleep 600
END
chmod 755 /usr/bin/dd
"""


class Rig(Tended):
    def cut_off(self, moment: str, *options: str, program: Sequence[str] = RIGOPS) -> None:
        """Cut in the middle of an apply, which fails; the machine boots again."""
        with applying(self, *options, program=program) as running:
            cut_when(self.machine, moment)
            said = running.wait()
        switch_on(self.machine)
        assert said.code == 1, said

    def cut_into_the_trial(self, argument: str) -> None:
        """Cut once the trial is ordered, so that the machine boots into it."""
        self.declare(argument)
        with applying(self, "--reboot", "auto") as running:
            cut_at(self.machine, running, "reboot")
        switch_on(self.machine)
        assert "rigops.trial" in self.arguments

    def finish(self, argument: str) -> Mapping[str, Any]:
        """What the next apply says, which has to come to what is declared, and leave no trace."""
        code, host = self.apply("--reboot", "auto")

        assert (code, host["outcome"]) == (0, "changed"), host
        assert argument in self.arguments
        assert self.machine.ssh(f"grep -c {argument} {DROP_IN}") == "1"
        assert argument in self.machine.ssh(f"cat {MENU}")
        assert self.traces() == ""
        assert self.machine.ssh(HALF_WRITTEN) == ""
        self.machine.ssh(f"grub-script-check {MENU}")
        assert self.machine.ssh("dpkg --audit") == ""
        return host


@pytest.fixture(scope="module")
def rig(module_vm: Machines, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return Rig(module_vm.up(), Laptop(tmp_path_factory.mktemp("laptop")))


@pytest.mark.parametrize(
    ("argument", "moment"),
    [
        ("lab.begun=1", "pgrep -x grub-mkconfig"),
        # What is half written is on the disk too, which is the worst that can be left there.
        ("lab.half=1", f"grep -qs lab.half=1 {ASIDE}.new && sync"),
        ("lab.renamed=1", f"grep -qs lab.renamed=1 {MENU}"),
    ],
)
def test_a_cut_while_the_menu_is_made(rig: Rig, argument: str, moment: str) -> None:
    rig.declare(argument, kernel_trial="off")

    rig.cut_off(moment, "--reboot", "never")

    rig.machine.ssh(f"grub-script-check {MENU}")
    rig.finish(argument)


@pytest.mark.parametrize(
    ("share", "zeros", "is_torn"),
    [
        pytest.param(0, 0, False, id="before it"),
        pytest.param(50, 0, True, id="in its middle"),
        pytest.param(0, 300, True, id="zeros for it"),
        pytest.param(100, 0, False, id="after it"),
    ],
)
def test_a_cut_while_a_line_is_added_to_the_journal(
    rig: Rig, share: int, zeros: int, *, is_torn: bool
) -> None:
    rig.machine.ssh(f"rm -f {JOURNAL}")  # torn lines of an earlier row stay in it
    rig.declare(nccl={"NCCL_DEBUG": "WARN"})
    rig.apply()
    rig.machine.ssh(TORN.replace("SHARE", str(share)).replace("ZEROS", str(zeros)))
    rig.declare(nccl={"NCCL_DEBUG": "INFO"})
    rig.cut_off("test -e /run/torn")
    rig.machine.ssh("mv -f /usr/bin/dd.whole /usr/bin/dd")

    rig.declare(nccl={"NCCL_DEBUG": "TRACE"})
    code, host = rig.apply()

    assert (code, host["outcome"]) == (0, "changed"), host
    assert any(f"lines of {JOURNAL} cannot be read" in text for text in host["notices"]) is is_torn
    assert json.loads(rig.machine.ssh(f"tail -n 1 {JOURNAL}"))["outcome"] == "changed"
    assert rig.rigops("history", "--json").json()["runs"][0]["outcome"] == "changed"


def test_a_cut_between_configuration_and_reboot(rig: Rig) -> None:
    rig.declare("lab.owed=1")
    code, host = rig.apply("--reboot", "never")
    rig.machine.cut()
    switch_on(rig.machine)

    assert (code, host["outcome"]) == (0, "reboot_owed")
    assert "lab.owed=1" not in rig.arguments
    rig.finish("lab.owed=1")


def test_a_cut_once_the_trial_is_ordered_boots_the_trial_which_the_next_apply_confirms(
    rig: Rig,
) -> None:
    rig.cut_into_the_trial("lab.ordered=1")

    rig.finish("lab.ordered=1")


def test_a_cut_of_the_boot_that_tries_leads_back_and_the_next_apply_tells_and_tries_anew(
    rig: Rig,
) -> None:
    rig.cut_into_the_trial("lab.twice=1")
    rig.machine.cut()
    switch_on(rig.machine)

    assert "lab.twice=1" not in rig.arguments
    host = rig.finish("lab.twice=1")
    assert any("an earlier trial boot" in text for text in host["notices"]), host


def test_a_cut_in_the_middle_of_a_package(rig: Rig) -> None:
    """The lab's own small packages, installed by the operation that every deploy uses for them.

    The record of what this apply had begun came through the cut, so that --yes finishes it.
    """
    program = demo_deploy.PROGRAM
    wanted = {SLOW.name: None, NEXT.name: None}
    publish(rig.machine, [SLOW, NEXT])
    rig.declare()
    demo_deploy.write(rig.laptop.folder, wanted)

    rig.cut_off(f"pgrep -f '[r]{SLOW.name[1:]}.postinst'", program=program)

    assert state(rig.machine, SLOW.name) != "ii"
    with applying(rig, program=program) as running:
        finished = running.wait()
    assert finished.code == 0, finished
    for package in wanted:
        assert state(rig.machine, package) == "ii"
    assert rig.machine.ssh("dpkg --audit") == ""
