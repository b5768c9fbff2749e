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
        return connection.run(["echo", "here"], deadline_s=10).stdout


def cut_while_it_sleeps(lab: Lab, connection: Connection, script: str, word: str) -> TransportError:
    """What is said of a shell script that sleeps for `word` when its connection is cut."""

    def cut() -> None:
        until(lambda: is_running(f"sleep\0{word}"), "the command")
        lab.sshd.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    with pytest.raises(TransportError) as caught:
        connection.run(["sh", "-c", script], deadline_s=20)
    cutter.join()
    return caught.value


def passes_under_gevent(lab: Lab, program: str) -> None:
    """In a process of its own, with port, key, known hosts and configuration as its words."""
    words = [str(lab.sshd.port), str(lab.key), str(lab.known_hosts), str(lab.config)]
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=_ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
