"""The table of keys in the page of the inventory, from what each concern says of its own."""

from __future__ import annotations

import re
from typing import Final

from docgen.markdown import table
from rigops.concerns import registry

_TABLE: Final = re.compile(r"\| key \| takes \| concern \|\n(?:\|.*\n)+")


def page(text: str) -> str:
    """With the table as it has to be; all else is written by hand."""
    rows = [(f"`{name}`", key.accepted, _concern(name)) for name, key in registry.keys().items()]
    made = table(("key", "takes", "concern"), rows)
    return _TABLE.sub(lambda _: f"{made}\n", text, count=1)


def _concern(key: str) -> str:
    name = registry.concern_of(key)
    if name is None:
        return "-"
    if name not in registry.names_in_this_version():
        return f"{name} (not in this version)"
    return f"[{name}](../how-to/{name}.md)"
