"""What a run needs consent for is asked on one screen, and each item can be allowed by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import click
import pytest
from click.testing import CliRunner

from rigops.cli import consent
from rigops.cli.consent import Item, ask, reboot_items, reboots

if TYPE_CHECKING:
    from rigops.converge.fleet_run import FleetRun

PLAN = "change a, b"
PRUNE = Item("prune", "undo what nothing declares: acs on a", "--prune")
REBOOT = Item("reboot", "reboot a", "--reboot auto")
BOTH = (PRUNE, REBOOT)
DECLINED = "declined"


def answered(
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    *,
    plan: str = PLAN,
    items: tuple[Item, ...] = BOTH,
    yes: bool = False,
    terminal: bool = True,
) -> tuple[set[str] | str, str]:
    monkeypatch.setattr(consent, "has_terminal", lambda: terminal)

    @click.command()
    def command() -> None:
        allowed = ask(plan, items, yes=yes)
        click.echo(DECLINED if allowed is None else " ".join(["allowed", *sorted(allowed)]))

    result = CliRunner().invoke(command, input=typed)
    last = result.stdout.splitlines()[-1]
    return DECLINED if last == DECLINED else set(last.split()[1:]), result.output


@pytest.mark.parametrize(
    ("typed", "allowed"),
    [
        ("y\n", {"prune", "reboot"}),
        ("c\n", set()),
        ("1\n", {"prune"}),
        ("2\n", {"reboot"}),
        ("1, 2\n", {"prune", "reboot"}),
        ("n\n", DECLINED),
        ("\n", DECLINED),
        ("3\n2\n", {"reboot"}),
        ("what\nn\n", DECLINED),
    ],
)
def test_one_answer_allows_all_some_or_nothing(
    monkeypatch: pytest.MonkeyPatch, typed: str, allowed: set[str] | str
) -> None:
    found, _ = answered(monkeypatch, typed)

    assert found == allowed


def test_everything_is_on_one_screen_with_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = answered(monkeypatch, "n\n")

    assert [line.rstrip() for line in text.splitlines()[1:4]] == [
        "     change a, b",
        "  1  undo what nothing declares: acs on a  --prune",
        "  2  reboot a                              --reboot auto",
    ]


@pytest.mark.parametrize(("typed", "allowed"), [("y\n", set()), ("n\n", DECLINED)])
def test_a_plan_alone_is_one_question(
    monkeypatch: pytest.MonkeyPatch, typed: str, allowed: set[str] | str
) -> None:
    found, text = answered(monkeypatch, typed, items=())

    assert found == allowed
    assert "Change a, b?" in text


def test_yes_confirms_the_plan_and_no_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, "n\n", items=(REBOOT,), yes=True)[0] == set()
    assert answered(monkeypatch, "y\n", items=(REBOOT,), yes=True)[0] == {"reboot"}
    assert answered(monkeypatch, "", items=(REBOOT,), yes=True, terminal=False)[0] == set()


def test_without_a_terminal_nothing_is_asked_and_nothing_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, text = answered(monkeypatch, "", terminal=False)

    assert found == DECLINED
    assert "--yes" in text


def test_where_nothing_is_pending_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, "", plan="", items=(), terminal=False)[0] == set()


def fleet() -> FleetRun:
    hosts = [
        SimpleNamespace(request=SimpleNamespace(name=name), needs_reboot=needs)
        for name, needs in (("a", True), ("b", False))
    ]
    return cast("FleetRun", SimpleNamespace(runs=hosts))


def test_hosts_are_rebooted_where_that_was_allowed() -> None:
    run = fleet()

    assert [item.key for item in reboot_items(run, "ask")] == ["reboot"]
    assert reboot_items(run, "auto") == reboot_items(run, "never") == []
    assert reboots(run, "ask", frozenset({"reboot"})) == {"a"}
    assert reboots(run, "auto", frozenset()) == {"a"}
    assert reboots(run, "ask", frozenset()) == frozenset()
    assert reboots(run, "never", frozenset({"reboot"})) == frozenset()
