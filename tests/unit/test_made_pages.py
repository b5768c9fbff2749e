"""Pages and pictures that are made are as they would be made now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from docgen import keys, terminal
from rigops.doctor.registry import CHECKS

ROOT = Path(__file__).resolve().parents[2]


def test_they_are_made_from_what_is_there(tmp_path: Path) -> None:
    # In a process of its own: commands bring gevent.
    subprocess.run([sys.executable, "-m", "docgen", str(tmp_path)], cwd=ROOT, check=True)

    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    stale = [one for one in made if (ROOT / one).read_bytes() != (tmp_path / one).read_bytes()]
    assert stale == [], "run `make docs-pages`"
    for folder in ("checks", "commands", "stories"):
        pages = {path.relative_to(ROOT) for path in (ROOT / "docs/reference" / folder).iterdir()}
        assert pages - made == set(), "of what is no more"
    assert {f"{check.id}.md" for check in CHECKS} <= {path.name for path in made}


def test_only_the_table_of_keys_is_made_in_the_page_of_the_inventory() -> None:
    page = keys.page(
        "before\n\n| key | takes | concern |\n|---|---|---|\n| `old` | x | y |\n\nafter\n"
    )

    assert page.startswith("before\n\n| key | takes | concern |\n")
    assert page.endswith("|\n\nafter\n")
    assert "`old`" not in page
    assert '| `acs_redirect` | "keep", "off" | [acs](../how-to/acs.md) |\n' in page


def test_a_picture_draws_the_lines_that_it_is_to_show_as_text() -> None:
    drawn = terminal.picture((ROOT / "docs/first-hour.md").read_text(encoding="utf-8"))

    assert '<tspan class="fail">fail</tspan>  iommu.mode   the IOMMU translates' in drawn
    assert ']: <tspan class="command">y</tspan></text>' in drawn
    assert "nvidia-modprobe" not in drawn  # left out of the plan
