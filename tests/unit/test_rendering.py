from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from jinja2 import UndefinedError

from rigops import assets
from rigops.rendering import render

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(assets, "find", lambda _name: tmp_path)
    return tmp_path


def test_values_are_put_in_as_they_are_and_the_last_newline_stays(templates: Path) -> None:
    (templates / "guard.service.j2").write_text("ExecStart={{ command }}\n")
    assert render("guard.service.j2", command="a < 'b' & c") == "ExecStart=a < 'b' & c\n"


def test_a_value_that_is_not_given_is_an_error(templates: Path) -> None:
    (templates / "guard.service.j2").write_text("ExecStart={{ command }}\n")
    with pytest.raises(UndefinedError, match="command"):
        render("guard.service.j2")


def test_html_is_escaped(templates: Path) -> None:
    (templates / "report.html.j2").write_text("<p>{{ text }}</p>")
    assert render("report.html.j2", text="<script>") == "<p>&lt;script&gt;</p>"
