"""Captures of rigs that are to be installed anew."""

from __future__ import annotations

from dataclasses import replace

from rigops.autoinstall.installation import Choices
from rigops.capture.document import (
    Capture,
    Declared,
    Disk,
    Driver,
    FileSystem,
    Interface,
    Mount,
    Network,
    System,
    User,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZvciB0ZXN0cyBvbmx5LCBhbmQgbm90aGluZyBlbHNl me@laptop"
NVME = Disk(
    name="nvme0n1",
    model="Samsung SSD 980 PRO 1TB",
    size_bytes=1_000_204_886_016,
    transport="nvme",
    id_serial="Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1",
    id_serial_short="S5GXNF0R123456",
    wwn="eui.002538b111b01234",
    holds=("root", "boot"),
)
MODELS = Disk(
    name="sda",
    model="Samsung SSD 870",
    size_bytes=8_001_563_222_016,
    transport="sata",
    id_serial="Samsung_SSD_870_QVO_8TB_S5SSNF0R654321",
    id_serial_short="S5SSNF0R654321",
    wwn="0x5002538f31b0c2d3",
    holds=("data",),
)
BACKUPS = Disk(
    name="sdb",
    model="WDC WD80EFZX",
    size_bytes=8_001_563_222_016,
    transport="usb",
    id_serial="WDC_WD80EFZX-68UW8N0_VK0ABCDE",
    id_serial_short="VK0ABCDE",
    wwn="0x5000cca263cabcde",
    holds=("backups",),
)
WIRED = Interface(
    name="enp5s0",
    mac="a8:a1:59:01:02:03",
    permanent_mac="a8:a1:59:01:02:03",
    kind="wired",
    state="up",
    addresses=("192.168.1.20/24", "fe80::aaa1:59ff:fe01:203/64"),
    gateways=("192.168.1.1",),
    is_dhcp=True,
)
STATIC = replace(WIRED, is_dhcp=False)
WIFI = Interface(
    name="wlp4s0",
    mac="a8:a1:59:0a:0b:0c",
    kind="wifi",
    state="up",
    addresses=("192.168.1.21/24",),
    is_dhcp=True,
    wifi_ssid="Attic 5 GHz",
)
RIG = Capture(
    host="threadripper",
    status="safe",
    at="2026-11-25T16:30:00Z",
    system=System(
        os_id="debian",
        os_version="12",
        hostname="threadripper",
        firmware="uefi",
        kernel="6.1.0-31-amd64",
        kernel_packages=("linux-image-amd64",),
        timezone="Europe/Berlin",
        locale="de_DE.UTF-8",
        keyboard="de",
    ),
    declared=Declared(driver="535"),
    driver=Driver(version="535.261.03", flavor="proprietary"),
    disks=(NVME, MODELS, BACKUPS),
    file_systems=(
        FileSystem(uuid="ABCD-1234", type="vfat", mounts=(Mount(at="/boot/efi"),)),
    ),
    users=(
        User(  # noqa: S604 - whose shell
            name="me", uid=1000, gid=1000, home="/home/me", shell="/bin/bash",
            groups=("sudo", "video", "docker"), is_login=True,
        ),
    ),
    network=Network(interfaces=(WIRED,), nameservers=("192.168.1.1",), search=("lan",)),
)  # fmt: skip
DEBIAN = Choices(distribution="debian", keys=(KEY,))
UBUNTU = Choices(distribution="ubuntu", keys=(KEY,))
BIOS = replace(RIG, system=replace(RIG.system, firmware="bios"), file_systems=())
