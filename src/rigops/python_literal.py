"""Values as a person would write them in an inventory: with double quotes."""

from __future__ import annotations

from collections.abc import Mapping


def literal(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str) and "'" not in value:
        return '"' + repr(value)[1:-1].replace('"', '\\"') + '"'
    return repr(value)
