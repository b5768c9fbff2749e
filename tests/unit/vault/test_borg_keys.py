"""Exported keys of borg repositories in the vault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.errors import RigopsError
from rigops.vault.borg_keys import has_key, key_id, put_key
from rigops.vault.store import Store

if TYPE_CHECKING:
    from pathlib import Path

ID = "0f" * 32
KEY = f"BORG_KEY {ID}\n" + "hqlhbGdvcml0aG2mc2hhMjU2pGRhdGHaAN4\n" * 12


def test_a_key_is_stored_for_this_user_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "vault")

    place = put_key(store, "my rig/1", KEY)

    assert place.read_text() == KEY
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert place.name == f"my_rig_1-{ID[:12]}.key"
    assert has_key(store, "my rig/1", ID)
    assert not has_key(store, "other", ID)
    assert not has_key(store, "my rig/1", "0e" * 32)


@pytest.mark.parametrize("text", ["", "BORG_KEY", f"BORG_KEY {ID}\n", "Traceback", f"x\n{KEY}"])
def test_what_is_no_key_is_refused_and_replaces_nothing(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    place = put_key(store, "rig", KEY)

    assert key_id(text) is None
    with pytest.raises(RigopsError):
        put_key(store, "rig", text)
    assert place.read_text() == KEY


def test_a_damaged_key_counts_as_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put_key(store, "rig", KEY).write_bytes(b"\xff\xfe")

    assert not has_key(store, "rig", ID)
