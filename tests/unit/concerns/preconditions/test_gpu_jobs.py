from __future__ import annotations

from rigops.concerns.preconditions.card_users import desktops, jobs
from rigops.probe.sections import processes

SEEN = processes.parse(
    "== ls -l /proc/[0-9]*/fd\n"
    "pid=612 comm=nvidia-persiste\npid=900 comm=Xorg\npid=4711 comm=python3\n"
)


def test_daemons_and_desktops_are_no_jobs() -> None:
    assert jobs(SEEN) == ("python3 (4711)",)
    assert desktops(SEEN) == ("Xorg (900)",)


def test_that_nobody_looked_does_not_mean_that_the_cards_are_free() -> None:
    assert jobs(processes.Processes()) is None
    assert jobs(processes.Processes(holders=())) == ()


def test_a_name_is_whole_so_that_what_is_hidden_in_it_can_be_shown() -> None:
    named = processes.parse("== ls -l /proc/[0-9]*/fd\npid=7 comm=python3\u202e\x07 evil\n")

    assert jobs(named) == ("python3\u202e\x07 evil (7)",)
