"""The base deploy, planned and applied by the engine; its scripts are really run, on a folder."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops import assets
from rigops.concerns.base import decide, limits
from rigops.concerns.base.facts import HostState, LimitSurroundings
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError
from rigops.facts.files import FileFound
from rigops.facts.sections import Limits, Nccl, RigopsState
from rigops.ownership.owned_lines import companion
from rigops.ownership.ownership import Ownership
from rigops.plan.context import Consent
from rigops.probe.sections.limits import Limits as LimitFacts
from rigops.probe.sections.nccl import Nccl as NcclFacts
from rigops.probe.sections.nccl import Setting
from rigops.probe.sections.rigops_state import RECORD, Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.transport import Privilege, Result
from tests.unit.converge.fakes import FakeHost

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyinfra.api.facts import FactBase

    from rigops.plan.change import Plan

DEPLOY = assets.find("deploys") / "base.py"
CONF = decide.NCCL_CONF
LINES = companion(CONF)
PATHS = (
    CONF,
    LINES,
    decide.LOGIND,
    limits.LOGINS,
    limits.SERVICES,
    decide.SHM_PATH,
)
LEVEL = {"NCCL_P2P_LEVEL": "SYS"}
BLOCK = b"""\
# rigops owns the lines from here on
NCCL_P2P_LEVEL=SYS
# rigops owns the lines up to here
"""
THEIRS = b"\xc3\xa9 mine\r\nNCCL_DEBUG=WARN"


class FolderHost(FakeHost):
    """Paths of scripts are put below a folder; what systemd and mount are told is written down."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.root = folder / "root"
        (self.root / "etc").mkdir(parents=True)
        self.told = folder / "told"
        self.told.touch()
        commands = folder / "bin"
        commands.mkdir()
        for name in ("systemctl", "mount", "sync"):
            program = commands / name
            said = "" if name == "sync" else f'echo "{name} $*" >>{self.told}'
            program.write_text(f"#!/bin/sh\n{said}\n")
            program.chmod(0o755)
        self._path = f"{commands}:{os.environ['PATH']}"
        self.stop_at: int | None = None  # which command of a script is its last

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        privilege: Privilege | None = None,
        deadline_s: float,
        max_output: int = 0,
    ) -> Result:
        super().run(argv, stdin=stdin, deadline_s=deadline_s)
        script = _stopped(self.sent[-1].stdin, self.stop_at)
        for folder in ("/etc/", "/run/", "/var/lib/rigops"):
            script = script.replace(folder, f"{self.root}{folder}")
        ran = subprocess.run(
            list(argv), input=script.encode(), capture_output=True, check=False,
            env={"PATH": self._path},
        )  # fmt: skip
        return Result(exit_code=ran.returncode, stdout=ran.stdout, stderr=ran.stderr)

    def at(self, path: str) -> Path:
        return Path(f"{self.root}{path}")

    def found(self, path: str) -> FileFound | None:
        if not self.at(path).is_file():
            return None
        content = self.at(path).read_bytes()
        mode = self.at(path).stat().st_mode & 0o7777
        return FileFound(
            Present(sha256(content).hexdigest(), mode), content.decode("utf-8", "replace")
        )

    def state(self) -> StateFacts:
        record = self.found(RECORD)
        owned = Ownership.parse(record.text).files if record else ()
        there = {path: one.present for path in owned if (one := self.found(path))}
        return StateFacts(owned=record.text if record else None, present=there)


def _stopped(script: str, at: int | None) -> str:
    """With `exit` after so many commands of the steps, here-documents counted to their command."""
    head, steps, body = script.partition("main() {\n")
    if at is None or not steps:
        return script
    lines: list[str] = []
    commands, inside = 0, False
    for line in body.split("\n"):
        is_command = not inside and not line.startswith("RIGOPS_END")
        if is_command and commands == at:
            lines.append("exit 9")
        commands += is_command
        inside = line.endswith("<<'RIGOPS_END'") or (inside and line != "RIGOPS_END")
        lines.append(line)
    return head + steps + "\n".join(lines)


