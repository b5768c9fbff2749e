"""What hosts answer, in the shapes of real machines."""

from __future__ import annotations

from rigops.probe.bundle import Bundle, Collected

OS_RELEASE = """\
PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION_CODENAME=bookworm
ID=debian
"""
UNAME = "Linux rig 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 x86_64 GNU/Linux\n"
CMDLINE = "BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64 root=UUID=1234 ro quiet\n"
BOOT = """\
== /proc/sys/kernel/random/boot_id
07940a50-a863-475b-8d58-ba4ed6b08cf0

== /proc/uptime
4099.41 7164.28

== /run/reboot-required
*** System restart required ***

== /run/reboot-required.pkgs
linux-image-6.1.0-20-amd64
nvidia-driver
linux-image-6.1.0-20-amd64

"""
PCI = """\
0000:00:00.0 vendor=0x1022 device=0x1480 class=0x060000 rev=00 driver=- link=-,- max=-,- numa=0 bar1=- path=/sys/devices/pci0000:00/0000:00:00.0
0000:0a:00.0 vendor=0x10de device=0x2204 class=0x030000 rev=a1 driver=nvidia link=2.5,16 max=16.0,16 numa=0 bar1=268435456 path=/sys/devices/pci0000:00/0000:00:03.1/0000:0a:00.0
0000:0a:00.1 vendor=0x10de device=0x1aef class=0x040300 rev=a1 driver=snd_hda_intel link=2.5,16 max=16.0,16 numa=0 bar1=- path=/sys/devices/pci0000:00/0000:00:03.1/0000:0a:00.1
0000:0b:00.0 vendor=0x10de device=0x2204 class=0x030000 rev=a1 driver=nvidia link=2.5,16 max=16.0,16 numa=0 bar1=268435456 path=/sys/devices/pci0000:00/0000:00:03.2/0000:0b:00.0
"""  # noqa: E501 - one line for each function is the format
NO_GPU = PCI.splitlines(keepends=True)[0]
ONE_GPU = "".join(PCI.splitlines(keepends=True)[:3])
TRANSLATED = """\
0 DMA-FQ 0000:00:00.0
13 DMA-FQ 0000:0a:00.0
13 DMA-FQ 0000:0a:00.1
14 DMA-FQ 0000:0b:00.0
"""
PASSTHROUGH = TRANSLATED.replace("DMA-FQ", "identity")
VERSION = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Thu Nov 16 17:10:00 UTC 2023
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
OPEN_VERSION = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@)
GCC version:
"""
MATRIX = """\
 \t\x1b[4mGPU0\tGPU1\x1b[0m\t
 GPU0\tX\t{0}\t
 GPU1\t{0}\tX\t

Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  NS   = Not supported
  U    = Unknown
"""
GRUB = """\
== /etc/default/grub
GRUB_DEFAULT=0
GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX=""

== /etc/default/grub.d/99-rigops.cfg
GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"

== /boot/grub/grubenv
# GRUB Environment Block
saved_entry=0
######
== command -v update-grub grub-mkconfig grub2-mkconfig grubby bootctl kernel-install
/usr/sbin/update-grub
/usr/sbin/grub-mkconfig
== grep -l default/grub.d grub-mkconfig
/usr/sbin/grub-mkconfig
== grep linux /boot/grub/grub.cfg
\tlinux\t/vmlinuz-6.1.0-20-amd64 root=UUID=1234 ro quiet iommu=pt
\t\tlinux\t/vmlinuz-6.1.0-18-amd64 root=UUID=1234 ro single
== ls /boot
config-6.1.0-18-amd64
grub
initrd.img-6.1.0-18-amd64
vmlinuz-6.1.0-18-amd64
vmlinuz-6.1.0-20-amd64
"""
PACKAGES = """\
== dpkg-query -W
linux-image-6.1.0-18-amd64\t6.1.76-1\tamd64\tii 
nvidia-driver\t545.29.06-1\tamd64\thi 
nvidia-driver-435\t\t\tun 
libcuda1:i386\t535.183.01-1\ti386\trc 
"""  # noqa: W291 - dpkg ends its abbreviation with a blank
HOLDS = """\
== apt-mark showhold
nvidia-driver
libnvidia-compute-535:i386
== /etc/apt/preferences.d/nvidia
Explanation: kept
Package: *nvidia*
Pin: version 535.*
Pin-Priority: 1001

Package: nvidia-driver-545
Pin: release *
Pin-Priority: -1

== apt-config dump Unattended-Upgrade
Unattended-Upgrade "";
Unattended-Upgrade::Package-Blacklist "";
Unattended-Upgrade::Package-Blacklist:: "nvidia";
Unattended-Upgrade::Package-Blacklist:: "linux-";
Unattended-Upgrade::Mail "root";
"""
STATE = """\
== /var/lib/rigops/owned.json
{"schema": "rigops.owned/1", "files": []}

== /var/lib/rigops/leaving.json
{}

== tail -n 50 /var/lib/rigops/journal.jsonl
{"host": "rig"}
"""

# Two 3090 on a driver that hangs and an IOMMU that translates.
BROKEN = {
    "os-release": OS_RELEASE,
    "uname": UNAME,
    "proc-cmdline": CMDLINE,
    "boot": BOOT,
    "pci": PCI,
    "iommu-groups": TRANSLATED,
    "nvidia-version": VERSION.format("545.29.06"),
    "nvidia-smi-p2p-read": MATRIX.format("OK"),
    "bootloader": GRUB,
    "packages": PACKAGES,
    "package-holds": HOLDS,
    "rigops-state": STATE,
}


def bundle(texts: dict[str, str], **cut: int) -> Bundle:
    """`cut` names sections (with _ for -) that ended with this code."""
    codes = {name.replace("_", "-"): rc for name, rc in cut.items()}
    sections = {name: Collected(text, rc=codes.get(name, 0)) for name, text in texts.items()}
    return Bundle("rig", "2026-01-31T18:00:00Z", root=True, sections=sections)
