"""No regular expression lets a host take the one thread that reads what all hosts print."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

from rigops.catalog import load
from rigops.doctor.retyped import of_plain
from rigops.doctor.views import apt
from rigops.transport import ssh_program
from tests.shards import PROPERTIES
from tests.unit import patterns
from tests.unit.backtracking import Backtracking
from tests.unit.patterns import ENDLESS_S, Use, calls, growing_texts, growth, held, seconds, uses

ROWS = "rigops.catalog.known_lines"
RETYPED = "rigops.doctor.retyped"
# Patterns that are put together while the program runs: module and source, and examples of them.
MADE: dict[tuple[str, str], tuple[str | bytes, ...]] = {
    # Of models of ours, over the whole of a value that rigops itself rendered.
    ("rigops.autoinstall.preseed", "pattern"): (),
    ("rigops.autoinstall.user_data_model", "self.*"): (),
    ("rigops.concerns.kernel_args.bootloader.tokens", "*{name}='"): (
        r"^[ \t]*(?:export[ \t]+)?GRUB_CMDLINE_LINUX=",
    ),
    ("rigops.concerns.kernel_args.kernel_line", "*{variable}*"): (
        r"\$(?:GRUB_CMDLINE_LINUX\b(?!_)|\{GRUB_CMDLINE_LINUX\})",
    ),
    ("rigops.json_fields", "re.escape(family)*"): (r"rigops\.owned/([0-9]{1,9})",),
    ("rigops.probe.bundles.names", "*re.escape(word)*"): (r"(?<![a-z0-9])nvidia(?![a-z0-9])",),
    ("rigops.probe.bundles.redaction", "*{known}*"): (
        r"(?<![A-Za-z0-9])(?:aaaaa|aaaa|tom)(?![A-Za-z0-9])",
    ),
    ("rigops.probe.reading", "*asked*"): (rb"^a-1 asked(?P<names>[ \w-]*)\r?$",),
    ("rigops.probe.reading", "*begin (*"): (
        rb"^a-1 begin (?P<name>[\w-]+) root=(?P<root>[01]) limit=(?P<limit>[0-9]{1,9})\r?\n",
    ),
    ("rigops.probe.reading", "*(?:end|begin|done)*"): (rb"^a-1 (?:end|begin|done)\b",),
    ("rigops.probe.reading", "*{mark} == *"): (r"(\A|\r?\n)?\r?\na-1 == ",),
    ("rigops.transport.privilege", "*_prompt(token)*"): (
        rb"(?:\[sudo: )?prompt([^;\n]{0,256});(?:\] Password: )?\n?",
    ),
    ("rigops.transport.ssh_program", "pattern"): tuple(one for one, _ in ssh_program._KINDS),
    # Rows of a table.
    (ROWS, "pattern"): tuple(pattern for row in load(None).known_lines for pattern in row.patterns),
    (RETYPED, "said"): tuple(of_plain(row.pattern).pattern for row in load(None).known_lines),
    # Tables of a module, which are found there.
    ("rigops.probe.bundles.bug_report", "pattern"): (),
    ("rigops.probe.bundles.names", "pattern"): (),
    ("rigops.probe.bundles.shapes", "pattern"): (),
    ("rigops.probe.pastes.kinds", "*"): (),
    # Of a check of ours, over paths of nvidia-smi's answer.
    ("rigops.doctor.views.reported", "pattern"): (),
    # Of the host's own, which has tests below.
    ("rigops.doctor.views.apt", "pattern"): (),
}
# Here nothing becomes a number; in transport.result the digits are a few bytes.
NO_NUMBERS = frozenset(
    {
        "rigops.numbers",
        "rigops.doctor.proposal",
        "rigops.probe.bundles.names",
        "rigops.probe.bundles.pseudonyms",
        "rigops.probe.bundles.redaction",
        "rigops.probe.bundles.shapes",
        "rigops.transport.result",
    }
)
EVERYWHERE = frozenset({"search"})


def every_use(*, of_rows: bool) -> list[Use]:
    made = [
        Use(module, re.compile(example), EVERYWHERE)
        for (module, _), examples in MADE.items()
        if (module in {ROWS, RETYPED}) == of_rows
        for example in examples
    ]
    kept = () if of_rows else uses().values()
    return list({(one.pattern, one.methods): one for one in (*kept, *made)}.values())


# That no row of the catalog repeats without bound is seen each time, with the rows themselves.
@pytest.mark.parametrize(
    "of_rows", [False, pytest.param(True, marks=pytest.mark.shard(PROPERTIES))]
)
def test_twice_the_text_takes_twice_the_steps(*, of_rows: bool) -> None:
    slow = [
        f"{use.place} {use.pattern.pattern!r} on {how}"
        for use in every_use(of_rows=of_rows)
        for text in growing_texts(use.pattern)
        if (how := growth(use, text))
    ]

    assert slow == []


def test_no_pattern_escapes() -> None:
    strange = [
        (call.place, call.source)
        for call in calls()
        if call.pattern is None
        and not any(
            call.place.rpartition(":")[0] == module and fnmatchcase(call.source, shape)
            for module, shape in MADE
        )
    ]

    assert strange == []
    assert len(uses()) > 450


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?P<name>[a-z0-9][a-z0-9+.-]*)(?::[a-z0-9]+)? \(",
        r"(a+)+b",
        r"x(?:\s*y)?\s*\s*z",
        r"<[^>]*>",
    ],
)
def test_what_is_not_linear_is_found(pattern: str) -> None:
    use = Use("here", re.compile(pattern), EVERYWHERE)

    assert any(growth(use, one) for one in growing_texts(use.pattern))


@pytest.mark.shard(PROPERTIES)
def test_steps_are_counted_of_what_re_itself_would_do() -> None:
    differing = []
    for place, use in uses().items():
        engine = Backtracking(use.pattern, 10_000_000)
        for text in growing_texts(use.pattern, most=2):
            subject: Any = text(100)
            if isinstance(use.pattern.pattern, bytes):
                subject = subject.encode("utf-8", "replace")
            counted = subject if isinstance(subject, str) else subject.decode("latin-1")
            match = use.pattern.match(subject)
            ends = (match.end() if match else None, use.pattern.fullmatch(subject) is not None)
            if (engine.match(counted), engine.fullmatch(counted)) != ends:
                differing.append((place, counted))

    assert differing == []


def test_only_the_ten_digits_are_digits() -> None:
    r"""`\d` takes those of every script, unless re.ASCII is set."""
    every = {place: use.pattern for place, use in uses().items()}
    every |= {f"{module}:{name}": pattern for module, name, pattern in held()}
    strange = [
        place
        for place, pattern in every.items()
        if isinstance(pattern.pattern, str)
        and not pattern.flags & re.ASCII
        and r"\d" in pattern.pattern.replace(r"[^\W\d", "")
    ]

    assert strange == []


def test_no_digits_but_those_that_int_may_have() -> None:
    """`rigops.numbers.whole` asks for both: ASCII, and not too many."""
    strange = [
        f"{module}:{line}"
        for module in patterns.trees().keys() - NO_NUMBERS
        for line in patterns.calls_of_methods(module, {"isdigit", "isdecimal", "isnumeric"})
    ]

    assert strange == []


HOSTILE: list[tuple[str, str]] = [
    ("a?" * 40 + "a" * 40, "a" * 40),
    ("(a|a)" * 30 + "b", "a" * 30),
    ("a*a*a*a*b", "a" * 4000),
    ("(?:a|a)*b", "a" * 100),
    ("(a{1,9}){9}b", "a" * 100),
    (".*.*.*x", "a" * 4000),
]


@pytest.mark.parametrize(("pattern", "name"), HOSTILE, ids=[one for one, _ in HOSTILE])
def test_a_hosts_own_pattern_ends(pattern: str, name: str) -> None:
    def run(text: str) -> Any:
        return apt.blacklists(text, [pattern])

    assert seconds(run, name) < ENDLESS_S
    assert not run(name)
