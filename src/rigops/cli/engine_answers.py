"""Shared by backup, restore and snapshots: what storage engines are asked, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rigops.cli.options import is_verbose
from rigops.cli.output import print_json, text_width
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from rigops.hosts.access import HostAccess
    from rigops.hosts.engines import EngineOptions, HostAnswer


def engine_options(
    access: HostAccess, engine: str | None, consents: Iterable[str] = ()
) -> EngineOptions:
    from rigops.hosts.engines import EngineOptions

    return EngineOptions(
        access=access,
        verbose=is_verbose(),
        engine=engine or "",
        consents=frozenset(consents),
    )


def print_answers(
    answers: Sequence[HostAnswer],
    lines: Callable[[HostAnswer, int], Iterable[str]],
    *,
    as_json: bool,
    between: Sequence[str] = (),
) -> int:
    """`lines`: of an answer, for this width; `between`: two of them. Returns the exit code."""
    from rigops.hosts.engines import document, exit_code
    from rigops.report.words import error_lines

    if as_json:
        print_json(document(answers))
        return exit_code(answers)
    width = text_width()
    for number, answer in enumerate(answers):
        if number:
            print_lines(*between)
        if answer.error:
            text = f"{answer.host}: {answer.error.message}"
            print_lines(*error_lines(text, answer.error.fix, width))
        else:
            print_lines(*lines(answer, width))
    return exit_code(answers)
