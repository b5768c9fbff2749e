"""What a reinstall needs to know of a host, as the host prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections.identity import SECTION, parse
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS = (
    "KNAME", "PKNAME", "MAJ:MIN", "TYPE", "SIZE", "ROTA", "FSTYPE", "LABEL", "UUID", "SERIAL",
)  # fmt: skip
_ROWS = (
    ("nvme0n1", "", "259:0", "disk", "1000204886016", "0", "", "", "", "S5GXNF0R123456"),
    ("nvme0n1p2", "nvme0n1", "259:2", "part", "99", "0", "btrfs", "my\\x20root", "0a1b", ""),
    ("md0", "sda1", "9:0", "raid1", "1", "1", "ext4", "", "c", ""),
    ("md0", "sdb1", "9:0", "raid1", "1", "1", "ext4", "", "c", ""),
    ("loop0", "", "7:0", "loop", "1", "1", "", "", "", ""),
)
ROWS = "\n".join(
    " ".join(f'{name}="{value}"' for name, value in zip(_COLUMNS, row, strict=True))
    for row in _ROWS
)
TEXT = r"""
== lsblk
ROWS
garbage
== backing files
loop0 /srv/my images/a.img
== /run/udev/data
259:0 ID_SERIAL Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1
259:0 ID_SERIAL_SHORT S5GXNF0R123456
259:0 ID_WWN eui.002538b111b01234
== stat -L of mounted devices
103:2 /dev/nvme0n1p2
== /etc/passwd of people
root:x:0:0:root:/root:/bin/bash
me:x:1000:1000:Me:/home/me:/bin/zsh
== /etc/group
sudo:x:27:me
video:x:44:me,other
== authorized_keys of me
# mine
ssh-ed25519 AAAA me@laptop
restrict,command="x" ssh-rsa BBBB backup
== /etc/ssh/*.pub
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 root@rig
== /etc/rigops/borg_key.pub
ssh-ed25519 AAAAC3Nz rigops@rig
== apt-mark showmanual
btrfs-progs
borgbackup
== ip -o link
1: lo: <LOOPBACK,UP> mtu 65536 link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
2: enp5s0: <UP> mtu 1500 state UP \  link/ether aa:bb:cc:00:00:01 permaddr aa:bb:cc:00:00:02
3: wlp6s0: <UP> mtu 1500 state DOWN \    link/ether aa:bb:cc:00:00:03 brd ff:ff:ff:ff:ff:ff
4: eth0@if7: <UP> mtu 1500 master br0 state UP \    link/ether aa:bb:cc:00:00:04
== ip -o address
2: enp5s0    inet 192.168.1.20/24 metric 100 brd 192.168.1.255 scope global dynamic enp5s0\  x
2: enp5s0    inet6 fe80::1/64 scope link \       valid_lft forever preferred_lft forever
4: eth0    inet 10.0.0.2/24 brd 10.0.0.255 scope global eth0\       valid_lft forever
== ip route show default
default via 192.168.1.1 dev enp5s0 proto dhcp src 192.168.1.20 metric 100
== iw dev
wlp6s0 ssid my home
== resolv.conf
nameserver 192.168.1.1
search lan .
== dmidecode -t slot
	Designation: PCIEX16_1
	Bus Address: 0000:0A:00.0
== borg --version
borg 1.2.4
== the system
hostname rig
machine-id 0123
firmware uefi
timezone Europe/Berlin
""".replace("ROWS", ROWS)


def test_disks_have_the_names_that_installers_match() -> None:
    found = parse(TEXT)

    assert found.devices is not None
    by_name = {one.name: one for one in found.devices}
    disk, root = by_name["nvme0n1"], by_name["nvme0n1p2"]
    assert disk.udev["ID_SERIAL"] == "Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1"
    assert (disk.parents, disk.bytes, disk.is_rotational) == ((), 1000204886016, False)
    assert (root.parents, root.file_system, root.label) == (("nvme0n1",), "btrfs", "my root")
    assert by_name["md0"].parents == ("sda1", "sdb1")
    assert by_name["loop0"].backing == "/srv/my images/a.img"
    assert found.nodes == {"/dev/nvme0n1p2": "259:2"}


def test_people_networks_keys_and_the_system_are_read() -> None:
    found = parse(TEXT)

    assert found.people is not None
    me = found.people[1]
    assert (me.groups, me.shell, len(me.authorized_keys)) == (("sudo", "video"), "/bin/zsh", 2)
    assert found.connections is not None
    wired, wifi, static = found.connections
    assert (wired.mac, wired.permanent_mac) == ("aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02")
    assert (wired.addresses, wired.gateways) == (("192.168.1.20/24",), ("192.168.1.1",))
    assert [one.is_dhcp for one in (wired, wifi, static)] == [True, None, False]
    assert (wifi.ssid, static.name, static.above) == ("my home", "eth0", "br0")
    assert (found.nameservers, found.search) == (("192.168.1.1",), ("lan",))
    assert found.slots == {"0000:0a:00.0": "PCIEX16_1"}
    assert (found.manual, found.borg) == (("btrfs-progs", "borgbackup"), "1.2.4")
    assert found.own_keys == {"/etc/rigops/borg_key.pub": "ssh-ed25519 AAAAC3Nz rigops@rig"}
    assert found.system["timezone"] == "Europe/Berlin"


@pytest.mark.parametrize("text", ["", "== lsblk\n", "== ip -o link\n\0", "Traceback"])
def test_whatever_comes_is_read(text: str) -> None:
    found = parse(text)

    assert found.borg is None
    assert not found.devices


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_asks_it(shell: str, tmp_path: Path) -> None:
    files = {
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/sh\n",
        "etc/group": "sudo:SECRET:27:root\n",
        "etc/ssh/ssh_host_ed25519_key.pub": "ssh-ed25519 AAAAC3Nz root@rig\n",
        "etc/rigops/borg_key.pub": "ssh-ed25519 AAAA rigops@rig\n",
        "etc/machine-id": "0123\n",
        "etc/default/locale": 'LANG="de_DE.UTF-8"\n',
        "etc/default/keyboard": "XKBLAYOUT=de\n",
        "etc/resolv.conf": "nameserver 192.0.2.1\noptions x\n",
        "run/udev/data/b8:0": "E:ID_SERIAL=Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    answer = ask(SECTION, shell, tmp_path)

    assert answer.is_complete, answer
    assert "SECRET" not in answer.text
    assert "8:0 ID_SERIAL Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1" in answer.text.splitlines()
    found = parse(answer.text)
    assert [(one.name, one.groups) for one in found.people or ()] == [("root", ("sudo",))]
    assert found.host_keys == ("ssh-ed25519 AAAAC3Nz root@rig",)
    assert list(found.own_keys) == ["/etc/rigops/borg_key.pub"]
    said = {name: found.system.get(name) for name in ("machine-id", "locale", "keyboard")}
    assert said == {"machine-id": "0123", "locale": "de_DE.UTF-8", "keyboard": "de"}
    assert found.nameservers == ("192.0.2.1",)
