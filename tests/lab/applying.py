"""What apply says of each host, and what the tests of several hosts ask of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.hosts import Host
    from tests.lab.laptop import Said

INVENTORY = ("-i", "inventory.py")
QUIETLY = ("--yes", "--preflight", "never", *INVENTORY)

DROP_IN = "/etc/default/grub.d/99-rigops.cfg"
MENU = "/boot/grub/grub.cfg"
RECORD_OF_TRIALS = "/var/lib/rigops/kernel_args.json"

# Nothing can be written where a person would look for a fault; /run is memory on every machine.
READ_ONLY = """
for folder in etc boot usr var; do
    mount --bind /$folder /$folder && mount -o remount,bind,ro /$folder || exit
done
! touch /etc/written 2>/dev/null
"""
WRITABLE_AGAIN = "for folder in etc boot usr var; do umount --lazy /$folder || exit; done"
VERBOSE = "echo 'LogLevel VERBOSE' >/etc/ssh/sshd_config.d/verbose.conf && systemctl reload ssh"


def by_host(said: Said) -> Mapping[str, Mapping[str, Any]]:
    return {host["host"]: host for host in said.json()["hosts"]}


def only(said: Said) -> Mapping[str, Any]:
    """What is said of a host that is the only one."""
    (host,) = by_host(said).values()
    return host


def outcomes(said: Said) -> Mapping[str, str]:
    return {name: host["outcome"] for name, host in by_host(said).items()}


def sessions(host: Host) -> int:
    """How many execs sshd has seen, in its own words. This look is one too."""
    log = host.run("journalctl --sync && journalctl -u ssh -o cat --no-pager").stdout
    return sum("Starting session: command" in line for line in log.splitlines())


def half_written(host: Host) -> list[str]:
    """Files that would be something else once they are renamed."""
    return host.run("find /boot /etc /usr/local /var -name '*.rigops-new*'").stdout.split()


def is_set_up(host: Host, argument: str) -> bool:
    """Whether the next boot has this argument: owned, declared and in the menu."""
    command = f"grep -qs {argument} {DROP_IN} && grep -qs {argument} {MENU} && grep -q {DROP_IN} "
    return host.run(f"{command} /var/lib/rigops/owned.json").returncode == 0


def is_to_be_tried(host: Host, argument: str) -> bool:
    """Whether it waits for a boot to try it, and no boot but that one has it."""
    known = host.run(f"cat {RECORD_OF_TRIALS}").stdout
    permanent = host.run(f"grep -rs -e {argument} /etc/default /etc/grub.d /boot/grub").stdout
    return bool(known) and argument in json.loads(known)["trying"] and not permanent


def left_of_a_trial(host: Host) -> str:
    """Files, units and orders of a trial boot that the host still has, a line each."""
    return host.run(
        """
        find /etc /boot /usr/local /var/lib/rigops -name 'rigops-trial*' -o -path '*/rigops/trial*'
        grep -rls -e rigops-trial /boot /etc
        ! systemctl is-active --quiet rigops-trial.service || echo 'its unit is active'
        [ ! -e /boot/grub/grubenv ] || grub-editenv list | grep next_entry
        grep -o '"armed_in": "[^"].*' /var/lib/rigops/kernel_args.json
        """
    ).stdout
