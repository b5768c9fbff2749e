"""What the program asks of the mounts of the whole machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.host import mounted
from rigops.backup.host.btrfs import BtrfsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

BUSY = b"umount: /home2: target is busy."
AT_HOME = mounted.Mount(1, "/@home", "/home2", "btrfs", "/dev/sda", "rw")


class Host:
    """Answers each call of umount; the last answer again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: bytes) -> None:
        self.answers = list(answers)
        self.calls = 0
        monkeypatch.setattr(subprocess, "run", self.run)
        monkeypatch.setattr("time.sleep", lambda _: None)

    def run(self, words: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        self.calls += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return subprocess.CompletedProcess(words, 32 if answer else 0, b"", answer)


def test_a_mount_that_is_busy_for_a_moment_is_unmounted(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, BUSY, BUSY, b"")

    assert mounted.unmount(AT_HOME) == ""
    assert host.calls == 3


def test_a_mount_that_stays_busy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, BUSY)

    assert mounted.unmount(AT_HOME) == BUSY.decode()
    assert host.calls < 60


def test_another_refusal_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, b"umount: /home2: not mounted.")

    assert "not mounted" in mounted.unmount(AT_HOME)
    assert host.calls == 1


def test_a_disk_is_disconnected_whose_mount_is_there_without_its_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = tmp_path / "sdb"
    there.touch()
    text = (
        "1 0 0:1 / / rw - ext4 /dev/root rw\n2 1 0:2 / /mnt rw - ext4 /dev/gone rw\n"
        f"3 1 0:3 / /mnt/usb rw - ext4 {there} rw\n4 1 0:4 / /run rw - tmpfs tmpfs rw\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
    monkeypatch.setattr(os.path, "exists", lambda path: path == str(there))
    dev = text.replace(str(there), "/dev/gone")

    assert [
        mounted.is_disconnected(one) for one in ("/mnt/borg", "/mnt/usb/borg", "/run/x", "/srv")
    ] == [True, False, False, False]
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: dev)
    assert mounted.is_disconnected("/mnt/usb")


def test_a_mount_that_fails_is_named_by_its_cause_and_not_by_the_hint_below() -> None:
    hint = "\n       dmesg(1) may have more information after failed mount system call.\n"
    gone = BtrfsError("/dev/sdb", f"mount: /x: special device /dev/sdb does not exist.{hint}")
    dead = BtrfsError("/dev/sdb", f"mount: /x: can't read superblock on /dev/sdb.{hint}")

    assert gone.message == "/dev/sdb: the disk is not connected any more"
    assert dead.message == "/dev/sdb: the disk does not read or write"
    assert gone.fix
    assert dead.fix
