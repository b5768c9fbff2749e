"""A driver that answers nobody, and what an examination leaves behind: nothing."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.probe.registry import SECTIONS
from tests.lab import machine
from tests.lab.frozen import UNTIL_IT_HOLDS
from tests.lab.laptop import Laptop, Said, Seen
from tests.lab.sshd import until
from tests.shards import LAB_FLEET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

# Waiting for sections to run out of time takes most of a minute.
pytestmark = pytest.mark.shard(LAB_FLEET)

ASKING_DRIVER = {one.name for one in SECTIONS if one.asks_driver}
LONGEST_S = sum(
    max(one.timeout_s for one in SECTIONS if one.asks_driver is asks) for asks in (False, True)
)
# Whoever looks.
NOT_OURS = re.compile(r"sshd: |ps -eo|systemd --user|\(sd-pam\)")
# What a login writes by itself.
WRITTEN_ANYWAY = re.compile(
    r"var/log/(journal/.*|lastlog|wtmp|btmp)"
    r"|run/(utmp|motd\.dynamic|user(/.*)?|systemd/(sessions|users|transient|inhibit)(/.*)?)"
    r"|run/(dbus|log)/.*|run/systemd/journal/streams/.*"
)


@dataclass(frozen=True)
class Hang:
    """One host whose nvidia-smi ignores TERM, one whose nvidia-smi not even KILL ends."""

    wedged: Host
    frozen: Host
    said: Said
    before: Mapping[str, set[str]]

    def seen(self, host: Host) -> Seen:
        return self.said.seen(host.name)


def _processes(host: Host) -> dict[str, str]:
    """Number, state and words of every process in the host, but of those that ask."""
    listed = host.run("ps -eo pid=,stat=,args=").stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return {pid: f"{state[0]} {words}" for pid, state, words in rows if not NOT_OURS.search(words)}


@pytest.fixture(scope="module")
def hang(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Hang:
    wedged, frozen = module_lab.up("desktop-3060-1060", "nvlink-2x3090")
    wedged.set("smi=wedged")
    frozen.set("smi=unkillable")
    # Somebody else's, which stays.
    frozen.run(f"setsid nvidia-smi -L </dev/null >/dev/null 2>&1 & {UNTIL_IT_HOLDS}")
    before = {one.name: set(_processes(one)) for one in (wedged, frozen)}
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({wedged.name: {}, frozen.name: {}})
    return Hang(wedged, frozen, laptop.doctor("-i", "inventory.py"), before)


def test_it_takes_no_longer_than_the_sections_may(hang: Hang) -> None:
    for host in (hang.wedged, hang.frozen):
        assert hang.seen(host).host["duration_ms"] < (LONGEST_S + 30) * 1000


def test_the_sections_say_that_they_timed_out_and_the_driver_hangs(hang: Hang) -> None:
    for host in (hang.wedged, hang.frozen):
        seen = hang.seen(host)
        notes = seen.host["notes"]
        assert {note.split()[0] for note in notes} == ASKING_DRIVER
        assert all("did not answer within" in note for note in notes)
        found = seen.one("drv.hang")
        assert found["status"] == "fail"
        assert found["remedy"]["kind"] == "hands"
    assert hang.said.code == 1


def test_everything_else_is_still_judged(hang: Hang) -> None:
    for host in (hang.wedged, hang.frozen):
        seen = hang.seen(host)
        for check in ("drv.pin", "drv.dkms", "pkg.hold", "iommu.mode", "xid", "drv.loaded"):
            assert seen.one(check)["status"] == "ok", check
        assert seen.ids("fail") == {"drv.hang"}
        assert seen.host["facts"]["driver"] == "535.261.03"


def test_what_needs_nvidia_smi_is_unknown_and_says_why(hang: Hang) -> None:
    for host in (hang.wedged, hang.frozen):
        seen = hang.seen(host)
        for check in ("pwr.limit", "tmp.core", "remap", "clk.throttle"):
            assert seen.one(check)["status"] == "unknown"
            assert "did not answer in time" in seen.one(check)["summary"]


def _left(hang: Hang, host: Host) -> dict[str, str]:
    before = hang.before[host.name]
    return {pid: words for pid, words in _processes(host).items() if pid not in before}


def test_nothing_of_ours_is_left_where_it_can_be_ended(hang: Hang) -> None:
    until(lambda: _left(hang, hang.wedged) == {}, "their end")


def test_only_what_cannot_be_ended_is_left_and_it_holds_nothing_of_ours(hang: Hang) -> None:
    lanes = {one.lane or one.name for one in SECTIONS if one.asks_driver}
    # A lane asks no more after a command that does not end.
    until(lambda: len(_left(hang, hang.frozen)) <= len(lanes), "the end of all else")
    left = _left(hang, hang.frozen)

    assert len(left) == len(lanes)
    assert all(re.match(r"D .*nvidia-smi", words) for words in left.values()), left
    for pid in left:
        opened = hang.frozen.run(f"ls -l /proc/{pid}/fd | sed -n 's/.* -> //p'").stdout.split("\n")
        assert not [name for name in opened if re.match(r"socket:|/dev/pts|.*ssh", name)], opened


def test_no_session_of_ours_waits_for_them(hang: Hang) -> None:
    for host in (hang.wedged, hang.frozen):
        sessions = host.run("ps -eo args= | grep -c '^sshd: .*@notty'").stdout
        assert sessions.strip() == "1"  # the one that asks


def test_the_process_that_waits_for_the_driver_is_named(hang: Hang) -> None:
    found = hang.seen(hang.frozen).one("drv.hang")

    assert "cannot be ended" in found["summary"]
    assert any("state=D" in one["line"] for one in found["evidence"])


def test_thawed_it_answers_again_and_all_is_gone(hang: Hang, tmp_path: Path) -> None:
    hang.frozen.set("smi=ok")
    laptop = Laptop(tmp_path)
    laptop.declare({hang.frozen.name: {}})

    said = laptop.doctor("-i", "inventory.py")

    assert (said.code, said.seen().host["status"]) == (0, "ok")
    until(lambda: _left(hang, hang.frozen) == {}, "their end")


# ---- traces


@pytest.fixture(scope="module")
def quiet(module_lab: Lab) -> Host:
    return module_lab.one("epyc-8x4090")


def _tree(host: Host) -> dict[str, str]:
    """Whatever has been written: the host's own layer, and what it keeps in memory."""
    root = Path(f"/proc/{machine.leader(host.record)}/root")
    written = {"": host.root, **{name: root / name for name in ("run", "tmp", "dev/shm")}}
    return {
        str(Path(name) / path.relative_to(below)): _content(path)
        for name, below in written.items()
        for path in sorted(below.rglob("*"))
        if not path.is_relative_to(root / "run/rigsim")  # the hardware's
    }


def _content(path: Path) -> str:
    about = path.lstat()
    words = f"{stat.filemode(about.st_mode)} {about.st_uid} {about.st_gid}"
    if stat.S_ISLNK(about.st_mode):
        return f"{words} {path.readlink()}"
    if not stat.S_ISREG(about.st_mode):
        return words
    return f"{words} {about.st_mtime_ns} {sha256(path.read_bytes()).hexdigest()}"


@pytest.mark.parametrize("user", ["root", "rig"])
def test_an_examination_leaves_nothing_but_the_traces_of_a_login(
    quiet: Host, tmp_path: Path, user: str
) -> None:
    laptop = Laptop(tmp_path)
    laptop.declare({quiet.name: {"ssh_user": user}})
    quiet.run("true", user=user)  # so that a first login's traces are there
    processes, before = _processes(quiet), _tree(quiet)

    said = laptop.doctor("-i", "inventory.py")

    assert said.code == 0
    after = _tree(quiet)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {path for path in changed if not WRITTEN_ANYWAY.fullmatch(path)} == set()
    left = {pid: words for pid, words in _processes(quiet).items() if pid not in processes}
    assert left == {}
