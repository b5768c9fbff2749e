"""What snippets print of a prepared tree, byte for byte, as it was when they used more programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.probe.registry import SECTIONS
from rigops.probe.text import blocks
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from rigops.probe.section import Section

EXPECTED = Path(__file__).parents[2] / "fixtures/probe_answers.json"
WHEN = 1_790_000_000

# Last lines without an end, no line at all, backslashes, CRLF, blanks around, what is too much, and
# what has to be hidden.
TREE = {
    "etc/os-release": 'ID=debian\nPRETTY_NAME="A \\\\ B"\n\n  X=1 \nVERSION_ID="12"',
    "run/reboot-required": "*** System restart required ***\n",
    "run/reboot-required.pkgs": "linux-image-6.1.0\nlibc6",
    "etc/modprobe.d/a.conf": (
        "options nvidia \\\n  A=1\nblacklist nouveau # \\t\noptions vfio B=2\\"
    ),
    "etc/modprobe.d/b.conf": "# nvidia\noptions snd a=1\n",
    "etc/modprobe.d/c.conf": "",
    "usr/lib/modprobe.d/many.conf": "alias nvidia x\n" * 120 + "install nvidia token=hidden\n",
    "usr/lib/modprobe.d/none.conf": "alias a b\n",
    "boot/initrd.img-6.1.0": "",
    "boot/initramfs-6.2.img": "",
    "boot/config-0": "",
    "boot/grub/grub.cfg": "menu\n\tlinux\t/vmlinuz root=/dev/sda password hunter2\n linux16 /b\n",
    "boot/grub/grubenv": "# GRUB\nsaved_entry=0\n" + "#" * 900,
    "boot/a name": "",
    "etc/default/grub": 'GRUB_CMDLINE_LINUX="a\\b"\r\nGRUB_PASSWORD=hunter2\n\n',
    "etc/default/grub.d/50.cfg": "# no end",
    "etc/default/grub.d/60.cfg": "",
    "etc/kernel/cmdline": "root=UUID=1 quiet\n",
    "sys/class/dmi/id/board_vendor": "Some \\ Vendor \n",
    "sys/class/dmi/id/board_name": "X\n",
    "etc/security/limits.conf": (
        "# a\n\n  # b\n* soft memlock 8\n\t* hard nofile 9 \n" + "x\n" * 250
    ),
    "etc/security/limits.d/a.conf": "#\n \t\n",
    "etc/security/limits.d/b.conf": "* hard core token=hidden",
    "sys/devices/system/node/online": "0-1\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
    "sys/devices/system/cpu/intel_pstate/status": "active",
    "var/log/apt/history.log": (
        "Start-Date: 2026-01-01\nInstall: libcuda1:amd64 (1), vim:amd64 (2)\nEnd-Date: x\n"
        "\nStart-Date: 2026-01-02\nInstall: vim:amd64 (2)\nEnd-Date: y\n"
    ),
    "var/log/dpkg.log": "".join(
        f"2026-01-01 {n} install nvidia-{n} <none> {'v' * 600 if n == 199 else n}\n"
        f"2026-01-01 {n} status installed vim 1\n"
        for n in range(200)
    ),
    "etc/nccl.conf": "NCCL_P2P_DISABLE=1\n# x",
    "etc/environment": 'NCCL_DEBUG="INFO"\nA=1\n',
    "etc/profile.d/a.sh": "export NCCL_TOKEN=hidden NCCL_IB_DISABLE=1\n" * 50,
    "usr/bin/nvidia-uninstall": "",
    "usr/bin/nvidia-installer": "",
}  # fmt: skip
ASKED = ("os-release", "boot", "modprobe", "bootloader", "firmware", "limits", "cpufreq",
         "package-history", "package-holds", "nccl")  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return planted(tmp_path)


def planted(root: Path) -> Path:
    for name, text in TREE.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        os.utime(file, (WHEN, WHEN))
    (root / "lib").symlink_to("usr/lib")
    return root


def answer(section: Section[object], shell: str, root: Path) -> dict[str, str]:
    text = ask(section, shell, root).text
    return blocks(text) or {"": text}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ASKED)
def test_a_snippet_prints_what_it_printed(name: str, shell: str, root: Path) -> None:
    expected: dict[str, str] = json.loads(EXPECTED.read_text())[name]
    (section,) = (one for one in SECTIONS if one.name == name)

    found = answer(section, shell, root)

    assert {head: found.get(head) for head in expected} == expected
