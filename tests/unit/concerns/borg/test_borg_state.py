from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rigops.concerns.borg.host import borg_state

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_since_when_there_is_something_to_check_is_written_down_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "borg.json"
    monkeypatch.setattr(borg_state, "BORG_STATE_FILE", str(path))

    borg_state.write_borg_state({"repository": {"state": "ok"}})
    first = borg_state.read_borg_state()
    borg_state.write_borg_state({**first, "since": "2026-11-01T06:00:00Z"})
    borg_state.write_borg_state({**borg_state.read_borg_state(), "newest_at": None})

    assert first["since"] == first["at"]
    assert json.loads(path.read_text())["since"] == "2026-11-01T06:00:00Z"


def test_a_field_of_another_shape_counts_as_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "borg.json"
    monkeypatch.setattr(borg_state, "BORG_STATE_FILE", str(path))
    found = {"schema": "rigops.borg_state/1", "repository": 5, "held": {}, "newest_at": "x"}
    path.write_text(json.dumps(found))

    assert borg_state.known_repository("ssh://nas/rig") == {}
    assert borg_state.read_borg_state() == {"schema": found["schema"], "newest_at": "x"}
