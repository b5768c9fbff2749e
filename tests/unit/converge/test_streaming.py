"""Commands that say how far they are, while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.converge.connector import HostChannel
from rigops.transport import LOCAL, HostKeyPolicy, Privilege, connect

if TYPE_CHECKING:
    from collections.abc import Iterator


class Desk:
    def __init__(self, channel: HostChannel, told: list[str]) -> None:
        self.channel, self.told = channel, told


@pytest.fixture
def desk() -> Iterator[Desk]:
    told: list[str] = []
    with connect(LOCAL, host_keys=HostKeyPolicy()) as connection:
        yield Desk(HostChannel(connection, Privilege("root"), tell=told.append), told)


def test_a_line_is_told_before_the_command_goes_on(desk: Desk) -> None:
    """It waits for what only whoever hears the line brings."""

    def answer(line: str) -> None:
        desk.told.append(line)
        if line.startswith("/"):
            desk.channel.connection.run(["touch", line], deadline_s=60)

    desk.channel.tell = answer
    text = "f=$(mktemp -u); echo $f; until [ -e $f ]; do sleep 0.05; done; rm $f; echo done; exit\n"

    result = desk.channel.run_streaming(["sh", "-s"], text.encode(), 60)

    assert result.exit_code == 0
    assert desk.told[-1] == "done"


def test_how_it_ended_and_what_it_complained_of_is_known(desk: Desk) -> None:
    text = b"echo one; echo; echo two; echo bad >&2; exit 3\n"

    result = desk.channel.run_streaming(["sh", "-s"], text, 60)

    assert (result.exit_code, result.stderr) == (3, b"bad\n")
    assert result.stdout == b"one\n\ntwo"
    assert desk.told == ["one", "two"]


def test_what_a_host_says_does_not_steer_the_terminal(desk: Desk) -> None:
    desk.channel.run_streaming(["sh", "-s"], b"printf 'a\\033[2Jb\\n'; exit\n", 60)

    (line,) = desk.told
    assert "\x1b" not in line
