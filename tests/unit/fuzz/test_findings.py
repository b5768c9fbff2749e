"""What the fuzz once found, and what it found is mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.fuzz.targets import FIXTURES, targets, trouble

if TYPE_CHECKING:
    from pathlib import Path

STORED = sorted(path for path in (FIXTURES / "fuzz").glob("*/*") if path.is_file())


def test_whole_examples_are_read() -> None:
    found = [
        (name, how)
        for name, target in targets().items()
        for one in target.examples
        if (how := trouble(target, one))
    ]

    assert found == []


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_finding_is_mended(path: Path) -> None:
    assert trouble(targets()[path.parent.name], path.read_bytes()) is None
