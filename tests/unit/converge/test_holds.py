"""Packages that are held, planned and applied from what dpkg and the record say."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.facts.sections import GpuPackages, RigopsState
from rigops.packages.dpkg import DpkgState, Entry
from rigops.packages.facts import Dpkg
from rigops.packages.records import HOLDS_RECORD, Holds
from rigops.plan.context import Consent
from rigops.probe.sections.packages import Package, Packages
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.transport import Privilege, Result
from tests.unit.converge.fakes import FakeHost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rigops.plan.change import Plan

HELD = "packages that are held"
A, B, C = "linux-headers-amd64", "linux-image-amd64", "nvidia-driver"
DEPLOY = """
from rigops.packages.operations import held

held(concern="things", names={names!r}, declared={declared!r})
"""
METAS = """
from pyinfra.context import host
from rigops.packages.operations import held, kernel_metas

held(concern="things", names=kernel_metas(host))
"""


class Quiet(HostChannel):
    def run_streaming(self, argv: Sequence[str], stdin: bytes, deadline_s: float) -> Result:
        return self.run(argv, stdin, deadline_s)


class Rig:
    """`dpkg`: what is installed, and whether it is held."""

    def __init__(
        self,
        folder: Path,
        dpkg: Mapping[str, bool],
        record: Mapping[str, str] | None = None,
        *,
        manager: Any = "apt",
    ) -> None:
        self.host = FakeHost()
        self.deploy = folder / "things.py"
        self.engine = Engine({"rig": {}})
        self.dpkg, self.manager = dpkg, manager
        self.channel = Quiet(self.host, Privilege("root"))
        records = {} if record is None else {HOLDS_RECORD: Holds(record).to_json()}
        self.engine.attach("rig", self.channel, [(RigopsState, StateFacts(records=records))])

    def declare(self, *names: str, declared: bool = True) -> None:
        text = DEPLOY.format(names=names, declared=declared)
        self.deploy = self.deploy.with_name(f"{sha256(text.encode()).hexdigest()[:8]}.py")
        self.deploy.write_text(text)
        entries = tuple(
            Entry(name, "amd64", "1", "i", held=is_held) for name, is_held in self.dpkg.items()
        )
        listed = [Package(one.name, "1", "amd64", "hi" if one.held else "ii") for one in entries]
        of_apt = self.manager == "apt"
        self.channel.cache.seed(GpuPackages, Packages(tuple(listed) if of_apt else ()))
        state = DpkgState(manager=self.manager, architecture="amd64", entries=entries)
        # Whichever of them are asked for.
        for asked in ({*names}, {*names, A}, {*names, B}, {*names, A, B}):
            self.channel.cache.seed(Dpkg, state, names=tuple(sorted(asked)))

    def plan(self, removals: tuple[str, ...] = ()) -> Plan:
        return self.engine.plan("rig", [self.deploy], consent=Consent(removals=removals))

    def script(self, removals: tuple[str, ...] = ()) -> str:
        self.engine.apply("rig", [self.deploy], consent=Consent(removals=removals))
        wait, sent = self.host.sent
        assert "wait_for_locks" in wait.stdin
        return sent.stdin


def told(planned: Plan) -> list[tuple[str, str | None, str | None]]:
    return [(one.subject, one.before, one.after) for one in planned.changes]


def records(script: str) -> list[dict[str, str]]:
    """As the script writes them, one after the other."""
    blocks = re.findall(r"(?m)^aside \S+holds.json \S+ <<\S+\n([A-Za-z0-9+/=\n]+)\n", script)
    return [json.loads(b64decode(block.replace("\n", "")))["holds"] for block in blocks]


def test_what_is_not_held_is_held_and_written_down_before(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: False, B: False})
    rig.declare(A, B)

    assert told(rig.plan()) == [
        (HELD, None, f"{A}\n{B}\n"),
    ]
    script = rig.script()
    assert records(script) == [{A: "things", B: "things"}]
    assert f" hold {A} {B}\n" in script
    assert script.index(f"settle {HOLDS_RECORD}") < script.index("apt-mark")


def test_what_somebody_else_holds_stays_theirs(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: True, B: False})
    rig.declare(A, B)
    script = rig.script()

    assert records(script) == [{B: "things"}]
    assert f" hold {B}\n" in script


@pytest.mark.parametrize("record", [None, {A: "things"}, {A: "others"}])
def test_what_is_held_already_is_as_declared(
    tmp_path: Path, record: Mapping[str, str] | None
) -> None:
    rig = Rig(tmp_path, {A: True}, record)
    rig.declare(A)

    assert not rig.plan().pending


def test_a_hold_of_ours_that_somebody_released_is_made_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: False}, {A: "things"})
    rig.declare(A)

    assert f" hold {A}\n" in rig.script()


def test_what_is_not_named_any_more_is_released_and_then_forgotten(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: True, B: True, C: True}, {A: "things", B: "things", C: "others"})
    rig.declare(B)

    assert told(rig.plan()) == [(HELD, f"{A}\n", None)]
    script = rig.script()
    assert f" unhold {A}\n" in script
    assert " hold " not in script
    assert records(script) == [{B: "things", C: "others"}]
    assert script.index("unhold") < script.index(f"settle {HOLDS_RECORD}")


def test_only_holds_of_ours_are_released(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: True, B: True}, {A: "others"})
    rig.declare()

    assert not rig.plan().pending


def test_a_hold_that_is_not_there_any_more_is_only_forgotten(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {B: False}, {A: "things", B: "things"})
    rig.declare()
    script = rig.script()

    assert "unhold" not in script
    assert records(script) == [{}]


def test_holds_of_a_concern_that_is_lost_are_released_only_by_consent(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: True}, {A: "things"})
    rig.declare(declared=False)

    planned = rig.plan()
    assert not planned.pending
    assert planned.undeclared == {"things": (A,)}
    assert rig.plan(removals=("things",)).pending
    assert f" unhold {A}\n" in rig.script(removals=("things",))


def test_a_package_that_is_going_to_come_is_in_the_plan(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {})
    rig.declare(C)

    assert told(rig.plan()) == [(HELD, None, f"{C}\n")]


def test_a_record_that_cannot_be_read_stands_in_the_way(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: False})
    rig.engine.attach("rig", rig.channel, [(RigopsState, StateFacts(records={HOLDS_RECORD: "{"}))])
    rig.declare(A)

    ((concern, reason),) = rig.plan().blocked
    assert concern == "things"
    assert f"{HOLDS_RECORD} is damaged" in reason


def test_without_apt_nothing_can_be_held(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: False}, manager="pacman")
    rig.declare(A)

    ((_, reason),) = rig.plan().blocked
    assert reason == "packages are held with apt only, and this host has pacman"


def test_the_packages_that_bring_newer_kernels_are_known_by_their_names(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {A: True, B: False})
    rig.declare()
    rig.deploy.write_text(METAS)
    names = {
        A: "hi", B: "ii", "linux-image-6.1.0-49-amd64": "ii", "linux-headers-6.1.0-49-common": "ii",
        "linux-generic-hwe-22.04": "rc", C: "ii",
    }  # fmt: skip
    found = Packages(tuple(Package(name, "1", "amd64", status) for name, status in names.items()))
    rig.engine.attach("rig", rig.channel, [(GpuPackages, found)])

    assert told(rig.plan()) == [(HELD, None, f"{B}\n")]
