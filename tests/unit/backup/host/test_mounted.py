"""What the program asks of the mounts of the whole machine."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from rigops.backup.host import mounted

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
