"""A host that would steer the terminal of whoever looks at it, in every text that it has."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests import hostile
from tests.lab.laptop import Laptop
from tests.lab.sshd import until
from tests.lab.terminal import Person
from tests.shards import ATTACK

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(ATTACK)

# In front of each, $E has: clear, title, conceal, overwrite, C1, bidirectional, zero width, tag.
EVIL = (
    r"E=$(printf '\033[2J\033]0;owned\007\033[8m\r\302\233\342\200\256\342\201\246\342\200\213"
    r"\363\240\201\201\177')"
)
PLANTED = {
    "what a login prints": """
        echo "echo \\"${E}welcome\\"" >>/root/.bashrc
        echo "${E}welcome" >/etc/motd""",
    "the names of cards": r"""
        mv /usr/bin/nvidia-smi /usr/bin/nvidia-smi.real
        {
            printf '#!/bin/sh\n'
            printf '/usr/bin/nvidia-smi.real "$@" | sed "s/ 3090/ 3090%s/"\n' "$E"
        } >/usr/bin/nvidia-smi
        chmod 0755 /usr/bin/nvidia-smi""",
    "the name of the system": 'echo "PRETTY_NAME=\\"${E}Debian\\"" >>/etc/os-release',
    "the log of the kernel": r"""
        E=$(printf %s "$E" | tr -d '\r')  # where the simulation ends a line
        now=$(cut -d. -f1 /proc/uptime)000000
        for code in 79 13; do
            printf '%s 3 NVRM: Xid (PCI:0000:0a:00): %s, pid=1, name=%s, %s\n' \
                "$now" "$code" "$E" "$E" >>/run/rigsim/kernel-log
        done
        /usr/lib/rigsim/bin/rigsim kernel-log""",
    "a unit": r"""
        {
            printf '[Unit]\nDescription=%s\n[Service]\nType=oneshot\n' "$E"
            printf 'ExecStart=/usr/bin/nvidia-smi -pl 250 %s\n' "$E"
            printf '[Install]\nWantedBy=multi-user.target\n'
        } >/etc/systemd/system/limits.service
        systemctl daemon-reload; systemctl enable limits.service 2>&1""",
    "files of modprobe": r"""
        printf 'options nvidia NVreg_Evil=%s\n' "$E" >"/etc/modprobe.d/${E}evil.conf"
        printf 'options vfio-pci ids=10de:2204 %s\n' "$E" >"/etc/modprobe.d/evil$E.conf" """,
    "sources and pins of packages": r"""
        printf '# %s\n' "$E" >"/etc/apt/sources.list.d/evil.list"
        printf 'Package: nvidia-evil%s\nPin: version *\nPin-Priority: 1\n' "$E" \
            >"/etc/apt/preferences.d/evil.pref" """,
    "a package": r"""
        {
            printf 'Package: nvidia-evil\nStatus: install ok installed\nVersion: 1\n'
            printf 'Architecture: all\nMaintainer: %s\nDescription: %s\n\n' "$E" "$E"
        } >>/var/lib/dpkg/status""",
    "what apt prints": r"""
        printf '#!/bin/sh\necho "%shook"; echo "%shook" >&2\n' "$E" "$E" >/usr/local/bin/evil
        chmod 0755 /usr/local/bin/evil
        for when in APT::Update::Pre-Invoke DPkg::Pre-Invoke DPkg::Post-Invoke; do
            echo "$when {\"/usr/local/bin/evil\";};"
        done >/etc/apt/apt.conf.d/99evil""",
    "settings of NCCL": r"""
        printf 'NCCL_P2P_DISABLE=1%s\n' "$E" >/etc/nccl.conf
        printf 'export NCCL_DEBUG="%s"\n' "$E" >"/etc/profile.d/evil$E.sh" """,
    "what GRUB's own tools print": r"""
        printf 'GRUB_DISTRIBUTOR="%s"\necho "%sgenerating" >&2\n' "$E" "$E" \
            >/etc/default/grub.d/evil.cfg
        update-grub 2>&1""",
    "the journal of rigops": r"""
        mkdir -p /var/lib/rigops
        {
            printf '{"host": "x", "at": "2026-01-01T00:00:00Z", "inventory_digest": "ab", '
            printf '"outcome": "%s", "seconds": 1.0, ' '\u001b[2J\u202e'
            printf '"versions": {"driver": "%s"}, ' '\u001b[2J\n\u202eforged'
            printf '"preflight": null}\n%s\n' "$E"
        } >/var/lib/rigops/journal.jsonl""",
    "the banner of sshd": """
        echo "${E}banner" >/etc/banner
        echo 'Banner /etc/banner' >/etc/ssh/sshd_config.d/banner.conf
        systemctl reload ssh""",
}
DECLARED = {
    "nccl": {"NCCL_P2P_LEVEL": "SYS"},
    "kernel_args": ["attacked=1"],
    "kernel_trial": "off",
    "driver": "535",
}
APPLY = ("--yes", "--reboot", "never", "--preflight", "never")
# In this order: each runs on what the ones before left.
COMMANDS: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor", "-i", "inventory.py"),
    "doctor -v": ("doctor", "-i", "inventory.py", "-v"),
    "doctor --json": ("doctor", "-i", "inventory.py", "--json"),
    "doctor --save": ("doctor", "-i", "inventory.py", "--save", "saved", "--raw"),
    "doctor --from": ("doctor", "-i", "inventory.py", "--from", "saved"),
    "drivers": ("drivers", "--host", "HOST"),
    "drivers --json": ("drivers", "--host", "HOST", "--json"),
    "init": ("init", "new", "--host", "HOST"),
    "plan": ("plan",),
    "plan -v": ("plan", "-v"),
    "plan --json": ("plan", "--json"),
    "apply of files": ("apply", "--only", "base,kernel_args", "-v", *APPLY),
    "apply of packages": ("apply", "-v", *APPLY),
    "apply --json": ("apply", "--json", *APPLY),
    "preflight": ("preflight", "--yes"),
    "preflight --json": ("preflight", "--yes", "--json"),
    "history": ("history",),
    "history --json": ("history", "--json"),
    "rollback": ("rollback", "HOST", "--yes", "--reboot", "never"),
    "release": ("release", "HOST", "--yes", "--reboot", "never"),
}
# Where something of it is printed for certain, and so shown.
SHOWS = {
    *("doctor", "doctor -v", "doctor --json", "doctor --from"),
    *("plan", "plan --json", "history", "history --json"),
}


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    host = module_lab.one("threadripper-3x3090")
    for what, script in PLANTED.items():
        planted = host.run(f"{EVIL}\n{script}")
        assert planted.returncode == 0, f"{what}: {planted.stdout}{planted.stderr}"
    until(lambda: host.run("true").returncode == 0, "sshd, which starts anew")
    return host


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory, host: Host) -> Laptop:
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({host.name: DECLARED})
    return laptop


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_what_steers_a_terminal(command: str, host: Host, laptop: Laptop) -> None:
    words = [host.name if word == "HOST" else word for word in COMMANDS[command]]

    said = laptop.rigops(*words, timeout=300)

    assert said.code in {0, 1, 3}, said.err
    assert "bug in rigops" not in said.out + said.err
    assert hostile.raw(said.out + said.err) == []
    if command in SHOWS:
        assert re.search(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}", said.out)
    if "--json" in words:
        assert json.loads(said.out)


@pytest.mark.parametrize("command", ["doctor", "apply --json"])
def test_on_a_terminal_only_our_own_sequences_are_printed(command: str, laptop: Laptop) -> None:
    said = Person({}).rigops(laptop, COMMANDS[command], timeout=300)

    own = re.sub(r"\x1b\[(?:[0-9;]*m|G|K)", "", said.err.replace("\r\n", "\n"))
    assert "\x1b" in said.err
    assert hostile.raw(own + said.out) == []
