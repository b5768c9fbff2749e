"""Records by the types of their fields: they come back as written, and what is wrong is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest

from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.json_dataclass import NAME, Time, document, parse

if TYPE_CHECKING:
    from rigops.json_fields import Fields


def _even(fields: Fields, name: str) -> int:
    value = fields.number(name)
    if value % 2:
        raise fields.wrong(name, value, "an even number")
    return int(value)


@dataclass(frozen=True)
class Card:
    slot: Annotated[int, _even]
    watts: float | None = None
    source: str = field(default="", metadata={NAME: "from"})


@dataclass(frozen=True, kw_only=True)
class Rig:
    at: Time
    kind: Literal["open", "closed"]
    is_warm: bool
    best: Card | None
    cards: tuple[Card, ...]
    names: tuple[str, ...]
    versions: Mapping[str, str]
    keys: Mapping[str, object]
    by_path: Mapping[str, Card]
    lists: Mapping[str, tuple[str, ...]]


SCHEMA = "rigops.rig/1"
RIG = Rig(
    at="2026-11-27T10:00:00Z",
    kind="open",
    is_warm=True,
    best=Card(2, 350.0, "a"),
    cards=(Card(4), Card(6, 1)),
    names=("x", "y"),
    versions={"z": "1", "a": "2"},
    keys={"a": [1], "b": {"c": None}},
    by_path={"/b": Card(8), "/a": Card(0)},
    lists={"/": ("p", "q"), "/home": ()},
)


def read(text: str) -> Rig:
    return parse(Rig, text, schema=SCHEMA, place="the rig", fix="Mend it.")


def test_what_is_written_is_read_back_and_written_again_as_it_was() -> None:
    text = document(SCHEMA, RIG)

    assert read(text) == RIG
    assert document(SCHEMA, read(text)) == text


def test_the_document_has_the_schema_first_and_the_fields_in_their_order() -> None:
    found = json.loads(document(SCHEMA, RIG, indent=None))

    assert list(found)[:3] == ["schema", "at", "kind"]
    assert found["best"] == {"slot": 2, "watts": 350.0, "from": "a"}
    assert list(found["by_path"]) == ["/b", "/a"]


def test_what_is_absent_or_null_is_as_the_class_has_it_by_default() -> None:
    changed = {**json.loads(document(SCHEMA, RIG)), "best": {"slot": 2, "from": None}, "more": 1}

    assert read(json.dumps(changed)).best == Card(2)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("at", "today", "the rig: at is 'today', expected a time"),
        ("kind", "half", "the rig: kind is 'half', expected 'open' or 'closed'"),
        ("is_warm", 1, "the rig: is_warm is 1, expected true or false"),
        ("is_warm", None, "the rig: is_warm is absent, expected true or false"),
        ("best", {"slot": 3}, "the rig: best: slot is 3, expected an even number"),
        ("best", {}, "the rig: best: slot is absent, expected a number"),
        ("cards", [{"slot": 2}, 5], r"the rig: cards\[1\] is 5, expected an object"),
        ("cards", [{"slot": 2, "watts": "x"}], r"the rig: cards\[0\]: watts is 'x', expected a nu"),
        ("names", "x", "the rig: names is 'x', expected a list of texts"),
        ("versions", {"a": 1}, "the rig: versions is .*, expected an object of texts"),
        ("keys", [], r"the rig: keys is \[\], expected an object"),
        ("by_path", {"/": 1}, "the rig: by_path: / is 1, expected an object"),
        ("lists", {"/": "x"}, "the rig: lists: / is 'x', expected a list of texts"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(name: str, value: Any, message: str) -> None:
    text = json.dumps({**json.loads(document(SCHEMA, RIG)), name: value})

    with pytest.raises(RigopsError, match=message) as caught:
        read(text)
    assert caught.value.problems[0].fix == "Mend it."
