"""Taking the lock of one apply per host: here with this machine as the host."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.converge.lock import (
    ApplyLock,
    Holder,
    LockedError,
    LockError,
    Places,
    take,
    work_argv,
)
from rigops.transport import LOCAL, Connection, HostKeyPolicy, Privilege, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rigops.errors import Problem
    from rigops.transport.connection import Execution

ROOT = Path(__file__).resolve().parents[3]
KIM = Holder("kim@laptop", "run-of-kim", "2025-11-21T22:00:00Z")
LEE = Holder("lee@desk", "run-of-lee", "2025-11-21T22:30:00Z")
ROOTLY = Privilege("root")


@pytest.fixture
def here() -> Iterator[Connection]:
    with connect(LOCAL, host_keys=HostKeyPolicy()) as connection:
        yield connection


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(*(str(tmp_path / name) for name in ("state", "run", "dpkg")))


@pytest.fixture
def take_it(here: Connection, places: Places) -> Iterator[Callable[..., ApplyLock]]:
    taken: list[ApplyLock] = []

    def one(
        holder: Holder,
        *,
        tell: Callable[[str], None] = lambda _: None,
        deadline_s: float = 60,
        connection: Connection = here,
        privilege: Privilege = ROOTLY,
    ) -> ApplyLock:
        lock = take(connection, privilege, holder, tell=tell, deadline_s=deadline_s, places=places)
        taken.append(lock)
        return lock

    yield one
    for lock in taken:
        lock.release()


def refused(take_it: Callable[..., ApplyLock], holder: Holder, **how: object) -> Problem:
    with pytest.raises(LockError) as caught:
        take_it(holder, **how)
    (problem,) = caught.value.problems
    return problem


def test_a_lock_given_back_leaves_no_word(
    take_it: Callable[..., ApplyLock], places: Places
) -> None:
    lock = take_it(KIM)
    assert lock.notice == ""
    assert lock.held
    note = Path(places.state, "lock.json")
    assert json.loads(note.read_text())["who"] == "kim@laptop"

    lock.release()

    assert [lock.held] == [False]
    assert not note.exists()
    assert take_it(LEE).notice == ""


def test_a_live_holder_is_named_with_age_and_fix(take_it: Callable[..., ApplyLock]) -> None:
    lock = take_it(KIM)

    with pytest.raises(LockedError) as caught:
        take_it(LEE)

    (problem,) = caught.value.problems
    assert problem.host == "@local"
    assert problem.message.startswith(
        "@local is locked by an apply of kim@laptop, begun 2025-11-21T22:00:00Z, held for "
    )
    assert problem.message.endswith(" s")
    pid = problem.fix.rpartition("kill ")[2]
    assert Path("/proc", pid).exists()
    lock.release()
    assert take_it(LEE).held


def test_what_a_lost_connection_leaves_is_taken_over_with_a_notice(
    take_it: Callable[..., ApplyLock],
) -> None:
    take_it(KIM).holding.release()

    lock = take_it(LEE)

    assert lock.notice == (
        "took over the lock of an apply of kim@laptop, begun 2025-11-21T22:00:00Z, "
        "which did not end properly"
    )


def test_a_release_that_was_broken_off_is_not_called_an_apply(
    take_it: Callable[..., ApplyLock],
) -> None:
    take_it(replace(KIM, command="release")).holding.release()

    assert take_it(LEE).notice.startswith("took over the lock of a release of kim@laptop, begun")


def test_our_own_run_takes_its_lock_again_without_a_word(take_it: Callable[..., ApplyLock]) -> None:
    take_it(KIM).holding.release()

    assert take_it(KIM).notice == ""


def test_a_note_that_nobody_can_read_is_no_trouble(
    take_it: Callable[..., ApplyLock], places: Places
) -> None:
    Path(places.state).mkdir()
    Path(places.state, "lock.json").write_text('{"who": 7, "pid": "x", "run": [')

    lock = take_it(KIM)

    assert lock.notice.startswith("took over the lock of a run that left no readable note")


class Other(Connection):
    """The same machine under another name."""

    def __init__(self, here: Connection) -> None:
        super().__init__("attic", "attic")
        self._here = here

    def _execute(self, execution: Execution, deadline_s: float) -> int:
        return self._here._execute(execution, deadline_s)

    def close(self) -> None:
        pass


def test_two_hosts_that_are_one_machine_are_found_out(
    take_it: Callable[..., ApplyLock], here: Connection
) -> None:
    take_it(KIM)

    problem = refused(take_it, KIM, connection=Other(here))

    assert problem.message == "attic is the same machine as @local, which this run is working on"
    assert problem.fix


def test_work_of_a_lost_run_is_waited_for_and_told(
    take_it: Callable[..., ApplyLock], here: Connection, places: Places, tmp_path: Path
) -> None:
    lock = take_it(KIM)
    ends = 'echo begun; until [ -e "$0" ]; do sleep 0.01; done'
    work = work_argv(["sh", "-c", ends, str(tmp_path / "go")], places=places)
    begun = here.hold(work, ready=b"begun", deadline_s=60)
    lock.holding.release()
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        (tmp_path / "go").touch()

    lock = take_it(LEE, tell=tell)

    assert told[0].startswith(f"waiting for possible work of an earlier run: sh -c {ends} ")
    assert "(pid " in told[0]
    assert lock.notice
    begun.release()
    assert begun.ended == 0


def test_work_that_does_not_end_in_time_is_an_error_with_its_name(
    take_it: Callable[..., ApplyLock], here: Connection, places: Places
) -> None:
    lock = take_it(KIM)
    work = here.hold(
        work_argv(["sh", "-c", "echo begun; cat >/dev/null"], places=places),
        ready=b"begun",
        deadline_s=60,
    )
    lock.holding.release()

    problem = refused(take_it, LEE, deadline_s=1)

    assert "still runs after 1 s: sh -c echo begun" in problem.message
    assert problem.fix
    work.release()


def test_commands_of_a_run_keep_words_input_and_exit_code(
    take_it: Callable[..., ApplyLock], here: Connection, places: Places, tmp_path: Path
) -> None:
    program = 'cat; printf "%s|" "$@"; exit 7'
    for where in (places, Places(run=str(tmp_path / "nowhere"))):  # without a lock file: plainly
        take_it(KIM).release()
        words = work_argv(["sh", "-c", program, "x", "-o", "a  b", "", "$HOME"], places=where)
        done = here.run(words, stdin=b"in ", deadline_s=60)
        assert (done.exit_code, done.stdout) == (7, b"in -o|a  b||$HOME|")


def test_a_host_without_the_means_says_what_to_do(
    take_it: Callable[..., ApplyLock], places: Places
) -> None:
    Path(places.state).write_text("a file is in the way")

    problem = refused(take_it, KIM)

    assert "cannot write the lock" in problem.message
    assert problem.fix


def test_what_keeps_us_from_being_root_is_passed_on(take_it: Callable[..., ApplyLock]) -> None:
    nothing = Privilege("free", ("sh", "-c", "echo 'sudo: not allowed' >&2; exit 1"))

    problem = refused(take_it, KIM, privilege=nothing)

    assert "sudo: not allowed" in problem.message


def test_the_line_for_sudo_comes_before_all_else(take_it: Callable[..., ApplyLock]) -> None:
    sudo = 'printf %s "$2" >&2; read -r word; [ "$word" = secret ] || exit 1; shift 3; exec "$@"'
    asks = ("sh", "-c", sudo, "sudo")

    assert take_it(KIM, privilege=Privilege("password", asks, b"secret")).held


_CONTROLLER = """
import sys, time
from rigops.converge.lock import Holder, Places, take
from rigops.transport import LOCAL, HostKeyPolicy, Privilege, connect

here = connect(LOCAL, host_keys=HostKeyPolicy())
lock = take(here, Privilege("root"), Holder("kim@laptop", "k", "2025"), tell=print,
            deadline_s=60, places=Places(*sys.argv[1:]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_controller_that_is_killed_frees_it(
    take_it: Callable[..., ApplyLock], places: Places
) -> None:
    controller = subprocess.Popen(
        [sys.executable, "-c", _CONTROLLER, places.state, places.run, places.dpkg],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == "held\n"
        assert "kim@laptop" in refused(take_it, LEE).message
        controller.kill()

    assert "kim@laptop" in take_it(LEE).notice
