"""New keys in the middle of transfers, while other commands on the connection end."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import paramiko
import pytest

from rigops.transport import connect
from tests.lab.connecting import KNOWN_ONLY
from tests.lab.sshd import lab_with
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rigops.transport import Connection

pytestmark = pytest.mark.shard(ATTACK)

PIECE: Final = 512 * 1024
TOGETHER: Final = 20
EXCHANGES: Final = 50
MOST_ROUNDS: Final = 20
LIMIT: Final = 128 * 1024


def down(connection: Connection) -> int:
    answer = connection.run(["head", "-c", str(PIECE), "/dev/zero"], deadline_s=60)
    return len(answer.stdout)


def up(connection: Connection) -> int:
    answer = connection.run(["wc", "-c"], stdin=bytes(PIECE), deadline_s=60)
    return int(answer.stdout)


def up_in_vain(connection: Connection) -> int:
    """The command ends in the middle of its input."""
    answer = connection.run(["head", "-c", "1000"], stdin=bytes(PIECE), deadline_s=60)
    return len(answer.stdout) * PIECE // 1000


@pytest.mark.parametrize("way", [down, up, up_in_vain])
@pytest.mark.parametrize("asks", ["server", "client"])
@pytest.mark.parametrize("backend", ["paramiko", "program"])
def test_commands_that_end_during_a_key_exchange_are_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    asks: str,
    way: Callable[[Connection], int],
) -> None:
    options = ["LogLevel DEBUG1"]
    if asks == "server":
        options.append(f"RekeyLimit {LIMIT}")
    for lab in lab_with(tmp_path, *options):
        if asks == "client":
            monkeypatch.setattr(paramiko.packet.Packetizer, "REKEY_BYTES", LIMIT)
            with lab.config.open("a") as config:
                config.write(f"RekeyLimit {LIMIT}\n")
        if backend == "program":
            with lab.config.open("a") as config:
                config.write("BindInterface lo\n")
        with (
            connect(lab.target(), host_keys=KNOWN_ONLY) as connection,
            ThreadPoolExecutor(3) as pool,
        ):
            exchanges = 0
            for _ in range(MOST_ROUNDS):
                done = list(pool.map(lambda _: way(connection), range(TOGETHER)))
                assert done == [PIECE] * TOGETHER
                log = lab.sshd.log.read_text()
                exchanges = len(re.findall("SSH2_MSG_NEWKEYS received", log))
                if exchanges >= EXCHANGES:
                    break
        assert exchanges >= EXCHANGES


def test_20_gigabytes_go_over_one_connection(tmp_path: Path) -> None:
    """With the usual limits: new keys each half gigabyte."""
    chunk = 512 * 1024 * 1024
    for lab in lab_with(tmp_path):
        with connect(lab.target(), host_keys=KNOWN_ONLY) as connection:
            for number in range(40):
                words = ["head", "-c", str(chunk), "/dev/zero"]
                answer = connection.run(words, deadline_s=300, max_output=1)
                assert (number, answer.stdout_dropped) == (number, chunk - 1)
