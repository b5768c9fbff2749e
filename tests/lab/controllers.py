"""Another controller that has the lock of a host, in a process of its own that can be killed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import clients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.hosts import Host

_ROOT = Path(__file__).resolve().parents[2]
_HOLDS = """
import sys, time
from rigops.converge.lock import Holder, take, work_argv
from rigops.transport import HostKeyPolicy, Privilege, Target, connect

config, name, user, *work = sys.argv[1:]
target = Target(name=name, user=user or None, config_file=config)
connection = connect(target, host_keys=HostKeyPolicy())
privilege = Privilege("free", ("sudo", "-n", "--")) if user else Privilege("root")
take(connection, privilege, Holder("kim@laptop", "kims", "2025-11-21T22:00:00Z"),
     tell=print, deadline_s=60)
print("held", flush=True)
if work:
    connection.run(work_argv(work), privilege=privilege, deadline_s=60)
time.sleep(600)
"""


@contextmanager
def another_controller(host: Host, *work: str, user: str = "") -> Iterator[subprocess.Popen[str]]:
    """With words it does that work; a user has to be one who is root without a password."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(clients.config()), host.name, user, *work],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()
