"""Errors as text or JSON, and as exit codes; nowhere else."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Sequence
from itertools import takewhile

import click

from rigops.errors import REPORT_IT, Problem, RigopsError, UsageError
from rigops.report.terminal import print_lines

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_UNREACHED = 3
EXIT_DECLINED = EXIT_INTERRUPTED = 130


def explain(error: BaseException, arguments: Sequence[str]) -> int:
    """Print the error, and return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else EXIT_FAILURE
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        print_lines("", "Interrupted.", err=True)
        return EXIT_INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        print_lines(*error.format_message().split("\n"), err=True)
        return EXIT_USAGE
    problems, code = _problems(error)
    options = set(takewhile(lambda word: word != "--", arguments))
    if code == EXIT_USAGE and "--json" in options:
        from rigops.cli.output import print_json

        print_json({"schema": "rigops.error/1", "errors": [p.as_json() for p in problems]})
    else:
        _print_text(problems)
    is_bug = code == EXIT_FAILURE and not isinstance(error, RigopsError)
    if is_bug and options & {"-v", "--verbose"}:
        traceback.print_exception(error)
    return code


def _problems(error: BaseException) -> tuple[tuple[Problem, ...], int]:
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        fix = f"see {context.command_path if context else 'rigops'} --help"
        message = " ".join(error.format_message().split())  # click lists choices in lines
        return (Problem(message=message, fix=fix),), EXIT_USAGE
    if isinstance(error, RigopsError):
        return error.problems, EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE
    if isinstance(error, OSError) and error.filename:
        is_no_name = error.errno == errno.ENAMETOOLONG  # it can only be of the command line
        problem = Problem(
            message=error.strerror or str(error),
            file=str(error.filename),
            fix="name an existing path" if is_no_name else "",
        )
        return (problem,), EXIT_USAGE if is_no_name else EXIT_FAILURE
    message = f"{type(error).__name__}: {error}"
    return (Problem(message=message, fix=REPORT_IT),), EXIT_FAILURE


def _print_text(problems: Sequence[Problem]) -> None:
    folded = _fold_hosts(problems)
    if len(folded) > 1:
        print_lines(f"{len(folded)} errors:", err=True)
    for problem, hosts in folded:
        head = "Error: " if len(folded) == 1 else "- "
        print_lines(head + _headline(problem, hosts), err=True)
        if problem.accepted and problem.accepted not in problem.fix:
            print_lines(f"    accepted: {problem.accepted}", err=True)
        if problem.fix:
            print_lines(f"    fix: {problem.fix}", err=True)


def _headline(problem: Problem, hosts: list[str]) -> str:
    place = problem.file or ""
    if problem.line is not None:
        place += f":{problem.line}"
    about = ""
    if problem.key:
        about = problem.key + problem.within
        if problem.value is not None:
            about += f" = {problem.value}"
    elif problem.value is not None and problem.value not in problem.message:
        about = problem.value
    where = f"host {', '.join(hosts)}" if hosts else ""
    return ": ".join(part for part in (place, where, about, problem.message) if part)


def _fold_hosts(problems: Sequence[Problem]) -> list[tuple[Problem, list[str]]]:
    """One entry where several hosts have the same problem from the same line."""

    def without_host(problem: Problem) -> tuple[object, ...]:
        return tuple(v for k, v in problem.as_json().items() if k != "host")

    folded: list[tuple[Problem, list[str]]] = []
    seen: dict[tuple[object, ...], list[str]] = {}
    for problem in problems:
        same = without_host(problem)
        if same not in seen:
            seen[same] = []
            folded.append((problem, seen[same]))
        if problem.host:
            seen[same].append(problem.host)
    return folded