class Rig:
    def __init__(self, folder: Path) -> None:
        self.host = FolderHost(folder)
        self.limits = LimitFacts()
        self.around = HostState(systemd=True, memory_bytes=1 << 36, most_files=1 << 20)
        self.nccl = NcclFacts()

    def conf(self) -> bytes | None:
        path = self.host.at(CONF)
        return path.read_bytes() if path.exists() else None

    def has(self, content: bytes) -> None:
        self.host.at(CONF).write_bytes(content)

    def engine(self, **data: object) -> Engine:
        engine = Engine({"rig": data})
        channel = HostChannel(self.host, Privilege("root"))
        channel.cache.seed_files(
            PATHS, {path: one for path in PATHS if (one := self.host.found(path))}
        )
        known: list[tuple[type[FactBase[Any]], object]] = [
            (RigopsState, self.host.state()), (Limits, self.limits),
            (LimitSurroundings, self.around), (Nccl, self.nccl),
        ]  # fmt: skip
        engine.attach("rig", channel, known)
        return engine

    def plan(self, *, removals: Collection[str] | None = None, **data: object) -> Plan:
        before = len(self.host.sent)
        planned = self.engine(**data).plan("rig", [DEPLOY], consent=Consent(removals=removals))
        assert len(self.host.sent) == before  # a plan touches nothing
        return planned

    def apply(self, *, removals: Collection[str] = (), **data: object) -> Plan:
        engine = self.engine(**data)
        planned = engine.plan("rig", [DEPLOY], consent=Consent(removals=removals))
        engine.apply("rig", [DEPLOY], consent=Consent(removals=removals))
        return planned


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def subjects(planned: Plan) -> set[str]:
    return {change.subject for change in planned.changes}


def test_a_file_that_is_not_there_is_made_and_goes_again(rig: Rig) -> None:
    planned = rig.apply(nccl=LEVEL)

    assert subjects(planned) == {CONF}
    assert b"\nNCCL_P2P_LEVEL=SYS\n" in (rig.conf() or b"")
    assert not rig.plan(nccl=LEVEL).pending

    gone = rig.apply(nccl={})
    assert [(change.subject, change.after) for change in gone.changes] == [(CONF, None)]
    assert rig.conf() is None
    assert rig.host.state().present == {}
    assert not rig.plan(nccl={}).pending


def test_an_empty_file_of_somebody_elses_stays_when_our_lines_go(rig: Rig) -> None:
    rig.has(b"")
    rig.apply(nccl=LEVEL)
    rig.apply(nccl={})

    assert rig.conf() == b""


def test_a_users_bytes_and_mode_are_the_same_before_and_after(rig: Rig) -> None:
    rig.has(THEIRS)
    rig.host.at(CONF).chmod(0o600)

    rig.apply(nccl=LEVEL)
    assert rig.conf() == BLOCK + THEIRS
    rig.apply(nccl={"NCCL_P2P_LEVEL": "PHB"})
    assert rig.conf() == BLOCK.replace(b"SYS", b"PHB") + THEIRS
    rig.apply(nccl={})

    assert rig.conf() == THEIRS
    assert rig.host.at(CONF).stat().st_mode & 0o7777 == 0o600


def test_what_a_user_writes_around_our_lines_is_no_change_of_them(rig: Rig) -> None:
    rig.apply(nccl=LEVEL)
    rig.has(b"# above\n" + (rig.conf() or b"") + THEIRS)

    assert not rig.plan(nccl=LEVEL).pending
    rig.apply(nccl={})
    assert rig.conf() == b"# above\n" + THEIRS


def test_a_link_stays_a_link(rig: Rig) -> None:
    real = rig.host.at("/etc/site-nccl.conf")
    real.write_bytes(THEIRS)
    rig.host.at(CONF).symlink_to(real)

    rig.apply(nccl=LEVEL)

    assert rig.host.at(CONF).is_symlink()
    assert real.read_bytes() == BLOCK + THEIRS


def test_a_line_that_a_user_has_already_is_neither_written_again_nor_owned(rig: Rig) -> None:
    rig.has(b"NCCL_P2P_LEVEL=SYS\n")

    assert not rig.plan(nccl=LEVEL).pending
    rig.apply(nccl={**LEVEL, "NCCL_DEBUG": "WARN"})
    rig.apply(nccl={})
    assert rig.conf() == b"NCCL_P2P_LEVEL=SYS\n"


