from __future__ import annotations

import pytest

from rigops.probe.sections.boots import STORAGE
from tests.unit.doctor.examining import check_of, judge


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (f"== {STORAGE}\nyes\n", "ok"),
        (f"== {STORAGE}\nno\n", "warn"),
        (f"== {STORAGE}\n", "unknown"),
        ("rubbish\n", "unknown"),
        ("", "skipped"),
        (None, "unknown"),
    ],
)
def test_a_journal(text: str | None, status: str) -> None:
    (found,) = judge({"boots": text}, checks=[check_of("journal.persistent")])

    assert found.status == status
