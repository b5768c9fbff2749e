"""What a plan that is made a second time still knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.converge.agreement import Agreement
from rigops.converge.concerns import Selection
from rigops.converge.connector import Seat
from rigops.converge.engine import Engine
from rigops.converge.lock import Holder
from rigops.converge.result import Withheld
from rigops.converge.rig import Rig
from rigops.converge.seeing import Sight
from rigops.converge.wanted import Run, Wanted
from rigops.operations.change import Repair
from rigops.spec import RigSpec
from rigops.transport import HostKeyPolicy, Privilege, Target
from tests.unit.converge.fakes import FakeHost

if TYPE_CHECKING:
    from pathlib import Path

UNSEEN = Sight(
    boot=None, bootloader=None, command_line=None, driver=None, silicon=None, state=None,
    system=None, uname=None, known=(), paths=(), files={},
)  # fmt: skip
HEAD = """
from pyinfra.api.operation import operation
from pyinfra.context import host
from rigops.operations.blocked import blocked
from rigops.operations.change import Repair, announce_repair
from rigops.operations.consent import given, may_undo
"""
GOES = f"""{HEAD}
may_undo(host, "goes", ["/etc/goes"])
"""
STUCK = f"""{HEAD}
@operation()
def stuck():
    announce_repair(host, Repair("dpkg was interrupted", "cure", given(host).repair))
    if not given(host).repair:
        yield blocked(host, "stuck", "dpkg was interrupted")

stuck()
"""


def planned(folder: Path) -> Rig:
    deploys = {"goes": GOES, "stuck": STUCK}
    for name, text in deploys.items():
        (folder / f"{name}.py").write_text(text)
    run = Run(
        selection=Selection(),
        deploys=[folder / f"{name}.py" for name in deploys],
        host_keys=HostKeyPolicy(),
        sudo_password=None,
        holder=Holder("me@here", "run", "2026-11-21T10:00:00Z"),
        inventory_digest="",
        at="2026-11-21T10:00:00Z",
        tell=lambda *_: None,
    )
    engine = Engine({"rig": {}})
    engine.attach("rig", Seat(FakeHost(), Privilege("root")), [])
    rig = Rig(Wanted("rig", Target(name="rig"), {}, RigSpec()), run, engine)
    rig._visit._sight = UNSEEN
    rig._note(rig._deploying.plan_of_all(None))
    return rig


def test_what_is_in_the_way_of_one_concern_stays_known_when_another_is_withheld(
    tmp_path: Path,
) -> None:
    rig = planned(tmp_path)

    rig.agree(Agreement())

    assert rig.result.withheld == (Withheld("goes", ("/etc/goes",)),)
    assert [one.reason for one in rig.result.blocked] == ["dpkg was interrupted"]


def test_what_a_repair_cures_is_no_longer_in_the_way_of_the_plan(tmp_path: Path) -> None:
    rig = planned(tmp_path)
    before = rig.result.blocked, rig.result.repairs

    rig.mend()

    offered = Repair("dpkg was interrupted", "cure", agreed=False)
    assert ([one.concern for one in before[0]], before[1]) == (["stuck"], (offered,))
    assert rig.result.blocked == ()
    assert rig.result.repairs == (Repair("dpkg was interrupted", "cure", agreed=True),)
    assert rig.result.pending
