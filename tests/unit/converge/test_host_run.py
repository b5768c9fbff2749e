"""What a plan that is made a second time still knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.concerns.concern import HostRequest
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError
from rigops.converge.host_run import HostRun
from rigops.converge.request import Confirmed
from rigops.converge.result import Withheld
from rigops.facts.sections import Boot, RigopsState
from rigops.inventory.spec import RigSpec
from rigops.plan.change import Repair
from rigops.transport import Privilege, Target
from tests.unit.converge.fakes import NOTHING_COLLECTED, FakeHost, run_options

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
from pyinfra.api.operation import operation
from pyinfra.context import host
from rigops.plan.blocked import blocked
from rigops.plan.change import Repair
from rigops.plan.context import announce_repair
from rigops.plan.context import consent_of, may_undo
"""
GOES = f"""{HEAD}
may_undo(host, "acs", ["/etc/goes"])
"""
STUCK = f"""{HEAD}
@operation()
def stuck():
    announce_repair(host, Repair("dpkg was interrupted", "cure", consent_of(host).repair))
    if not consent_of(host).repair:
        yield blocked(host, "base", "dpkg was interrupted")

stuck()
"""


def planned(folder: Path) -> HostRun:
    deploys = {"acs": GOES, "base": STUCK}
    for name, text in deploys.items():
        (folder / f"{name}.py").write_text(text)
    options = run_options([folder / f"{name}.py" for name in deploys])
    engine = Engine({"rig": {}})
    known = [(fact, fact.section.parse("")) for fact in (Boot, RigopsState)]
    engine.attach("rig", HostChannel(FakeHost(), Privilege("root")), known)
    rig = HostRun(HostRequest("rig", Target(name="rig"), {}, RigSpec()), options, engine)
    rig._session.last_snapshot = NOTHING_COLLECTED
    rig._plan()
    return rig


def test_what_is_in_the_way_of_one_concern_stays_known_when_another_is_withheld(
    tmp_path: Path,
) -> None:
    rig = planned(tmp_path)

    rig.confirm(Confirmed())

    assert rig.result.withheld == (Withheld("acs", ("/etc/goes",)),)
    assert [one.reason for one in rig.result.blocked] == ["dpkg was interrupted"]


def test_what_fails_between_two_stages_names_the_one_before(tmp_path: Path) -> None:
    rig = planned(tmp_path)
    rig._session.touched = True

    rig.fail(DeployError("something is still not as declared"))

    assert rig.result.story == ["failed in the stage plan"]


def test_what_a_repair_cures_is_no_longer_in_the_way_of_the_plan(tmp_path: Path) -> None:
    rig = planned(tmp_path)
    before = rig.result.blocked, rig.result.plan.repairs

    rig.repair()

    offered = Repair("dpkg was interrupted", "cure", agreed=False)
    assert ([one.concern for one in before[0]], before[1]) == (["base"], (offered,))
    assert rig.result.blocked == ()
    assert rig.result.plan.repairs == (Repair("dpkg was interrupted", "cure", agreed=True),)
    assert rig.result.pending