def test_another_value_of_a_users_is_in_the_way_and_nothing_is_changed(rig: Rig) -> None:
    rig.has(b"NCCL_P2P_LEVEL=LOC\n")
    planned = rig.plan(nccl={**LEVEL, "NCCL_DEBUG": "WARN"}, limits={"nofile": 65536})

    ((concern, reason),) = planned.blocked
    assert (concern, planned.changes) == ("base", ())
    assert "NCCL_P2P_LEVEL=LOC" in reason
    with pytest.raises(DeployError, match="NCCL_P2P_LEVEL=LOC"):
        rig.apply(nccl=LEVEL)
    assert rig.conf() == b"NCCL_P2P_LEVEL=LOC\n"


def test_what_is_in_the_way_of_one_thing_takes_nothing_back(rig: Rig) -> None:
    rig.apply(nccl=LEVEL)
    before = rig.conf()
    with pytest.raises(DeployError, match=r"fs\.nr_open"):
        rig.apply(limits={"nofile": 1 << 29})

    assert rig.conf() == before


@pytest.mark.parametrize(
    "content", [b"\xff\n", b"# rigops owns the lines up to here\n", b"x" * 65537]
)
def test_a_file_that_cannot_be_kept_byte_for_byte_is_let_alone(rig: Rig, content: bytes) -> None:
    rig.has(content)
    engine = rig.engine(nccl=LEVEL)
    if len(content) > 65536:
        (found,) = [rig.host.found(CONF)]
        assert found is not None
        engine = Engine({"rig": {"nccl": LEVEL}})
        channel = HostChannel(rig.host, Privilege("root"))
        cut = FileFound(found.present, found.text[:65536])
        channel.cache.seed_files([CONF], {CONF: cut})
        engine.attach("rig", channel, [(RigopsState, StateFacts())])

    assert engine.plan("rig", [DEPLOY]).blocked
    assert rig.conf() == content


def test_lines_of_ours_that_somebody_changed_are_put_right_and_a_copy_stays(rig: Rig) -> None:
    rig.has(THEIRS)
    rig.apply(nccl=LEVEL)
    changed = BLOCK.replace(b"SYS", b"LOC") + THEIRS
    rig.has(changed)

    planned = rig.apply(nccl=LEVEL)

    (change,) = planned.changes
    assert change.by_hand
    assert planned.meaning == ("NCCL settings (add NCCL_P2P_LEVEL=SYS; remove NCCL_P2P_LEVEL=LOC)",)
    assert rig.conf() == BLOCK + THEIRS
    copies = list(rig.host.at("/var/lib/rigops/previous").iterdir())
    assert [copy.read_bytes() for copy in copies] == [changed]


def test_lines_of_ours_that_somebody_changed_are_not_taken_back_but_shown(rig: Rig) -> None:
    rig.apply(nccl=LEVEL)
    changed = (rig.conf() or b"").replace(b"SYS", b"LOC")
    rig.has(changed)

    planned = rig.apply(nccl={})

    assert any("left alone" in text for _, text in planned.notices)
    assert rig.conf() == changed
    assert not rig.plan(nccl={}).pending


def test_a_file_that_changes_between_plan_and_apply_is_not_overwritten(rig: Rig) -> None:
    rig.has(THEIRS)
    engine = rig.engine(nccl=LEVEL)
    assert engine.plan("rig", [DEPLOY]).pending
    rig.has(b"NCCL_DEBUG=INFO\n")

    with pytest.raises(DeployError, match="changed meanwhile"):
        engine.apply("rig", [DEPLOY])
    assert rig.conf() == b"NCCL_DEBUG=INFO\n"
    rig.apply(nccl=LEVEL)
    assert rig.conf() == BLOCK + b"NCCL_DEBUG=INFO\n"


@pytest.mark.parametrize("wanted", [LEVEL, {"NCCL_P2P_LEVEL": "PHB"}, {}])
def test_after_a_crash_anywhere_the_next_apply_finishes_the_work(
    tmp_path: Path, wanted: dict[str, str]
) -> None:
    value = wanted.get("NCCL_P2P_LEVEL", "").encode()
    at, crashed = 0, True
    while crashed:
        rig = Rig(tmp_path / str(at))
        rig.has(THEIRS)
        if wanted != LEVEL:
            rig.apply(nccl=LEVEL)
        rig.host.stop_at = at
        with suppress(DeployError):
            rig.apply(nccl=wanted)
            crashed = False
        at += 1

        assert (rig.conf() or b"").endswith(THEIRS)
        rig.host.stop_at = None
        rig.apply(nccl=wanted)

        assert rig.conf() == (BLOCK.replace(b"SYS", value) + THEIRS if wanted else THEIRS)
        assert not rig.plan(nccl=wanted).pending
        assert not list(rig.host.root.rglob("*.rigops-new"))
    assert at > 9  # the script was cut everywhere, and at last not at all


