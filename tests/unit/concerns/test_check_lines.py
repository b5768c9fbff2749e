from __future__ import annotations

from datetime import datetime, timezone

from rigops.concerns.check_lines import check_lines
from rigops.concerns.state import AS_DECLARED, FAILING, State

NOW = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
WELL = State("snap.age", "/", "", "", "2026-11-25T11:00:00Z", AS_DECLARED, "it\tis\nwell")
OLD = State("snap.age", "/home", "", "", "2026-11-25T06:00:00Z", FAILING, "it is old")


def test_a_state_is_one_line_and_the_oldest_of_several_is_the_metric() -> None:
    assert [*check_lines([WELL, OLD], {"snap.age": "age", "snap.target": "sent"}, NOW)] == [
        "finding\tok\tsnap.age\t/\tit is well\n",
        "finding\tfail\tsnap.age\t/home\tit is old\n",
        "metric\tage\t21600\n",
    ]


def test_where_one_has_no_age_there_is_no_metric_and_none_is_below_nothing() -> None:
    never, ahead = OLD._replace(now=""), WELL._replace(now="2026-11-25T13:00:00Z")

    assert not [one for one in check_lines([WELL, never], {"snap.age": "age"}, NOW)
                if one.startswith("metric")]  # fmt: skip
    assert [*check_lines([ahead], {"snap.age": "age"}, NOW)][-1] == "metric\tage\t0\n"
