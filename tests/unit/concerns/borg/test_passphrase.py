"""The passphrase is read on this machine, and nothing of it gets into an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.borg.passphrase import read_passphrase
from rigops.concerns.borg.passphrase_command import AskPassphraseCommand
from rigops.errors import RigopsError

if TYPE_CHECKING:
    from pathlib import Path

MARK = "geheim-4c1d"


@pytest.mark.parametrize("printed", [f"{MARK}\\n", MARK, f"{MARK}\\r\\n"])
def test_the_line_that_the_command_prints_is_the_passphrase(printed: str) -> None:
    assert read_passphrase(f"printf '{printed}'", "rig") == MARK


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"echo {MARK}; echo {MARK} >&2; exit 3", "passphrase_command ended with 3: ***"),
        (f"echo bad password={MARK} >&2; exit 4", "ended with 4: bad password=***"),
        ("echo one; echo gpg: no key >&2; echo >&2; exit 2", "ended with 2: gpg: no key"),
        ("exit 5", "passphrase_command ended with 5"),
        ("true", "printed nothing"),
        ("echo gpg: no key >&2", "printed nothing: gpg: no key"),
        ("head -c 2000 /dev/zero | tr '\\0' x", "more than 1024 characters"),
        (f"printf '{MARK}\\n{MARK}\\n'", "more than one line"),
        (f"printf '{MARK}\\377'", "printed no text"),
        (f"/nowhere/{MARK}", "ended with 127: its program is not on this machine"),
    ],
)
def test_what_fails_is_said_without_what_was_printed(command: str, message: str) -> None:
    with pytest.raises(RigopsError) as refused:
        read_passphrase(command, "rig")

    assert message in str(refused.value)
    assert MARK not in str(refused.value)
    assert refused.value.problems[0].fix


def test_making_the_command_for_the_host_runs_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "ran"

    command = AskPassphraseCommand(f"touch {trace}")

    assert str(trace) not in command.get_raw_value()
    assert not trace.exists()
