from __future__ import annotations

from pathlib import Path

from rigops.doctor.checks_page import page
from rigops.doctor.registry import CHECKS

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/checks/README.md"


def test_the_page_is_made_from_the_checks() -> None:
    assert PAGE.read_text(encoding="utf-8") == page() + "\n", "run `make checks-page`"


def test_every_check_has_a_row_and_a_section() -> None:
    text = page()

    for check in CHECKS:
        assert f"| [{check.id}](#{check.id.replace('.', '')}) | {check.title} |" in text
        assert f"\n## {check.id}\n" in text
