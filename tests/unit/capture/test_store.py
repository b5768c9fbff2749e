"""Captures on this machine: whole, for this person alone, and none takes another's place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops import atomic_file
from rigops.capture import store as captures
from rigops.capture.document import Capture
from rigops.errors import RigopsError
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles.reading import read_all
from rigops.vault.store import Store

if TYPE_CHECKING:
    from pathlib import Path

BUNDLE = Bundle("rig", None, root=True, sections={"uname": Collected("Linux")})


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / "data" / "vault")


def capture(second: int = 0, status: str = "safe") -> Capture:
    return Capture(host="my rig", status=status, at=f"2026-11-25T16:30:{second:02d}Z")  # type: ignore[arg-type]  # one of its words


def test_the_newest_is_read_back_with_its_place(own: Store) -> None:
    first = captures.put(own, capture(1), BUNDLE)
    stored = captures.put(own, capture(2), BUNDLE)

    assert captures.newest(own, "my rig") == stored
    assert list(captures.newest_first(own, "my rig")) == [stored, first]
    assert stored.place == str(own.folder / "captures/my_rig/20261125T163002Z")
    assert captures.newest(own, "another") is None


def test_nobody_else_may_read_it(own: Store) -> None:
    stored = captures.put(own, capture(), BUNDLE)

    place = own.folder / "captures/my_rig/20261125T163000Z"
    assert stored.place == str(place)
    modes = {
        one.name: one.stat().st_mode & 0o777 for one in (place.parent, place, *place.iterdir())
    }
    assert modes == {
        "my_rig": 0o700, "20261125T163000Z": 0o700, "capture.json": 0o600, "bundle.tar.gz": 0o600,
    }  # fmt: skip
    (bundle,) = read_all(place / "bundle.tar.gz")
    assert bundle.sections["uname"].text == "Linux"


def test_two_of_one_second_are_two(own: Store) -> None:
    first, second = (captures.put(own, capture(), BUNDLE) for _ in range(2))

    assert first.place != second.place
    assert captures.newest(own, "my rig") == second


def test_old_ones_go_and_the_newest_that_was_safe_stays(own: Store) -> None:
    safe = captures.put(own, capture(0), BUNDLE)
    for second in range(1, 15):
        captures.put(own, capture(second, "not safe"), BUNDLE)

    names = sorted(one.name for one in (own.folder / "captures/my_rig").iterdir())
    assert names[0] == safe.place.rpartition("/")[2]
    captures.put(own, capture(20), BUNDLE)
    names = sorted(one.name for one in (own.folder / "captures/my_rig").iterdir())
    assert len(names) == 10


def test_a_damaged_one_is_an_error_and_never_an_absent_one(own: Store) -> None:
    captures.put(own, capture(1), BUNDLE)
    captures.put(own, capture(2), BUNDLE)
    (own.folder / "captures/my_rig/20261125T163002Z/capture.json").write_text("{")

    with pytest.raises(RigopsError, match="damaged"):
        captures.newest(own, "my rig")


def test_a_folder_that_cannot_be_written_is_said_with_the_fix(own: Store) -> None:
    own.folder.parent.mkdir(parents=True)
    own.folder.write_text("no folder")

    with pytest.raises(RigopsError) as refused:
        captures.put(own, capture(), BUNDLE)
    assert refused.value.problems[0].fix.startswith("make the folder writable")


def test_what_was_interrupted_is_none(own: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic_file, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        captures.put(own, replace(capture(), status="safe"), BUNDLE)

    assert captures.newest(own, "my rig") is None
    assert list((own.folder / "captures/my_rig").iterdir()) == []
