"""Whether a time service has not set the clock: of a made-up root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.backup.host import time_service
from rigops.backup.host.time_service import find_unsynchronized

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def says(monkeypatch: pytest.MonkeyPatch, *, error: bool) -> None:
    monkeypatch.setattr(time_service, "_has_time_error", lambda: error)


def test_without_a_service_the_kernel_is_not_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, error=True)

    assert find_unsynchronized(root) == ""


def test_timesyncd_says_itself_that_it_has_set_the_clock(root: Path) -> None:
    put(root / "run/systemd/timesync/clock")
    assert find_unsynchronized(root) == "systemd-timesyncd"

    put(root / "run/systemd/timesync/synchronized")
    assert find_unsynchronized(root) == ""


@pytest.mark.parametrize(("file", "name"), [
    ("run/chrony/chronyd.pid", "chronyd"), ("run/ntpd.pid", "ntpd"),
])  # fmt: skip
def test_of_other_services_the_kernel_knows(
    root: Path, monkeypatch: pytest.MonkeyPatch, file: str, name: str
) -> None:
    put(root / file, "123\n")
    says(monkeypatch, error=True)
    assert find_unsynchronized(root) == ""  # it has ended

    put(root / "proc/123/comm", "bash\n")
    assert find_unsynchronized(root) == ""  # the number is another one's

    put(root / "proc/123/comm", f"{name}\n")
    assert find_unsynchronized(root) == name
    says(monkeypatch, error=False)
    assert find_unsynchronized(root) == ""
