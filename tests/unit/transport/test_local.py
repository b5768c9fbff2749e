from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.transport import LOCAL, HostKeyPolicy, TransportError, connect, local
from rigops.transport.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = HostKeyPolicy()
LONG = 60.0  # seconds, after which nothing comes any more


def runs(pid: str) -> bool:
    """One that was killed may stay as a zombie until whoever is its parent now looks."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Until(Clock):
    """Has run out once the file is there."""

    def __init__(self, allowed: float, file: Path) -> None:
        super().__init__(allowed)
        self._file = file

    def left(self) -> float:
        return 0 if self._file.exists() else 1

    def wait(self) -> float:
        return 0.01


@pytest.fixture
def times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Runs a program until it has written the file `$0`, and gives the file."""

    def run(program: str) -> Path:
        file = tmp_path / "file"
        monkeypatch.setattr(local, "_GRACE_S", 0.2)
        monkeypatch.setattr(local, "Clock", lambda allowed: Until(allowed, file))
        with (
            connect(LOCAL, host_keys=POLICY) as here,
            pytest.raises(TransportError, match=r"did not finish within 7 s") as caught,
        ):
            here.run(["sh", "-c", program, str(file)], deadline_s=7)
        assert caught.value.kind == "timeout"
        return file

    return run


def test_this_machine_is_a_host_like_any_other() -> None:
    with connect(LOCAL, host_keys=POLICY) as here:
        answer = here.run(["sh", "-c", "cat; echo err >&2; exit 4"], stdin=b"in", deadline_s=LONG)
        assert (answer.exit_code, answer.stdout, answer.stderr) == (4, b"in", b"err\n")
        script = here.run_script("echo $((6 * 7)); exit 3", deadline_s=LONG)
        assert (script.exit_code, script.stdout, script.complete) == (3, b"42\n", True)
        assert here.description == "this machine"
        assert here.run(["no-such-program-here"], deadline_s=LONG).exit_code in (126, 127)
        assert here.run(["sh", "-c", "kill -9 $$"], deadline_s=LONG).exit_code == -1
    here.close()
    with pytest.raises(TransportError, match="closed"):
        here.run(["true"], deadline_s=LONG)


def test_much_goes_both_ways_and_is_bounded() -> None:
    with connect(LOCAL, host_keys=POLICY) as here:
        data = os.urandom(20_000_000)
        assert here.run(["cat"], stdin=data, deadline_s=LONG).stdout == data
        answer = here.run(["cat"], stdin=data, deadline_s=LONG, max_output=1000)
        assert (answer.stdout, answer.stdout_dropped) == (data[:1000], len(data) - 1000)
        assert here.run(["true"], stdin=data, deadline_s=LONG).exit_code == 0


def test_a_deadline_ends_the_whole_group(times_out: Callable[[str], Path]) -> None:
    pid = times_out(
        "trap '' TERM; { sleep 40; touch \"$0.ended\"; } & "
        'echo $! >"$0.new"; mv "$0.new" "$0"; wait'
    )

    assert not pid.with_suffix(".ended").exists()
    end = time.monotonic() + LONG
    while runs(pid.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_left_the_group_does_not_hold_us_up(times_out: Callable[[str], Path]) -> None:
    """It goes on until it is told to end, and has our streams open."""
    file = times_out(
        'exec setsid --fork sh -c \'touch "$0"; n=0; '
        'while [ ! -e "$0.go" ] && [ $n -lt 6000 ]; do sleep 0.01; n=$((n + 1)); done; '
        'touch "$0.ended"\' "$0"'
    )

    assert not file.with_suffix(".ended").exists()
    file.with_suffix(".go").touch()


def test_an_input_that_breaks_off_is_an_error() -> None:
    def broken() -> object:
        yield b"half"
        raise ValueError("no more")

    with (
        connect(LOCAL, host_keys=POLICY) as here,
        pytest.raises(ValueError, match="no more"),
    ):
        here.run(["cat"], stdin=broken(), deadline_s=LONG)  # type: ignore[arg-type]  # it is one
