from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import modprobe
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

SAID = """\
== /etc/modprobe.d/blacklist-nouveau.conf
blacklist nouveau
options nouveau modeset=0
== /etc/modprobe.d/nvidia.conf
options nvidia NVreg_EnableGpuFirmware=0 NVreg_RegistryDwords="A=1;B=2"
options nvidia-uvm uvm_disable_hmm=1
alias nova off
install nova_core /bin/false
softdep nvidia pre: vfio-pci
# options nvidia NVreg_Comment=1
== /lib/modprobe.d/nvidia.conf
options nvidia NVreg_Hidden=1
== stat initramfs
1700000000 /boot/initrd.img-5.15.0-113-generic
1700000100 /etc/modprobe.d/nvidia.conf
== /sys/module/nvidia_uvm/parameters/uvm_disable_hmm
N

"""


def test_options_and_blacklists() -> None:
    found = modprobe.parse(SAID)

    assert found.value("nvidia", "NVreg_EnableGpuFirmware") == "0"
    assert found.value("nvidia_uvm", "uvm_disable_hmm") == "1"
    assert found.value("nvidia", "NVreg_Comment") is None
    assert [one.module for one in found.blacklists] == ["nouveau", "nova", "nova_core"]
    out = found.blacklists[0]
    assert (out.file, out.line) == ("/etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau")
    assert not found.unparsed


def test_a_file_of_etc_hides_its_namesake() -> None:
    assert modprobe.parse(SAID).value("nvidia", "NVreg_Hidden") is None
    alone = SAID.replace("/etc/modprobe.d/nvidia.conf", "/etc/modprobe.d/other.conf")
    assert modprobe.parse(alone).value("nvidia", "NVreg_Hidden") == "1"


def test_of_two_values_the_last_counts() -> None:
    later = "== /etc/modprobe.d/b.conf\noptions nvidia A=2\n"
    first = "== /etc/modprobe.d/a.conf\noptions nvidia A=1\n"

    assert modprobe.parse(later + first).value("nvidia", "A") == "2"


def test_ages_and_the_parameter_of_uvm() -> None:
    found = modprobe.parse(SAID)

    assert [one.path for one in found.files] == ["/etc/modprobe.d/nvidia.conf"]
    assert found.uvm_disable_hmm is False
    assert modprobe.parse(SAID.replace("N\n\n", "Y\r\n")).uvm_disable_hmm is True
    assert modprobe.parse("").uvm_disable_hmm is None


@pytest.mark.parametrize(
    "text", ["== /etc/modprobe.d/a.conf\nrubbish", "== stat initramfs\nyesterday", "== rubbish\n"]
)
def test_what_it_cannot_read_it_says(text: str) -> None:
    assert modprobe.parse(text).unparsed


@pytest.mark.parametrize("shell", SHELLS)
def test_the_lines_that_matter_leave_the_host(shell: str, tmp_path: Path) -> None:
    for path, text in {
        "etc/modprobe.d/gpu.conf": "options nvidia \\\n A=1 \\\n B=2\n# nvidia\noptions snd a=1\n",
        "etc/modprobe.d/empty.conf": "options snd a=1\n",
        "usr/lib/modprobe.d/aliases.conf": "alias x y\n" * 1000,
        "usr/lib/modprobe.d/empty.conf": "blacklist nouveau\n",
        "usr/lib/modprobe.d/vendor.conf": "blacklist nouveau\n",
        "boot/initrd.img-6.1.0": "",
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "lib").symlink_to("usr/lib")

    answer = ask(modprobe.SECTION, shell, tmp_path)

    assert answer.is_complete
    found = modprobe.parse(answer.text)
    assert (found.value("nvidia", "A"), found.value("nvidia", "B")) == ("1", "2")
    assert [one.file for one in found.blacklists] == ["/usr/lib/modprobe.d/vendor.conf"]
    assert [one.path for one in found.files] == ["/etc/modprobe.d/gpu.conf"]
    assert "snd" not in answer.text
    assert not found.unparsed
