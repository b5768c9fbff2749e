from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops import json_fields
from rigops.errors import RigopsError
from rigops.json_fields import Fields

if TYPE_CHECKING:
    from collections.abc import Callable

NAMED = Fields({"wrong": {}, "flag": True, "items": [{"id": 1}]}, place="the record", fix="Mend.")


@pytest.mark.parametrize(
    "take",
    [Fields.text, Fields.number, Fields.texts, Fields.each, Fields.time],
    ids=lambda take: take.__name__,
)
def test_a_wrong_type_is_named(take: Callable[[Fields, str], object]) -> None:
    with pytest.raises(RigopsError, match=r"the record: wrong is \{\}, expected ") as caught:
        take(NAMED, "wrong")
    problem = caught.value.problems[0]
    assert (problem.key, problem.value, problem.fix) == ("wrong", "{}", "Mend.")


def test_an_absent_field_is_named() -> None:
    with pytest.raises(RigopsError, match="the record: seconds is absent, expected a number"):
        NAMED.number("seconds")


def test_a_wrong_field_of_a_list_is_named_with_its_index() -> None:
    with pytest.raises(RigopsError, match=r"the record: items\[0\]: id is 1, expected text"):
        NAMED.each("items")[0].text("id")


def test_true_is_no_number() -> None:
    with pytest.raises(RigopsError, match="flag is True, expected a number"):
        NAMED.number("flag")


def test_a_list_or_object_with_one_wrong_member_is_refused() -> None:
    fields = Fields({"list": ["a", 1], "map": {"a": 1}, "parts": [1]}, place="x")
    for take in (
        lambda: fields.texts("list"),
        lambda: fields.text_map("map"),
        lambda: fields.each("parts"),
    ):
        with pytest.raises(RigopsError):
            take()


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RigopsError, match="a finite number"):
        json_fields.parse(f'{{"seconds": {text}}}', place="x").number("seconds")


@pytest.mark.parametrize("text", ["", '{"a": ', "not json", "[" * 100_000])
def test_damaged_text_is_said_to_be_damaged(text: str) -> None:
    with pytest.raises(RigopsError, match="the record is damaged or incomplete") as caught:
        json_fields.parse(text, place="the record", fix="Put a backup of it back.")
    assert caught.value.problems[0].fix == "Put a backup of it back."


@pytest.mark.parametrize("time", ["2026-01-31T18:00:00Z", "2026-01-31T18:00:00.25+00:00"])
def test_a_time_in_utc_is_taken(time: str) -> None:
    assert Fields({"at": time}, place="x").time("at") == time


@pytest.mark.parametrize("time", ["2026-01-31", "2026-01-31T18:00:00", "2026-01-31T18:00:00+01:00"])
def test_a_time_that_is_not_in_utc_is_refused(time: str) -> None:
    with pytest.raises(RigopsError, match="a time such as"):
        Fields({"at": time}, place="x").time("at")


def test_a_newer_schema_asks_for_a_newer_rigops() -> None:
    with pytest.raises(RigopsError, match="newer rigops") as caught:
        Fields({"schema": "rigops.owned/2"}, place="x").require_schema("rigops.owned/1")
    assert "upgrade rigops" in caught.value.problems[0].fix


@pytest.mark.parametrize("found", [None, 1, "rigops.proven/1", "rigops.owned/0", "rigops.owned/x"])
def test_another_schema_is_refused(found: object) -> None:
    with pytest.raises(RigopsError, match=r"expected rigops\.owned/1"):
        Fields({"schema": found}, place="x").require_schema("rigops.owned/1")
