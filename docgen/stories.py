"""A page for each story of doctor, from the table of stories, and a list of all."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from docgen.markdown import MADE, table
from rigops.catalog import load

if TYPE_CHECKING:
    from rigops.catalog.stories import Part, StoryRule

_WIDTH: Final = 100
_XID: Final = "xid"  # in the data of its findings
_RELATION: Final = {
    "host": "",
    "card": "of the same card",
    "cards": "of the same cards",
    "path": "of the same card, or of a port above it",
}
_INTRODUCTION: Final = """\
Where one cause explains several findings, `rigops doctor` shows the cause with its fix, and names \
what it explains in one line below it. `-v` shows each finding whole, `--json` has the stories \
beside the findings, and `rigops doctor --explain ID` shows one of these pages in the terminal."""


def pages() -> dict[str, str]:
    rules = load().stories
    rows = [(f"[{one.id}]({one.id}.md)", one.title) for one in rules]
    index = "\n\n".join(
        ["# Stories", MADE, _filled(_INTRODUCTION), table(("story", "what happened"), rows)]
    )
    return {
        "stories/README.md": f"{index}\n",
        **{f"stories/{one.id}.md": _page(one) for one in rules},
    }


def _page(rule: StoryRule) -> str:
    evidence = [f"- {one}" for one in rule.evidence]
    parts = [
        f"# {rule.title}",
        MADE,
        f"`{rule.id}`",
        *map(_filled, rule.page),
        "Cause, the best first:",
        "\n".join(map(_part, rule.cause)),
        *(
            ["One of these has to be there:", "\n".join(map(_part, rule.needs))]
            if rule.needs
            else ()
        ),
        "Explained by it:",
        "\n".join(map(_part, rule.explains)),
        "Reported in:",
        "\n".join(map(_filled, evidence)),
    ]
    return "\n\n".join(parts) + "\n"


def _part(part: Part) -> str:
    """Some of their findings: a page is no program."""
    ids = ", ".join(f"`{one}`" for one in part.ids)
    numbers = [value for fact in part.facts if fact.key == _XID for value in fact.values]
    words = [
        f"Xid {' or '.join(numbers)}" if numbers else "",
        _RELATION[part.on],
        "where it names this cause itself" if part.named else "",
    ]
    return _filled("- " + ", ".join([ids, *filter(None, words)]))


def _filled(text: str) -> str:
    hanging = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text,
        _WIDTH,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
