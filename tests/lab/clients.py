"""The files with which any ssh client finds the hosts by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab import cache, runs
from tests.lab.seed import SSHD_PORT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.runs import Record

PROXY_PORT = 2201


def config() -> Path:
    return runs.folder() / "ssh_config"


def port(record: Record) -> int:
    return PROXY_PORT if is_proxied(record) else SSHD_PORT


def is_proxied(record: Record) -> bool:
    return any(record.settings.get(key) for key in ("latency", "cut"))


def write() -> None:
    """Anew for all hosts that answer; call it under the lock."""
    running = [record for record in runs.records() if record.ready]
    stanzas = [_stanza(record) for record in running]
    known = [_known(record) for record in running]
    for path, text in ((config(), "\n".join(stanzas)), (_known_hosts(), "".join(known))):
        new = path.with_suffix(".new")
        new.write_text(text)
        new.rename(path)


def _known_hosts() -> Path:
    return runs.folder() / "known_hosts"


def _stanza(record: Record) -> str:
    return f"""\
Host {record.name}
    HostName {record.address}
    Port {port(record)}
    User root
    IdentityFile {cache.key()}
    IdentitiesOnly yes
    StrictHostKeyChecking yes
    UserKnownHostsFile {_known_hosts()}
    GlobalKnownHostsFile /dev/null
"""


def _known(record: Record) -> str:
    ports = (SSHD_PORT, PROXY_PORT)
    return "".join(f"[{record.address}]:{port} {record.host_key}\n" for port in ports)
