"""Programs that hang, flood or do not end hold up nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rigops.hostside.shared.bounded import (
    MOST_ERRORS,
    BoundedChild,
    ChildError,
    FloodError,
    printable,
    run_bounded,
)

SOON_S = 0.2  # of what never comes
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True)"


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_the_answer_is_its_output_its_errors_and_its_status() -> None:
    asked = "import sys; print('yes'); sys.stderr.write('no\\n'); sys.exit(3)"

    assert run_bounded(python(asked)) == (3, b"yes\n", "no\n")


def test_one_that_never_answers_is_ended() -> None:
    with pytest.raises(ChildError, match="gave no answer in 0 s"):
        run_bounded(["sleep", "3600"], most_s=SOON_S)


def test_one_that_drips_is_ended_by_the_same_deadline() -> None:
    asked = "import time\nwhile True: print('x', flush=True); time.sleep(0.01)"

    with pytest.raises(ChildError, match="gave no answer"):
        run_bounded(python(asked), most_s=SOON_S)


def test_one_that_floods_is_ended_where_the_bound_is() -> None:
    with pytest.raises(FloodError, match="printed more than 1024 KiB"):
        run_bounded(["cat", "/dev/zero"], most_bytes=1 << 20)


def test_errors_without_end_are_drained_and_their_end_is_kept() -> None:
    asked = "import sys; [sys.stderr.write('x' * 9999 + '\\n') for _ in range(500)]; print('done')"

    answer = run_bounded(python(asked))

    assert (answer.code, answer.output) == (0, b"done\n")
    assert len(answer.errors) == MOST_ERRORS
    assert answer.errors.endswith("x\n")


def test_one_that_closes_its_output_and_stays_is_ended() -> None:
    with pytest.raises(ChildError, match="did not end"):
        run_bounded(python("import os, time; os.close(1); time.sleep(3600)"), most_s=SOON_S)


def test_left_it_has_ended() -> None:
    with BoundedChild(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        pass

    assert child.process.returncode is not None


def test_a_deaf_one_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rigops.hostside.shared.bounded._STOP_S", SOON_S)
    asked = f"{DEAF}; time.sleep(3600)"
    with BoundedChild(python(asked), stdout=subprocess.PIPE) as child:
        assert child.output.readline() == b"on\n"

    assert child.process.wait(30) == -9


def test_what_it_writes_steers_no_terminal() -> None:
    assert printable(b"a\x1b[31mb\xff\n") == "a�[31mb�\n"
    assert printable(b"Connection closed.\r\na\rb") == "Connection closed.\na�b"
