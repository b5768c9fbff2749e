"""A host whose system disk is wiped and installed anew; its other disks stay as they are."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.lab import cache, cgroups, clients, disks, layers, machine, rigs, runs

if TYPE_CHECKING:
    from tests.lab.hosts import Host
    from tests.lab.runs import Record

PASSWORD = "typed-at-the-installer"

_ONLY_ROOT = """
set -eu
for user in rig; do
    userdel --remove "$user" 2>/dev/null
    rm -f "/etc/sudoers.d/$user"
done
"""
_BY_PASSWORD = f"""
set -eu
echo 'root:{PASSWORD}' | chpasswd
rm -rf /root/.ssh
printf 'PermitRootLogin yes\\nPasswordAuthentication yes\\n' >/etc/ssh/sshd_config.d/first.conf
systemctl restart ssh
"""


def reinstall(
    host: Host, *, by_password: bool = False, suite: str = "", disks_of: Host | None = None
) -> None:
    """Another machine id, other host keys, no driver, no user but root, who has the lab's key.

    `by_password`: root has no key, but a password. `suite`: another release of Debian.
    `disks_of`: a host that is switched off for good, and whose disks are put into this one.
    """
    record = host.record
    _switch_off(record)
    if disks_of is not None:
        _switch_off(disks_of.record)
        disks.move(disks_of.record.folder, record.folder)
    for name in ("upper", "work", "root"):
        shutil.rmtree(record.folder / name)
    settings = {**record.settings, "driver": "none", **({"suite": suite} if suite else {})}
    rig = rigs.load(record.rig, record.name).with_settings(settings)
    with runs.locked():
        record = runs.change(record, settings=settings)
    record = machine.boot(record, rig, layers.repository())
    with runs.locked():
        clients.write()
    inside(host, _ONLY_ROOT)
    if by_password:
        inside(host, _BY_PASSWORD)


def _switch_off(record: Record) -> None:
    assert record.machine is not None
    record.machine.kill()
    cgroups.end(record.group / "machine")


def let_the_lab_in(host: Host) -> None:
    """Root has the lab's key beside its password, for tests to look around."""
    public = cache.key().with_suffix(".pub").read_text().strip()
    keys = "/root/.ssh/authorized_keys"
    inside(host, f"mkdir -p -m 700 /root/.ssh && echo '{public}' >{keys} && chmod 600 {keys}")


def has_key_again(host: Host, public: str) -> None:
    """It shows this host key now, which the lab's own ssh has to know."""
    with runs.locked():
        runs.change(host.record, host_key=public)
        clients.write()


def inside(host: Host, script: str) -> None:
    """As somebody at the host's console."""
    machine.enter(host.record, machine.leader(host.record), "sh", "-c", script)
