"""What a host has for snapshots, as it prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.snapshots.file_systems import (
    SECTION,
    BtrfsMount,
    FileSystem,
    OtherMount,
    SnapshotsHost,
    parse,
)
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

UUID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
TEXT = f"""\
== python3 -V
Python 3.11.2
== command -v
/usr/bin/btrfs
/usr/bin/ssh
== grep btrfs /proc/self/mountinfo
29 1 0:25 /@ / rw,relatime shared:1 - btrfs /dev/sda2 rw,space_cache=v2,subvolid=256,subvol=/@
60 29 0:25 /@home /home/my\\040files rw - btrfs /dev/sda2 rw,subvolid=257
garbage
== grep -v btrfs /proc/self/mountinfo
22 29 0:21 / /proc rw,nosuid shared:5 - proc proc rw
31 29 8:1 / /my\\040disk rw - ext4 /dev/sda1 rw
garbage
== btrfs filesystem show 0:25
Label: none  uuid: {UUID}
	Total devices 1 FS bytes used 1.00GiB
== btrfs subvolume list 0:25
ID 256 gen 10 top level 5 path @
ID 257 gen 10 top level 5 path @home
ID 258 gen 11 top level 256 path @/a path with blanks
ID 300 gen 11 top level 5 path .rigops/snapshots/@/20261125T060001Z-timer
== btrfs subvolume list -r 0:25
ID 300 gen 11 top level 5 path .rigops/snapshots/@/20261125T060001Z-timer
== blkid -t TYPE=btrfs
{UUID}
== ls btrfs-scrub*.timer
btrfs-scrub@-.timer
== ls of other tools
/etc/btrbk/btrbk.conf
/etc/timeshift/timeshift.json
== /etc/snapper/configs/root
SUBVOLUME="/"
== /etc/rigops/snapshots_key.pub
ssh-ed25519 AAAA rigops@rig
"""


def test_all_of_it_is_read() -> None:
    snapshot = ".rigops/snapshots/@/20261125T060001Z-timer"
    subvolumes = frozenset({"@", "@home", "@/a path with blanks", snapshot})

    assert parse(TEXT) == SnapshotsHost(
        python=(3, 11),
        tools=frozenset({"btrfs", "ssh"}),
        mounts=(BtrfsMount("/", "/@", "0:25"), BtrfsMount("/home/my files", "/@home", "0:25")),
        other_mounts=(OtherMount("/proc", "proc"), OtherMount("/my disk", "ext4")),
        file_systems={"0:25": FileSystem(UUID, subvolumes, frozenset({snapshot}))},
        disks=frozenset({UUID}),
        scrub_timers=("btrfs-scrub@-.timer",),
        others=(
            ("snapper", "/etc/snapper/configs/root (/)"),
            ("btrbk", "/etc/btrbk/btrbk.conf"),
            ("Timeshift", "/etc/timeshift/timeshift.json"),
        ),
        public_key="ssh-ed25519 AAAA rigops@rig",
    )


def test_a_row_in_the_name_of_a_users_snapshot_makes_no_subvolume_one() -> None:
    """Which would be refused as what to take snapshots of."""
    rows = "ID 301 gen 12 top level 257 path @home/eve/x\nID 257 gen 10 top level 5 path @home\n"
    text = TEXT.replace(
        "== btrfs subvolume list -r 0:25\n", f"{rows}== btrfs subvolume list -r 0:25\n{rows}"
    )

    found = parse(text).file_systems["0:25"]

    assert "@home" in found.subvolumes
    assert "@home" not in found.read_only


@pytest.mark.parametrize("text", ["", "noise", "== python3 -V\n", "\x00== btrfs subvolume list \n"])
def test_nothing_that_a_host_may_say_raises(text: str) -> None:
    assert parse(text) == SnapshotsHost()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_section_names_other_tools_by_their_configuration(shell: str, tmp_path: Path) -> None:
    for path, text in {
        "etc/btrbk/btrbk.conf": "",
        "etc/timeshift/timeshift.json": '{ "btrfs_mode" : "true" }',
        "etc/timeshift.json": '{ "btrfs_mode" : "false" }',
        "etc/snapper/configs/home": 'SUBVOLUME="/home"\nALLOW_USERS="me"\n',
        "etc/rigops/snapshots_key.pub": "ssh-ed25519 AAAA rigops@rig\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    answer = ask(SECTION, shell, tmp_path)

    assert answer.is_complete
    found = parse(answer.text)
    assert [tool for tool, _ in found.others] == ["snapper", "btrbk", "Timeshift"]
    assert found.public_key == "ssh-ed25519 AAAA rigops@rig"
    assert "ALLOW_USERS" not in answer.text
