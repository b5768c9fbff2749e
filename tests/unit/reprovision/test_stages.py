"""What stages decide from a capture, and what is remembered between runs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.capture.document import Capture, Disk, FileSystem, Mount, PublicKey, User
from rigops.errors import RigopsError
from rigops.reprovision import bootstrap, data, mounts, restore
from rigops.reprovision.bootstrap import Account
from rigops.reprovision.data import key_files
from rigops.reprovision.mounts import LostMount, captured_mounts, lost_mounts
from rigops.reprovision.restore import (
    is_still_there,
    left_to_its_tool,
    newer_files,
    show_restored,
)
from rigops.reprovision.state import NAME, StageTime, State, read, restored_key, write
from rigops.transport import Result
from tests.unit import programs
from tests.unit.doctor.examining import spec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DATA = FileSystem(
    uuid="d-1",
    type="btrfs",
    disks=("sda",),
    mounts=(
        Mount(
            at="/models",
            subvolume="/@m",
            options=("rw", "noatime", "space_cache=v2", "subvolid=256", "subvol=/@m"),
        ),
    ),
)
CAPTURED = Capture(
    host="rig",
    status="safe",
    disks=(Disk(name="nvme0n1", holds=("root", "boot")), Disk(name="sda", holds=("data",))),
    file_systems=(
        FileSystem(
            uuid="r-1",
            type="btrfs",
            disks=("nvme0n1",),
            mounts=(Mount(at="/"), Mount(at="/home")),
        ),
        DATA,
    ),
    users=(
        User(  # noqa: S604 - no program
            name="me", uid=1005, gid=1006, home="/data/me", shell="/bin/zsh", groups=("me", "video")
        ),
    ),
    host_keys=(
        PublicKey(type="ssh-ed25519", fingerprint="SHA256:a"),
        PublicKey(type="ssh-rsa", fingerprint="SHA256:b"),
    ),
)


class Host:
    """Answers each command with the next of these texts."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[str]] = []

    def __call__(self, words: Sequence[str], _: float) -> Result:
        self.asked.append(words)
        return Result(exit_code=0, stdout=self.answers.pop(0).encode(), stderr=b"")


def test_file_systems_of_other_disks_are_mounted_again_by_what_lasts() -> None:
    (found,) = captured_mounts(CAPTURED)

    assert (found.uuid, found.at, found.options) == ("d-1", "/models", "rw,noatime,subvol=/@m")


def test_a_backup_of_another_tool_is_left_to_a_person() -> None:
    watched = {"managed": False, "unit": "borgmatic.timer"}

    text = left_to_its_tool(spec(borg=watched))

    assert text is not None
    assert text.startswith("what borgmatic.timer has backed up was not restored")
    assert left_to_its_tool(spec()) is None


@pytest.mark.parametrize("state", ["free", "absent", "taken"])
def test_what_is_not_mounted_is_lost(state: str) -> None:
    (found,) = lost_mounts(CAPTURED, Host(f"{state}\n"))

    assert isinstance(found, LostMount)
    assert found.state == state


def test_what_is_mounted_is_left_alone() -> None:
    assert lost_mounts(CAPTURED, Host("mounted\n")) == ()


def test_a_path_on_another_disk_is_still_there_and_one_of_the_root_is_not() -> None:
    assert is_still_there(CAPTURED, "/models/llama", Host("d-1\n"))
    assert not is_still_there(CAPTURED, "/models/llama", Host("r-2\n"))
    assert not is_still_there(CAPTURED, "/home", Host("r-2\n"))


def test_newer_files_are_named() -> None:
    host = Host("r-2\n/home/me/new one\n")

    assert newer_files("/home", "2026-11-25T06:00:00Z", host) == ("/home/me/new one",)


def test_what_a_restore_could_not_show_says_what_to_do() -> None:
    assert show_restored("/home", Host("shown\n"))
    assert not show_restored("/home", Host(""))
    failed = Result(exit_code=32, stdout=b"", stderr=b"umount: /home: no")

    with pytest.raises(
        RigopsError, match="/home shows what was there before its restore"
    ) as raised:
        show_restored("/home", lambda *_: failed)

    assert "reboot the host" in raised.value.problems[0].fix


def test_the_account_is_the_captured_one_or_an_ordinary_one() -> None:
    assert Account.from_capture("me", CAPTURED) == Account(  # noqa: S604 - no program
        name="me", uid=1005, gid=1006, home="/data/me", shell="/bin/zsh", groups=("video",)
    )
    assert Account.from_capture("other", CAPTURED) == Account(name="other")


def test_files_of_host_keys_are_named_by_their_types() -> None:
    assert key_files(CAPTURED) == ("/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_rsa_key")


def test_what_is_remembered_is_read_again_and_damage_is_nothing(tmp_path: Path) -> None:
    stage = StageTime(stage="apply", began="a", ended="b", seconds=1.5, outcome="done")
    state = State(stages=(stage,), restored={restored_key("m", "/home"): "borg x"})

    write(tmp_path, state)

    assert read(tmp_path) == state
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    (tmp_path / NAME).write_text("{")
    assert read(tmp_path) == State()


@pytest.mark.parametrize("shell", programs.SHELLS)
@pytest.mark.parametrize(
    "script",
    [
        bootstrap.LOOK,
        bootstrap.INSTALL,
        mounts.LOOK,
        mounts.MOUNT,
        restore.LOOK,
        restore.SHOW,
        data.SHOW,
        data.IS_BESIDE,
        data.RELOAD,
    ],
)
def test_scripts_are_read_by_every_shell(script: str, shell: str) -> None:
    done = subprocess.run(
        [*programs.shell(shell), "-n"], input=script, text=True, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr
