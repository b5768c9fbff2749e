"""What is shown is what is done: a plan, and an apply that keeps to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.concern import HostRequest
from rigops.concerns.nvidia_driver import record
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.host_run import HostRun
from rigops.facts.sections import Boot, RigopsState
from rigops.inventory.spec import RigSpec
from rigops.plan.change import Change, LaterChange, PackageChanges, Plan, UnplannedError
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.transport import Privilege, Target
from tests.unit.converge.fakes import NOTHING_COLLECTED, FakeHost, run_options

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/etc/things.conf"
FILE = """
from rigops.ownership.owned_files import owned_file

owned_file(concern="base", path="/etc/things.conf", content="{content}\\n")
"""
FORGET_DRIVER = """
from rigops.concerns.nvidia_driver.operations import driver_recorded

driver_recorded(driver=None)
"""


class Rig:
    def __init__(self, folder: Path, **deploys: str) -> None:
        self.host = FakeHost()
        self.deploys = []
        for name, text in deploys.items():
            path = folder / f"{name}.py"
            path.write_text(text)
            self.deploys.append(path)
        self.engine = Engine({"rig": {}})
        channel = HostChannel(self.host, Privilege("root"))
        channel.cache.seed_files([PATH], {})
        pinned = StateFacts(records={record.PATH: record.document(PINNED)})
        self.engine.attach("rig", channel, [(RigopsState, pinned), (Boot, Boot.section.parse(""))])

    def plan(self) -> Plan:
        return self.engine.plan("rig", self.deploys)

    def apply(self, shown: Plan) -> None:
        self.engine.apply("rig", self.deploys, shown=shown)


PINNED = record.PinnedDriver(version="535.261.03", flavor="proprietary", declared="535")


def test_what_the_plan_shows_is_done(tmp_path: Path) -> None:
    rig = Rig(tmp_path, base=FILE.format(content="a"))

    rig.apply(rig.plan())

    assert f"aside {PATH}" in rig.host.sent[-1].stdin


def test_a_change_that_the_plan_does_not_show_is_refused_by_name(tmp_path: Path) -> None:
    rig = Rig(tmp_path, base=FILE.format(content="a"))

    with pytest.raises(UnplannedError, match=f"base: {PATH} would change") as refused:
        rig.apply(Plan())

    assert refused.value.problems[0].fix == "run rigops plan again"
    assert rig.host.sent == []


def test_a_change_that_comes_to_something_else_is_refused_with_the_difference(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, base=FILE.format(content="b"))
    shown = Plan(changes=(Change("base", "file", PATH, None, "a\n"),))

    with pytest.raises(UnplannedError, match=r"-a; \+b"):
        rig.apply(shown)

    assert rig.host.sent == []


def test_what_is_known_only_later_is_done_where_the_plan_names_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path, base=FILE.format(content="a"))

    rig.apply(Plan(later=(LaterChange("base", "file", PATH, "after the packages"),)))

    assert f"aside {PATH}" in rig.host.sent[-1].stdin


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("server.shell", 'server.shell(commands=["true"])'),
        ("files.put", "files.put(src=__import__('io').StringIO('a'), dest='/etc/a')"),
    ],
)
def test_an_operation_that_reports_no_change_is_refused_by_name(
    tmp_path: Path, operation: str, call: str
) -> None:
    imports = "from pyinfra.operations import files, server\n"
    rig = Rig(tmp_path, base=imports + call)

    ((concern, reason),) = rig.plan().blocked

    assert (concern, operation in reason) == ("base", True)


def test_a_command_of_such_an_operation_is_not_run(tmp_path: Path) -> None:
    text = "from pyinfra.operations import server\nserver.shell(commands=['true'])\n"
    rig = Rig(tmp_path, base=text)

    with pytest.raises(Exception, match=r"server\.shell"):
        rig.apply(Plan())

    assert rig.host.sent == []


def test_a_stale_record_alone_is_pending_and_is_brought_up_to_date(tmp_path: Path) -> None:
    """As a prune leaves it that was cut off between the files and the record."""
    rig = Rig(tmp_path, nvidia_driver=FORGET_DRIVER)
    run = HostRun(
        HostRequest("rig", Target(name="rig"), {}, RigSpec()), run_options(rig.deploys), rig.engine
    )
    run._session.last_snapshot = NOTHING_COLLECTED
    run._plan()

    assert run.result.pending
    assert run.result.status == "pending"
    rig.apply(run.result.plan)
    assert record.PATH in rig.host.sent[-1].stdin


def test_packages_of_a_blocked_concern_are_not_shown() -> None:
    plan = Plan(packages_by={"a": PackageChanges(), "b": PackageChanges()})

    assert plan.without({"a"}).packages_by == {"b": PackageChanges()}
