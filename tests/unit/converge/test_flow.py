"""What a run asks, and what it does with the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rigops.converge.flow import Ending, Question, apply, carry_out
from rigops.converge.request import RunOptions, Selection
from rigops.converge.result import Blocker, HostResult
from rigops.plan.change import Change, Plan, Repair

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rigops.converge.fleet_run import FleetRun

PLAN = Plan(changes=(Change("acs", "file", "/etc/a", None, "1"),))
BROKEN = Plan(repairs=(Repair("dpkg was interrupted", "dpkg --configure -a", agreed=False),))


@dataclass
class Fleet:
    """Hosts `a`, which needs a reboot, and `b`. Records what was done."""

    options: RunOptions
    plans: list[Plan] = field(default_factory=lambda: [PLAN])
    done: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results = [HostResult("a", fails_until_reboot=("CUDA",)), HostResult("b")]
        self.runs = [
            SimpleNamespace(
                request=SimpleNamespace(name=one.host), result=one, needs_reboot=one.host == "a"
            )
            for one in self.results
        ]

    def plan(self) -> None:
        self.results[0].plan = self.plans.pop(0)

    def repair(self, names: Collection[str]) -> None:
        self.done.append({"repair": names})
        self.plan()

    def confirm(self, **allowed: bool) -> None:
        self.done.append(allowed)

    def carry_out(self, reboots: Collection[str]) -> None:
        self.done.append(set(reboots))


@dataclass
class Person:
    answers: list[frozenset[str] | None]
    asked: list[Question] = field(default_factory=list)

    def show(self, results: Sequence[HostResult]) -> None:
        pass

    def ask(self, question: Question) -> frozenset[str] | None:
        self.asked.append(question)
        return self.answers.pop(0)


def done(
    *answers: frozenset[str] | None,
    plans: Sequence[Plan] = (PLAN,),
    is_root: bool = False,
    **asked: Any,
) -> tuple[Ending, list[Any], list[Question]]:
    fleet = Fleet(RunOptions(selection=Selection(), **asked), list(plans))
    run, person = cast("FleetRun", fleet), Person(list(answers))
    if is_root:
        ending = carry_out(run, person, lambda _: "roll back the root", needs_reboot=True)
    else:
        ending = apply(run, person)
    return ending, fleet.done, person.asked


@pytest.mark.parametrize(
    ("choice", "answer", "reboots"),
    [
        ("ask", {"reboot"}, {"a"}),
        ("ask", (), set()),
        ("auto", (), {"a"}),
        ("never", {"reboot"}, set()),
    ],
)
def test_hosts_are_rebooted_where_that_was_allowed(
    choice: str, answer: Collection[str], reboots: set[str]
) -> None:
    ending, did, (question,) = done(frozenset(answer), reboot=choice)

    assert (question.plan, question.reboot.hosts, question.reboot.fails) == (
        "change a", ("a",), ("CUDA",),
    )  # fmt: skip
    assert did == [{"removals": False, "no_trial": False}, reboots]
    assert ending == Ending()


def test_a_plan_that_is_declined_does_nothing() -> None:
    ending, did, _ = done(None)

    assert ending.is_declined
    assert did == []


def test_what_was_interrupted_is_repaired_first_and_the_plan_asked_again() -> None:
    _, did, asked = done(frozenset({"repair a"}), frozenset(), plans=(BROKEN, PLAN))

    assert [[item.text for item in question.items] for question in asked] == [
        ["a: first `dpkg --configure -a`, since dpkg was interrupted"], [],
    ]  # fmt: skip
    assert did[0] == {"repair": {"a"}}
    assert len(did) == 3


@pytest.mark.parametrize(
    ("asked", "answer", "is_declined"),
    [
        ({"yes": False, "reboot": "ask"}, (), False),
        ({"yes": True, "reboot": "auto"}, (), False),
        ({"yes": True, "reboot": "ask"}, {"reboot"}, False),
        ({"yes": True, "reboot": "ask"}, (), True),
    ],
)
def test_a_root_is_rolled_back_with_its_reboot_or_not_at_all(
    asked: dict[str, Any], answer: Collection[str], *, is_declined: bool
) -> None:
    ending, did, (question,) = done(frozenset(answer), is_root=True, **asked)

    assert ending.is_declined == is_declined
    assert did[1:] == ([] if is_declined else [{"a"}])
    assert question.reboot.choice == ("auto" if not asked["yes"] else asked["reboot"])


@pytest.mark.parametrize(
    ("plan", "hosts", "asked"),
    [
        (Plan(), ["b"], "copy between the GPUs of b"),
        (PLAN, ["b"], "change a, and copy between the GPUs of b"),
        (PLAN, ["a"], "change a"),  # its copies are in the plan that is confirmed
        (Plan(), ["b", "c", "d", "e", "f"], "copy between the GPUs of 5 hosts"),
    ],
)
def test_copies_that_can_hang_a_host_are_asked_for_where_nothing_else_is_done(
    plan: Plan, hosts: list[str], asked: str
) -> None:
    fleet = Fleet(RunOptions(selection=Selection()), [plan])
    fleet.results += [HostResult(name) for name in "cdefg"]
    for result in fleet.results:
        result.preflight_reason = "the last preflight failed" if result.host in hosts else ""
    fleet.results[-1].preflight_reason = "no preflight passed yet"
    fleet.results[-1].blocked = (Blocker("host", (), "another distribution"),)
    person = Person([None])

    assert apply(cast("FleetRun", fleet), person).is_declined
    assert [question.plan for question in person.asked] == [asked]
    assert fleet.done == []
