from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rigops.record import journal
from rigops.record.journal import MADE, PLANNED, UNSURE, Preflight, Run, Value
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


def test_hosts_with_the_same_in_one_run_are_one_entry() -> None:
    runs = [replace(RUN, host=name, run="r") for name in ("a", "b")]
    failed = replace(RUN, host="c", run="r", outcome="failed")

    heads = [line for line in shown(*runs, failed, RUN) if not line.startswith(" ")]

    assert [line.split("  ")[1] for line in heads] == ["a, b", "c", "rig"]


def test_of_many_runs_the_newest_that_fit_are_shown_and_the_others_counted() -> None:
    runs = [replace(RUN, host=f"rig{number}") for number in range(5)]

    said = history_lines(runs, 7)

    assert len(said) == 7
    assert said[-1] == "3 older: add -v"


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


def watts(card: str, state: str = MADE) -> Value:
    subject = f"GPU 0000:{card}:00.0 power limit"
    return Value(concern="gpu_tuning", subject=subject, before="350 W", after="285 W", state=state)


def test_a_run_says_who_from_where_and_each_value_once_for_cards_that_are_alike() -> None:
    run = replace(
        RUN,
        who="me@desktop",
        inventory_digest="c0ffee",
        inventory="/me/i.py",
        changes=("settings of 2 GPUs",),
        values=(watts("0a"), watts("0b"), Value(concern="base", subject="/etc/x", after="")),
    )
    origin = "41.5 s, by me@desktop:/me/i.py c0ffee"
    assert shown(run)[:3] == [
        f"2026-01-31T18:00:00Z  rig  apply changed  ({origin})",
        "    settings of 2 GPUs",
        "    power limit: 350 W -> 285 W (2 GPUs)",
    ]


def test_an_interrupted_run_says_what_it_made_what_it_may_have_made_and_what_not() -> None:
    argument = Value(
        concern="kernel_args", subject="kernel command line", after="iommu=pt", state=UNSURE
    )
    file = Value(concern="base", subject="/etc/nccl.conf", before="", after="", state=PLANNED)
    run = replace(
        RUN, outcome="interrupted", reason="in the stage change",
        values=(watts("0a"), argument, file), versions={}, preflight=None,
    )  # fmt: skip
    assert shown(run)[1:] == [
        "    planned: driver 545.29.06 -> 535.261.03, kernel argument iommu=pt",
        "    GPU 0000:0a:00.0 power limit: 350 W -> 285 W",
        "    perhaps made: kernel command line: absent -> iommu=pt",
        "    not made: base",
        "    why: in the stage change",
    ]


def test_what_an_interrupted_run_made_in_whole_is_not_called_planned() -> None:
    run = replace(RUN, outcome="interrupted", changes=("settings of 1 GPU",), values=(watts("0a"),))
    assert shown(run)[1:3] == [
        "    settings of 1 GPU",
        "    GPU 0000:0a:00.0 power limit: 350 W -> 285 W",
    ]


def test_a_failed_run_says_why_and_that_it_changed_nothing() -> None:
    run = replace(RUN, outcome="failed", reason="no space left", touched=False)
    assert shown(run)[2:4] == ["    nothing was changed", "    why: no space left"]


def test_a_run_that_only_began_is_none_that_changed_nothing() -> None:
    run = replace(RUN, outcome="begun", who="me@desktop", values=(watts("0a", UNSURE),))
    text = "\n".join(shown(run))
    assert "apply did not end" in text
    assert "perhaps made: GPU 0000:0a:00.0 power limit: 350 W -> 285 W" in text
    assert "the journal of me@desktop has it" in text
