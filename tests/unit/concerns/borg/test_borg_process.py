from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.borg.host import borg_process
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


def test_a_borg_that_ends_in_time_gives_its_answer(borg: Borg) -> None:
    assert borg.ask("prompt", most_s=3600).document() == {"path": "one"}
    assert list(borg.lines("prompt", most_s=3600)) == [{"path": "one"}]
