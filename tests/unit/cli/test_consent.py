"""What a run needs consent for is asked on one screen, and each item can be allowed by itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from rigops.cli import consent
from rigops.cli.consent import ask
from rigops.converge.flow import Item, Question, Reboot

if TYPE_CHECKING:
    from rigops.converge.request import RebootWhen

PLAN = "change a, b"
PRUNE = Item("prune", "undo what nothing declares: acs on a", "--prune")
REBOOT = Reboot(("a",), "ask")
NO_REBOOT = Reboot((), "ask")
BREAKS_CUDA = ("CUDA",)
DECLINED = "declined"


def answered(
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    *,
    plan: str = PLAN,
    items: tuple[Item, ...] = (PRUNE,),
    reboot: Reboot = REBOOT,
    yes: bool = False,
    terminal: bool = True,
    diff: str = "",
) -> tuple[set[str] | str, str]:
    monkeypatch.setattr(consent, "has_terminal", lambda: terminal)

    @click.command()
    def command() -> None:
        show_diff = partial(click.echo, diff, err=True) if diff else None
        allowed = ask(Question(plan, reboot, items, yes), show_diff)
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
    found, text = answered(monkeypatch, typed, items=(), reboot=NO_REBOOT)

    assert found == allowed
    assert "Change a, b? [y]es, [N]o: " in text


@pytest.mark.parametrize(
    ("typed", "allowed"),
    [
        ("y\n", {"reboot"}),
        ("c\n", set()),
        ("n\n", DECLINED),
        ("\n", DECLINED),
        ("1\nyes\n", {"reboot"}),
        ("", DECLINED),
    ],
)
def test_a_change_and_its_reboot_are_one_question(
    monkeypatch: pytest.MonkeyPatch, typed: str, allowed: set[str] | str
) -> None:
    found, text = answered(monkeypatch, typed, items=())

    assert found == allowed
    assert "Change a, b and reboot a? [y]es, [c]hange now and reboot later, [N]o: " in text


@pytest.mark.parametrize(
    ("plan", "hosts", "asked"),
    [
        ("change a", ("a",), "Change a and reboot it? "),
        ("change a, b", ("a", "b"), "Change a, b and reboot them? "),
        ("change a, b", ("b",), "Change a, b and reboot b? "),
        ("change a", ("b",), "Change a and reboot b? "),
        ("", ("a", "b"), "Reboot a, b now? [y]es, [N]o: "),
    ],
)
def test_the_question_names_each_host_once(
    monkeypatch: pytest.MonkeyPatch, plan: str, hosts: tuple[str, ...], asked: str
) -> None:
    _, text = answered(monkeypatch, "n\n", plan=plan, items=(), reboot=Reboot(hosts, "ask"))

    assert asked in text


@pytest.mark.parametrize(
    ("items", "choice", "asked"),
    [
        ((), "ask", "[c]hange now and reboot later (CUDA fails until then), [N]o"),
        ((), "never", "Change a, b, and reboot a later? CUDA fails until then. [y]es, [N]o: "),
        ((PRUNE,), "ask", "2  reboot a (CUDA fails until then)"),
    ],
)
def test_what_fails_until_the_reboot_is_named_where_it_can_be_put_off(
    monkeypatch: pytest.MonkeyPatch, items: tuple[Item, ...], choice: RebootWhen, asked: str
) -> None:
    reboot = Reboot(("a",), choice, BREAKS_CUDA)

    assert asked in answered(monkeypatch, "n\n", items=items, reboot=reboot)[1]


def test_a_reboot_by_option_is_part_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    reboot = Reboot(("a",), "auto", BREAKS_CUDA)

    _, text = answered(monkeypatch, "n\n", plan="change a", items=(), reboot=reboot)

    assert "Change a and reboot it? [y]es, [N]o: " in text


@pytest.mark.parametrize(
    ("items", "reboot", "asked", "allowed"),
    [
        ((), NO_REBOOT, "Change a, b? [y]es, [d]iff, [N]o: ", set()),
        ((), REBOOT, "[c]hange now and reboot later, [d]iff, [N]o: ", {"reboot"}),
        ((PRUNE,), NO_REBOOT, "[c]hange without these, [d]iff, [N]o, or the", {"prune"}),
    ],
)
def test_d_shows_the_differences_and_then_asks_again(
    monkeypatch: pytest.MonkeyPatch,
    items: tuple[Item, ...],
    reboot: Reboot,
    asked: str,
    allowed: set[str],
) -> None:
    found, text = answered(
        monkeypatch, "d\ndiff\ny\n", items=items, reboot=reboot, diff="-240 W\n+300 W"
    )

    assert found == allowed
    assert text.count("-240 W\n+300 W\n") == 2
    assert text.count(asked) == 3


def test_where_there_is_no_difference_to_see_none_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, text = answered(monkeypatch, "d\nn\n", items=(), reboot=NO_REBOOT)

    assert found == DECLINED
    assert "Answer with one of these letters." in text
    assert "[d]iff" not in text


def test_yes_confirms_the_plan_and_no_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, "n\n", items=(), yes=True)[0] == set()
    assert answered(monkeypatch, "y\n", items=(), yes=True)[0] == {"reboot"}
    assert answered(monkeypatch, "", items=(), yes=True, terminal=False)[0] == set()


def test_without_a_terminal_nothing_is_asked_and_nothing_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, text = answered(monkeypatch, "", terminal=False)

    assert found == DECLINED
    assert "--yes" in text


def test_where_nothing_is_pending_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = answered(monkeypatch, "", plan="", items=(), reboot=NO_REBOOT, terminal=False)

    assert found == set()


def test_without_a_terminal_a_reboot_that_is_all_is_declined_with_its_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reboot = Reboot(("a",), "ask", is_needed=True)

    found, text = answered(monkeypatch, "", items=(), reboot=reboot, yes=True, terminal=False)

    assert found == DECLINED
    assert "--reboot auto" in text
