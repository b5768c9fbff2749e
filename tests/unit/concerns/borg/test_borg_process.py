from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.backup.host.errors import HostError
from rigops.concerns.borg.host import borg_process
from rigops.concerns.borg.host.borg_meanings import BorgError
from rigops.concerns.borg.host.borg_process import Borg, BorgTooSlowError
from rigops.concerns.borg.host.borg_settings import BorgSettings
from rigops.concerns.borg.host.borg_versions import demand_usable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def borg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Borg:
    """One that answers `prompt`, and hangs at `hang` after its first line."""
    program = tmp_path / "borg"
    program.write_text(
        '#!/bin/sh\necho \'{"path": "one"}\'\ncase "$*" in *hang*) exec sleep 3600 ;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(borg_process, "_PATH", f"{tmp_path}:/usr/bin:/bin")
    settings = BorgSettings("rig", "/mnt/backup/borg", ("/home",))
    return Borg(settings, b"secret", demand_usable("borg 1.4.0"))


def test_a_borg_that_hangs_is_ended_when_its_time_is_over(borg: Borg) -> None:
    with pytest.raises(BorgTooSlowError, match="too slow"):
        borg.ask("hang", most_s=0.1)
    with pytest.raises(BorgTooSlowError, match="too slow"):
        list(borg.lines("hang", most_s=0.1))


def test_one_that_says_nothing_any_more_is_ended(
    borg: Borg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(borg_process, "_BORG_SILENCE_S", 0.1)

    with pytest.raises(BorgTooSlowError, match="too slow"):
        borg.ask("hang")


def test_a_flood_of_messages_is_kept_in_part_and_the_last_one_counts(
    borg: Borg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(borg_process, "_MOST_MESSAGES", 3)
    monkeypatch.setattr(borg_process, "_LONGEST_MESSAGE", 40)
    (tmp_path / "borg").write_text(
        "#!/bin/sh\nseq 1 100000 >&2\nhead -c 3000000 /dev/zero | tr '\\0' x >&2\n"
        "echo >&2\necho 'bash: borg: command not found' >&2\nexit 2\n"
    )

    with pytest.raises(BorgError, match="the server has no borg"):
        borg.ask("list")


def test_an_answer_without_end_is_cut(
    borg: Borg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(borg_process, "_MOST_ANSWER", 1 << 16)
    (tmp_path / "borg").write_text("#!/bin/sh\nexec yes\n")

    with pytest.raises(HostError):
        borg.ask("list")


def test_a_borg_that_ends_in_time_gives_its_answer(borg: Borg) -> None:
    assert borg.ask("prompt", most_s=3600).document() == {"path": "one"}
    assert list(borg.lines("prompt", most_s=3600)) == [{"path": "one"}]
