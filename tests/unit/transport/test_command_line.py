from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from rigops.transport.connection import command_line
from tests import shards

# What people log in with, where they have it.
OTHERS = [one for one in ("mksh", "zsh", "fish", "tcsh") if shutil.which(one)]
LOGIN_SHELLS = (
    "sh",
    "bash",
    *(pytest.param(one, marks=pytest.mark.shard(shards.SHELLS)) for one in OTHERS),
)
WORDS = [
    "a b",
    "it's",
    '"',
    "$HOME",
    "`id`",
    "\\",
    "\\\\",
    "\\'",
    "!!",
    "@b@n@a",
    "é",
    "a\nb",
    "",
    "#",
    "\n",
]


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
@pytest.mark.parametrize("words", [WORDS, *([word] for word in WORDS)], ids=repr)
def test_a_shell_passes_every_word_on(shell: str, words: list[str]) -> None:
    line = command_line(["printf", "%s|", *words])

    done = subprocess.run([shell, "-c", line], capture_output=True, check=False)

    assert done.stdout.decode() == "".join(f"{word}|" for word in words)
    assert done.stderr == b""


def test_what_no_shell_changes_is_sent_as_it_is() -> None:
    words = ["sh", "-c", 'echo "$0 begin $$"; exec "$@"', "it's", "50%", "a@b"]

    assert command_line(words) == shlex.join(words)