def test_a_place_that_nccl_reads_first_is_named(rig: Rig) -> None:
    line = "NCCL_P2P_LEVEL=LOC"
    setting = Setting(
        name="NCCL_P2P_LEVEL", value="LOC", file="/root/.nccl.conf", number=3, line=line
    )
    rig.nccl = NcclFacts(settings=(setting,))

    notices = [text for _, text in rig.plan(nccl=LEVEL).notices]
    assert notices == [f"/root/.nccl.conf line 3 overrides it: {line}"]


def test_limits_are_written_in_one_exec_and_each_is_put_in_force(rig: Rig) -> None:
    declared = {"shm": "8G", "memlock": "unlimited", "nofile": 65536, "removeipc": False}
    rig.limits = LimitFacts(shm_bytes=1 << 35)
    rig.around = replace(rig.around, service_nofile=1024, remove_ipc=True)

    planned = rig.apply(limits=declared, nccl=LEVEL)

    assert subjects(planned) == set(PATHS) - {LINES}
    assert len(rig.host.sent) == 1
    told = rig.host.told.read_text().splitlines()
    assert "systemctl daemon-reload" not in told
    assert "systemctl enable --quiet --no-reload rigops-shm.service" in told
    assert "systemctl restart rigops-shm.service" in told
    assert "systemctl kill --kill-who=main --signal=HUP systemd-logind.service" in told
    assert any("until they are restarted" in text for _, text in planned.notices)


def test_what_holds_is_left_alone_and_what_somebody_set_beside_it_is_put_right(rig: Rig) -> None:
    declared = {"shm": "8G", "removeipc": False}
    rig.apply(limits=declared)
    rig.limits = LimitFacts(shm_bytes=1 << 33)
    rig.around = replace(rig.around, remove_ipc=False)
    assert not rig.plan(limits=declared).pending

    rig.limits = LimitFacts(shm_bytes=1 << 34)
    planned = rig.apply(limits=declared)
    assert subjects(planned) == {decide.SHM_PATH}
    assert rig.host.told.read_text().splitlines()[-1] == "systemctl restart rigops-shm.service"


def test_a_limit_that_is_taken_out_is_undone_and_the_others_stay(rig: Rig) -> None:
    rig.apply(limits={"shm": "8G", "nofile": 65536})
    rig.host.told.write_text("")

    planned = rig.apply(limits={"nofile": 65536})

    assert subjects(planned) == {decide.SHM_PATH}
    assert not rig.host.at(decide.SHM_PATH).exists()
    assert rig.host.at(limits.LOGINS).exists()
    told = rig.host.told.read_text().splitlines()
    assert told == [
        "systemctl stop rigops-shm.service",
        "systemctl disable --quiet --no-reload rigops-shm.service",
        "mount -o remount,size=50% /dev/shm",
        "systemctl reset-failed rigops-shm.service",
    ]


def test_a_concern_that_nobody_declares_any_more_goes_only_with_consent(rig: Rig) -> None:
    rig.apply(limits={"shm": "8G"}, nccl=LEVEL)

    planned = rig.plan(removals=())
    assert planned.changes == ()
    assert set(planned.undeclared["base"]) == {LINES, decide.SHM_PATH}
    assert subjects(rig.plan()) == {CONF, decide.SHM_PATH}
    rig.apply(removals=("base",))
    assert rig.conf() is None
    assert rig.host.state().present == {}


def test_a_host_for_which_nothing_is_declared_is_asked_nothing() -> None:
    host = FakeHost()
    engine = Engine({"rig": {}})
    engine.attach("rig", HostChannel(host, Privilege("root")), [(RigopsState, StateFacts())])

    assert not engine.plan("rig", [DEPLOY]).pending
    assert host.sent == []
