"""Connections to a lab's own sshd, and what tests of several kinds of them ask."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.transport import HostKeyPolicy, TransportError, connect
from tests.lab.sshd import is_running, until

if TYPE_CHECKING:
    from rigops.transport import Connection, Target
    from tests.lab.sshd import Lab

KNOWN_ONLY = HostKeyPolicy()
_ROOT = Path(__file__).resolve().parents[2]


def refusal(target: Target, policy: HostKeyPolicy = KNOWN_ONLY) -> TransportError:
    with pytest.raises(TransportError) as caught:
        connect(target, host_keys=policy)
    return caught.value


def says(target: Target, policy: HostKeyPolicy = KNOWN_ONLY) -> bytes:
    with connect(target, host_keys=policy) as connection:
        return connection.run(["echo", "here"], deadline_s=60).stdout


def cut_while_it_sleeps(lab: Lab, connection: Connection, script: str, word: str) -> TransportError:
    """What is said of a shell script that sleeps for `word` when its connection is cut."""

    def cut() -> None:
        until(lambda: is_running(f"sleep\0{word}"), "the command")
        lab.sshd.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    with pytest.raises(TransportError) as caught:
        connection.run(["sh", "-c", script], deadline_s=150)
    cutter.join()
    return caught.value


# Goes on once so many shells have come here, each in a folder of a name of their own.
_TOGETHER = """
mkdir -p "$1"
touch "$1/$$"
until [ "$(ls "$1" | wc -l)" -ge "$2" ]; do sleep 0.05; done
"""


_TO_THE_LAB = """
from gevent import monkey; monkey.patch_all()
import sys, gevent
from rigops.transport import LOCAL, HostKeyPolicy, Target, TransportError, connect

port, key, known, config, together = sys.argv[1:]
target = Target(name="rig", hostname="127.0.0.1", port=int(port), key=key, config_file=config,
                known_hosts_file=known, allow_agent=False)
"""


def passes_under_gevent(lab: Lab, program: str) -> None:
    """In a process of its own, which has `target` and `together`, a command.

    `COMMAND NAME COUNT` ends in no shell before it was called in so many at the same time.
    """
    together = lab.folder / "together"
    together.write_text(_TOGETHER)
    words = [
        str(lab.sshd.port), str(lab.key), str(lab.known_hosts), str(lab.config),
        f"cd {lab.folder}; sh {together}",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _TO_THE_LAB + program, *words],
        cwd=_ROOT,
        capture_output=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr.decode()
