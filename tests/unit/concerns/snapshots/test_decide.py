"""What is declared against what a host has: what is in the way, and what a person should know."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.backup.host.server_access import snapshots_key_line
from rigops.backup.host.snapshot_settings import SnapshotSettings, read_snapshot_settings
from rigops.concerns.registry import read
from rigops.concerns.snapshots import decide
from rigops.concerns.snapshots.file_systems import BtrfsMount, FileSystem, OtherMount, SnapshotsHost
from rigops.concerns.snapshots.record import SnapshotsState, TargetState
from rigops.hostside.packing import pack

if TYPE_CHECKING:
    from rigops.inventory.spec.model import Snapshots

HERE: Final = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
OTHER: Final = "2b4e28ba-2fa1-11d2-883f-0016d3cca427"
STORE: Final = ".rigops/snapshots/@/20261125T060001Z-timer"
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheHost rigops@rig"
HOST: Final = SnapshotsHost(
    python=(3, 11),
    tools=frozenset({"btrfs", "ssh", "ssh-keygen"}),
    mounts=(
        BtrfsMount("/", "/@", "0:30"),
        BtrfsMount("/home", "/@home", "0:30"),
        BtrfsMount("/data", "/", "0:40"),
    ),
    file_systems={
        "0:30": FileSystem(
            HERE,
            frozenset({"@", "@home", "@/srv", "@/var/lib/docker/btrfs/subvolumes/0a", STORE}),
            frozenset({STORE}),
        ),
        "0:40": FileSystem(
            OTHER, frozenset({"models", ".rigops/snapshots/x/restored"}), frozenset()
        ),
    },
    disks=frozenset({HERE, OTHER}),
)


def declare(*paths: str, **more: object) -> Snapshots:
    spec = read({"snapshots": {"subvolumes": list(paths), "keep": "24h 7d", **more}})
    assert spec.snapshots is not None
    return spec.snapshots


def blocked(*paths: str, host: SnapshotsHost = HOST, **more: object) -> list[str]:
    return list(decide.blockers(declare(*paths, **more), host))


def noticed(*paths: str, host: SnapshotsHost = HOST, state: Any = None, **more: object) -> str:
    return "\n".join(decide.notices(declare(*paths, **more), host, state))


def test_with_two_btrfs_disks_the_subvolumes_of_one_are_sent_to_the_other() -> None:
    wanted = {"subvolumes": ["/", "/srv", "/home"], "keep": "24h 7d 4w 6m", "send_to": OTHER}
    assert decide.suggest(HOST) == wanted
    assert blocked("/", "/srv", "/home", send_to=OTHER) == []

    absent = replace(HOST, mounts=HOST.mounts[:2])  # it is not mounted
    assert decide.suggest(absent) == wanted


def test_of_two_data_disks_the_one_for_backups_takes_the_copies() -> None:
    mounts = (BtrfsMount("/mnt/backup", "/", "0:30"), BtrfsMount("/data", "/", "0:40"))

    found = decide.suggest(replace(HOST, mounts=mounts))

    assert found is not None
    assert (found["subvolumes"], found["send_to"]) == (["/data", "/data/models"], HERE)


@pytest.mark.parametrize(
    "changed",
    [
        {"disks": frozenset({HERE}), "mounts": HOST.mounts[:2]},
        {"disks": frozenset({HERE, OTHER, "3b4e28ba-2fa1-11d2-883f-0016d3cca427"})},
        {"others": (("snapper", "/etc/snapper/configs/root"),)},
        {"mounts": (), "disks": frozenset()},
        {
            "mounts": (BtrfsMount("/a", "/", "0:30"), BtrfsMount("/b", "/", "0:40")),
            "file_systems": {
                "0:30": FileSystem(HERE, frozenset(), frozenset()),
                "0:40": FileSystem(OTHER, frozenset(), frozenset()),
            },
        },
    ],
    ids=["one disk", "three disks", "another tool", "no btrfs", "two alike"],
)
def test_where_it_is_not_clear_which_disk_takes_copies_nothing_is_suggested(
    changed: dict[str, Any],
) -> None:
    assert decide.suggest(replace(HOST, **changed)) is None


@pytest.mark.parametrize("path", ["/", "/home", "/srv", "/data", "/data/models"])
def test_a_subvolume_is_taken_wherever_it_is_mounted_or_lies(path: str) -> None:
    assert blocked(path) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/home/alice", "is no subvolume, in the subvolume @home. fix: declare the path"),
        ("/data/folder", "is no subvolume. fix"),
        ("/srv/deeper", "in the subvolume @/srv"),
    ],
)
def test_a_folder_is_refused_with_the_subvolume_that_it_is_in(path: str, words: str) -> None:
    (reason,) = blocked(path)
    assert words in reason


@pytest.mark.parametrize(
    ("others", "what", "fix"),
    [
        ((), "on no mounted btrfs", "mount it, or remove it from subvolumes"),
        ((OtherMount("/home", "autofs"),), "on no mounted btrfs", "mount it"),
        ((OtherMount("/", "ext4"),), "on ext4, and only btrfs", "mount the btrfs that has it, or"),
        (
            (OtherMount("/", "ext4"), OtherMount("/home", "xfs")),
            "on xfs, and only btrfs",
            "remove it from subvolumes; `borg` backs up any file system",
        ),
    ],
)
@pytest.mark.parametrize("tools", [HOST.tools, frozenset[str]()])
def test_what_is_on_no_btrfs_is_refused_with_what_can_be_done(
    others: tuple[OtherMount, ...], what: str, fix: str, tools: frozenset[str]
) -> None:
    host = replace(HOST, mounts=(), other_mounts=others)

    (said,) = blocked("/home", host=replace(host, tools=tools))

    if "only" in what or tools:
        assert said.startswith(f"/home is {what}")
        assert f". fix: {fix}" in said
    else:
        assert said.startswith("snapshots need btrfs-progs")


@pytest.mark.parametrize(
    ("host", "more", "words"),
    [
        (replace(HOST, python=None), {}, "fix: sudo apt install python3"),
        (replace(HOST, python=(3, 7)), {}, "/usr/bin/python3 is 3.7"),
        (replace(HOST, tools=frozenset()), {}, "fix: sudo apt install btrfs-progs"),
        (
            replace(HOST, tools=frozenset({"btrfs"})),
            {"send_to": "root@nas:/srv"},
            "fix: sudo apt install openssh-client",
        ),
    ],
)
def test_a_tool_that_is_missing_is_named_with_its_package(
    host: SnapshotsHost, more: dict[str, Any], words: str
) -> None:
    (reason,) = blocked("/", host=host, **more)
    assert words in reason


def test_a_copy_on_the_same_file_system_is_refused() -> None:
    (reason,) = blocked("/", "/home", send_to=HERE)
    assert "send_to is the file system of /home itself" in reason
    assert blocked("/", send_to=OTHER) == []


def test_what_is_declared_twice_is_refused() -> None:
    (reason,) = blocked("/home", "/home/")
    assert "/home is declared 2 times" in reason
    again = replace(HOST, mounts=(*HOST.mounts, BtrfsMount("/mnt", "/@home", "0:30")))
    (reason,) = blocked("/home", "/mnt", host=again)
    assert "2 of the declared paths are the subvolume @home" in reason


def test_a_snapshot_is_no_subvolume_to_take_snapshots_of() -> None:
    top = replace(HOST, mounts=(BtrfsMount("/top", "/", "0:30"),))
    (reason,) = blocked(f"/top/{STORE}", host=top)
    assert "is a read-only snapshot itself" in reason


def test_what_a_snapshot_will_lack_is_named() -> None:
    said = noticed("/")
    assert "no content of the subvolumes inside: srv, var/lib/docker/btrfs/subvolumes/0a" in said
    assert "docker" in said
    assert noticed("/home") == ""
    assert noticed("/data") == (  # what is below .rigops is of rigops itself
        "a snapshot of /data has no content of the subvolumes inside: models; declare those that "
        "are to be taken"
    )


def test_whoever_else_takes_snapshots_is_named() -> None:
    host = replace(
        HOST,
        others=(("btrbk", "/etc/btrbk/btrbk.conf"),),
        scrub_timers=("btrfs-scrub@-.timer",),
    )
    said = noticed("/home", host=host)
    assert "btrbk takes snapshots too: /etc/btrbk/btrbk.conf" in said
    assert "btrfs-scrub@-.timer is enabled" in said


def test_without_keep_everything_stays_and_that_is_said() -> None:
    spec = read({"snapshots": {"subvolumes": ["/home"]}})
    assert spec.snapshots
    (said,) = decide.notices(spec.snapshots, HOST, None)
    assert "no snapshot is ever removed" in said


def test_an_absent_disk_is_said_with_when_it_was_there() -> None:
    absent = "3b4e28ba-2fa1-11d2-883f-0016d3cca427"
    target = TargetState(
        name=absent, state="absent", newest_at={}, seen_at="2026-11-20T10:00:00Z", error=""
    )
    state = SnapshotsState(at="", subvolumes={}, target=target, nested={})

    assert "is absent: snapshots are sent when" in noticed("/home", send_to=absent)
    said = noticed("/home", send_to=absent, state=state)
    assert "is absent (last seen 2026-11-20): snapshots" in said
    assert noticed("/home", send_to=OTHER) == ""


def test_the_program_reads_the_settings_as_they_were_declared(tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text(decide.settings("rig", declare("/", "/home", keep="7d 24h", send_to=OTHER)))

    assert read_snapshot_settings(str(path)) == SnapshotSettings(
        host="rig", subvolumes=("/", "/home"), keep="24h 7d", send_to=OTHER
    )


# ---- the server


def test_the_key_may_do_nothing_but_serve_its_folder() -> None:
    line = snapshots_key_line('/srv/my "backup"', f"{KEY}\n")

    assert line.startswith('restrict,command="/usr/local/libexec/rigops-snapshots serve ')
    assert '\'/srv/my \\"backup\\"\'" ssh-ed25519 ' in line
    assert "\n" not in line


def test_before_the_key_is_made_the_plan_says_that_it_will_be() -> None:
    before = decide.setup_notice("rig", "root@nas:/srv", "")
    after = decide.setup_notice("rig", "root@nas:/srv", KEY)

    assert "apply makes an ssh key" in before
    command = "`rigops snapshots rig --target-setup | ssh root@nas sh`"
    assert command in before
    assert command in after
    assert after.endswith(snapshots_key_line("/srv", KEY))


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Programs that make a folder of this machine a server with btrfs."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {"id": "echo 0", "stat": "echo btrfs", "btrfs": ":"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    return tmp_path


def set_up(server: Path, script: str) -> subprocess.CompletedProcess[str]:
    script = script.replace("/usr/local/libexec", f"{server}/libexec")
    environment = {"PATH": f"{server}/tools:{os.environ['PATH']}", "HOME": str(server)}
    return subprocess.run(
        ["sh"], input=script, env=environment, capture_output=True, text=True, check=False
    )


def test_the_script_for_a_server_brings_the_program_and_the_key_once(server: Path) -> None:
    text = pack("snapshots").text
    keys = server / ".ssh/authorized_keys"
    keys.parent.mkdir()
    keys.write_text("ssh-rsa AAAA somebody\n")
    keys.chmod(0o600)
    for path in ("/first", "/second"):
        done = set_up(server, decide.target_setup(KEY, f"{server}{path}", text))
        assert (done.returncode, done.stderr) == (0, "")

    program = server / "libexec/rigops-snapshots"
    assert program.read_text() == text
    assert program.stat().st_mode & 0o777 == 0o755
    somebody, own = keys.read_text().splitlines()
    assert somebody == "ssh-rsa AAAA somebody"
    assert own.endswith(f'serve {server}/second" {KEY}')
    assert keys.stat().st_mode & 0o777 == 0o600
    assert (server / "second").is_dir()


@pytest.mark.parametrize(
    ("tool", "text", "words"),
    [("id", "echo 1000", "needs root"), ("stat", "echo ext4", "is on no btrfs file system")],
)
def test_a_server_that_cannot_receive_is_left_as_it_is(
    server: Path, tool: str, text: str, words: str
) -> None:
    (server / "tools" / tool).write_text(f"#!/bin/sh\n{text}\n")
    done = set_up(server, decide.target_setup(KEY, f"{server}/x", "program"))

    assert done.returncode == 1
    assert words in done.stderr
    assert ". fix: " in done.stderr
    assert not (server / "libexec").exists()
    assert not (server / ".ssh").exists()


def test_the_settings_are_json_that_people_can_read() -> None:
    assert json.loads(decide.settings("rig", declare("/")))["send_to"] == ""
