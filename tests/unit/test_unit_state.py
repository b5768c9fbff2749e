"""Whether a unit runs has one answer."""

from __future__ import annotations

import pytest

from rigops.unit_state import unit_in_words, unit_runs


@pytest.mark.parametrize(
    ("active", "enabled", "runs", "words"),
    [
        ("active", "enabled", True, ""),
        ("activating", "enabled", True, ""),
        ("reloading", "enabled", True, ""),
        ("failed", "enabled", False, "is failed"),
        ("inactive", "enabled", False, "is inactive"),
        ("active", "disabled", False, "is disabled, so no boot starts it"),
        ("active", "masked", False, "is masked"),
        ("active", "", False, "is unknown, so no boot starts it"),
        ("", "enabled", False, "is unknown"),
    ],
)
def test_a_unit_runs_where_it_does_now_and_after_a_boot(
    active: str, enabled: str, words: str, *, runs: bool
) -> None:
    assert unit_runs(active, enabled) == runs
    assert runs or unit_in_words(active, enabled) == words
