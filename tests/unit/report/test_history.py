from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rigops.record import journal
from rigops.record.journal import Preflight, Run
from rigops.report.history import history_lines
from rigops.report.terminal import rendered, visible

RUN = Run(
    host="rig",
    at="2026-01-31T18:00:00Z",
    inventory_digest="c0ffee0123456789",
    outcome="changed",
    seconds=41.5,
    versions={"driver": "535.261.03"},
    preflight=Preflight("ok", "L1", ()),
    command="apply",
    changes=("driver 545.29.06 -> 535.261.03", "kernel argument iommu=pt"),
)


def shown(*runs: Run) -> list[str]:
    return [rendered(visible(line), color=False) for line in history_lines(runs)]


def test_a_run_says_which_command_it_was_and_what_it_changed() -> None:
    assert shown(RUN) == [
        "2026-01-31T18:00:00Z  rig  apply changed  (41.5 s, inventory c0ffee012345)",
        "    driver 545.29.06 -> 535.261.03, kernel argument iommu=pt",
        "    driver 535.261.03, preflight L1: ok",
    ]


def test_a_rollback_is_named_as_one() -> None:
    assert "  rollback changed  " in shown(replace(RUN, command="rollback"))[0]


@pytest.mark.parametrize("outcome", ["failed", "interrupted"])
def test_what_a_run_did_not_finish_was_only_planned(outcome: str) -> None:
    assert shown(replace(RUN, outcome=outcome))[1].startswith("    planned: driver 545")


@pytest.mark.parametrize(
    ("outcome", "command"), [("not_proven", "preflight"), ("changed", "release")]
)
def test_a_line_of_an_earlier_version_is_read_and_shown(outcome: str, command: str) -> None:
    document = replace(RUN, inventory_digest="", outcome=outcome).as_json()
    del document["command"], document["changes"]

    (run,) = journal.parse([json.dumps(document).encode()]).runs

    assert (run.command, run.changes) == ("", ())
    assert shown(run)[0] == f"2026-01-31T18:00:00Z  rig  {command} {outcome}  (41.5 s)"
