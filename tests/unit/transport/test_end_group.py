from __future__ import annotations

import subprocess

import pytest

from rigops.transport.result import END_GROUP
from tests.unit.programs import SHELLS, shell


@pytest.mark.parametrize("name", SHELLS)
def test_a_group_that_takes_no_notice_of_term_is_killed_under_every_shell(name: str) -> None:
    words = ["sh", "-c", "trap '' TERM; sleep 600 & echo on; wait"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"

        subprocess.run([*shell(name), "-c", END_GROUP, str(process.pid)], check=True, timeout=60)

        assert process.stdout.read() == ""  # its child held it too
        assert process.wait() == -9
