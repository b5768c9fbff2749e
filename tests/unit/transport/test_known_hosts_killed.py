"""Whoever is killed while a host gets another key in known_hosts leaves it whole, old or new."""

from __future__ import annotations

import base64
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from tests.unit.transport.test_known_hosts_replaced import NEW, OTHER, line, new_line

if TYPE_CHECKING:
    from pathlib import Path

_MOST_EVENTS: Final = 200
# Killed before the nth thing that it does to files or folders.
_PROGRAM: Final = """
import base64, os, signal, sys
from pathlib import Path
from rigops.transport.known_hosts import HostKey, replace_key
from rigops.transport.route import Server
file, blob, left = Path(sys.argv[1]), base64.b64decode(sys.argv[2]), int(sys.argv[3])
def count(event, arguments):
    global left
    if event.startswith(("open", "os.", "fcntl", "tempfile")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
server = Server(name="rig", alias="rig", hostname="rig", port=2200, user="me", known_hosts=(file,))
key = HostKey("ssh-ed25519", blob, "10.0.0.5")
sys.addaudithook(count)
replace_key(server, key)
"""


def test_known_hosts_is_never_half(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    more = line("elsewhere", OTHER, "ssh-rsa") * 500
    old, new = more + line("[rig]:2200") + more, more + new_line("[rig]:2200") + more
    seen = []
    blob = base64.b64encode(NEW).decode()

    for number in range(1, _MOST_EVENTS):
        file.write_bytes(old)
        words = [sys.executable, "-c", _PROGRAM, str(file), blob, str(number)]
        done = subprocess.run(words, check=False, capture_output=True)
        seen.append(file.read_bytes())
        assert seen[-1] in {old, new}, f"killed before event {number}"
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr

    assert seen[0] == old
    assert seen[-1] == new
    assert new in seen[:-1], "killed after the rename, it is the new one"
    assert len(seen) > 5
