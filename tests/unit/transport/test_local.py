from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import pytest

from rigops.transport import LOCAL, HostKeyPolicy, TransportError, connect

POLICY = HostKeyPolicy()


def test_this_machine_is_a_host_like_any_other() -> None:
    with connect(LOCAL, host_keys=POLICY) as here:
        answer = here.run(["sh", "-c", "cat; echo err >&2; exit 4"], stdin=b"in", deadline_s=10)
        assert (answer.exit_code, answer.stdout, answer.stderr) == (4, b"in", b"err\n")
        script = here.run_script("echo $((6 * 7)); exit 3", deadline_s=10)
        assert (script.exit_code, script.stdout, script.complete) == (3, b"42\n", True)
        assert here.description == "this machine"
        assert here.run(["no-such-program-here"], deadline_s=10).exit_code in (126, 127)
        assert here.run(["sh", "-c", "kill -9 $$"], deadline_s=10).exit_code == -1
    here.close()
    with pytest.raises(TransportError, match="closed"):
        here.run(["true"], deadline_s=10)


def test_much_goes_both_ways_and_is_bounded() -> None:
    with connect(LOCAL, host_keys=POLICY) as here:
        data = os.urandom(20_000_000)
        assert here.run(["cat"], stdin=data, deadline_s=30).stdout == data
        answer = here.run(["cat"], stdin=data, deadline_s=30, max_output=1000)
        assert (answer.stdout, answer.stdout_dropped) == (data[:1000], len(data) - 1000)
        assert here.run(["true"], stdin=data, deadline_s=30).exit_code == 0


def test_a_deadline_ends_the_whole_group(tmp_path: Path) -> None:
    word = f"{300 + secrets.randbelow(600)}.{secrets.randbelow(10**12):012d}"
    pid = tmp_path / "pid"
    program = f"trap '' TERM; sleep {word} & echo $! >{pid}; wait; sleep {word}"
    start = time.monotonic()
    with (
        connect(LOCAL, host_keys=POLICY) as here,
        pytest.raises(TransportError) as caught,
    ):
        here.run(["sh", "-c", program], deadline_s=0.5)
    assert caught.value.kind == "timeout"
    assert time.monotonic() - start < 8
    end = time.monotonic() + 5
    while (Path("/proc") / pid.read_text().strip()).exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_left_the_group_does_not_hold_us_up() -> None:
    start = time.monotonic()
    with (
        connect(LOCAL, host_keys=POLICY) as here,
        pytest.raises(TransportError, match="did not finish within"),
    ):
        here.run(["setsid", "sh", "-c", "sleep 6"], deadline_s=0.3)
    assert time.monotonic() - start < 5


def test_an_input_that_breaks_off_is_an_error() -> None:
    def broken() -> object:
        yield b"half"
        raise ValueError("no more")

    with (
        connect(LOCAL, host_keys=POLICY) as here,
        pytest.raises(ValueError, match="no more"),
    ):
        here.run(["cat"], stdin=broken(), deadline_s=20)  # type: ignore[arg-type]  # it is one
