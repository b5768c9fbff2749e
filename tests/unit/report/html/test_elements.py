from __future__ import annotations

import pytest

from rigops.report.html.elements import badge, element, prose, table
from tests import hostile


def test_text_is_escaped_and_made_elements_are_not() -> None:
    made = element("p", "<b>&", element("b", "x"), class_="a")

    assert made == '<p class="a">&lt;b&gt;&amp;<b>x</b></p>'


def test_attributes_are_escaped_and_none_is_left_out() -> None:
    assert element("a", title='"><script>', href=None) == (
        '<a title="&quot;&gt;&lt;script&gt;"></a>'
    )
    assert element("line", stroke_width=1.5, x1=10.0) == '<line stroke-width="1.5" x1="10"></line>'


@pytest.mark.parametrize("text", hostile.STRINGS.values(), ids=hostile.STRINGS)
def test_nothing_hides(text: str) -> None:
    made = "".join(
        (element("p", text, title=text), badge("ok", text), table((text,), [(text,)], text))
    )

    assert not hostile.raw(made)
    assert "\n" not in made
    assert made.encode()


def test_commands_in_prose_are_code() -> None:
    assert prose("run `ls <x>`\nnow") == "run <code>ls &lt;x&gt;</code> now"
    assert prose("a ` alone") == "a ` alone"
