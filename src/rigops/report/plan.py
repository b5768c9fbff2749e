"""A plan in lines. Entries that are the same on several hosts are one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops import __version__
from rigops.dataclass import dataclass
from rigops.ownership.ownership import PREVIOUS_FOLDER
from rigops.python_literal import literal
from rigops.report.closing import step_after
from rigops.report.terminal import styled
from rigops.report.words import clipped, grouped, wrapped

if TYPE_CHECKING:
    from rigops.backup.root_change import RootChange
    from rigops.converge.result import Blocker, HostResult
    from rigops.plan.change import Change, Package

_NAMED: Final = 4  # hosts of a group, or packages that go, that are named
_CONTEXT: Final = 2
_NOTE: Final = 2  # lines
_VALUE: Final = 60  # columns of a value, or a name, that a host has recorded
_LABEL: Final = 13  # columns: the longest name of most concerns
_COPIES: Final = "copies between GPUs follow: broken P2P can hang the host"
_AS_DECLARED: Final = "as declared"
_COMING: Final = "not in this version"
_UNDECLARED: Final = "no longer declared here"
_BY_HAND: Final = "changed by hand since rigops wrote it"


def plan_lines(
    results: Sequence[HostResult],
    width: int,
    *,
    has_changes: bool = True,
    has_diffs: bool = False,
    is_brief: bool = False,
) -> list[str]:
    """Hosts whose changes come to the same are one entry; a row that not all have names its hosts.

    `width`: where lines are wrapped, other than those of files. `has_changes`: else only what they
    come to, and what needs attention. `has_diffs`: with every host, every package and every line
    that changes. `is_brief`: for a table below it with errors and what blocks; each note once.
    """
    if is_brief:
        return _brief([one for one in results if one.error is None], width)
    rows = {
        result.host: tuple(_rows(result, has_changes=has_changes, has_diffs=has_diffs))
        for result in results
    }
    most = len(results) if has_diffs else _NAMED

    shown = [
        one for one in results if rows[one.host] or has_changes or _meaning(one) != _AS_DECLARED
    ]
    return _entries(shown, rows, width, most)


def _brief(results: Sequence[HostResult], width: int) -> list[str]:
    rows = {result.host: tuple(_rows_but_notes(result, has_changes=False)) for result in results}
    notes = {
        result.host: [_Row("note", notice, "yellow", most=_NOTE) for notice in result.notices]
        for result in results
    }
    return [*_entries(results, rows, width), *_table(_joined(notes), width)]


def _entries(
    results: Sequence[HostResult],
    rows: Mapping[str, Sequence[_Row]],
    width: int,
    most: int = _NAMED,
) -> list[str]:
    def entry(result: HostResult) -> object:
        return _meaning(result), rows[result.host] if result.error is not None else ()

    return [
        line
        for same in grouped(results, entry).values()
        for line in (
            *_head(same, width, most),
            *_table(_joined({one.host: rows[one.host] for one in same}, most), width),
        )
    ]


def total_lines(results: Sequence[HostResult], width: int) -> list[str]:
    """The summary of a plan, and the command that shows more of it."""
    changing = [result for result in results if result.error is None and result.pending]
    rebooting = sum(bool(one.reboot_reasons) and not one.reboot_waits for one in changing)
    unplanned = sum(result.error is not None for result in results)
    parts = [
        f"{_count(len(changing), 'host')} would change" if changing else "",
        _count(rebooting, "reboot") if rebooting else "",
        f"{_count(unplanned, 'host')} could not be planned" if unplanned else "",
    ]
    found = ", ".join(filter(None, parts)) or "Nothing to change"
    more = "    All of it: rigops plan -v" if changing else ""
    return wrapped(f"{found}. Nothing was touched.{more}", width, "")


def blocked_lines(result: HostResult) -> Iterator[str]:
    for one in result.blocked:
        label, text = _blocked(one)
        yield styled(f"    {label}: {text}", fg="yellow")


@dataclass(frozen=True)
class _Row:
    """One with a color is for attention. `diff`: lines below it that are never wrapped.

    `most`: lines of its text.
    """

    label: str
    text: str
    color: str | None = None
    diff: tuple[str, ...] = ()
    most: int | None = None

    def of(self, hosts: str) -> _Row:
        return replace(self, text=f"{hosts}: {self.text}")


def _joined(rows: Mapping[str, Sequence[_Row]], most: int = _NAMED) -> list[_Row]:
    """Each row once, in its place, with the hosts that have it where others have not."""
    joined: list[_Row] = []
    for of_host in rows.values():
        at = 0
        for row in of_host:
            if row not in joined:
                joined.insert(at, row)
            at = joined.index(row) + 1
    hosts = {row: [host for host, its in rows.items() if row in its] for row in joined}
    return [
        row if len(hosts[row]) == len(rows) else row.of(_named(hosts[row], most)) for row in joined
    ]


def _head(results: Sequence[HostResult], width: int, most: int) -> list[str]:
    hosts = _named([result.host for result in results], most)
    same = f" (same on {len(results)} hosts)" if len(results) > 1 else ""
    text = f"{hosts}{same}  {_meaning(results[0])}"
    return [styled(line, bold=True) for line in wrapped(text, width, "", hanging="  ")]


def _meaning(result: HostResult) -> str:
    if result.error is not None:
        return "no plan"
    if not result.pending:
        return f"partly {_AS_DECLARED}" if result.blocked else _AS_DECLARED
    reboot = "a reboot later" if result.reboot_waits else "1 reboot"
    return ", ".join((*result.plan.meaning, *([reboot] if result.reboot_reasons else [])))


def _rows(result: HostResult, *, has_changes: bool, has_diffs: bool) -> Iterator[_Row]:
    if result.error is not None:
        yield _Row("error", result.error.message, "red")
        if result.error.fix:
            yield _Row("fix", result.error.fix)
        if not has_changes:  # a plan ends with a table that says so
            step = step_after(result.error, "")
            yield from [_Row("next", f"rigops doctor {result.host}")] if step.command else []
        return
    yield from _rows_but_notes(result, has_changes=has_changes, has_diffs=has_diffs)
    yield from _notes(result, has_changes=has_changes, has_diffs=has_diffs)
    yield from (_Row(*_blocked(one), "yellow") for one in result.blocked)


def _rows_but_notes(
    result: HostResult, *, has_changes: bool, has_diffs: bool = False
) -> Iterator[_Row]:
    yield from _first(result, has_changes=has_changes)
    for one in result.overrides:
        value, who = clipped(literal(one.value), _VALUE), clipped(one.by, _VALUE)
        text = f"{one.key} = {value}, declared by {who} on {one.at[:10]}"
        yield _Row("overrides", text, "yellow")
    if result.root_change is not None:
        yield from _root(result.root_change)
    if has_changes:
        for concern in result.plan.sizes:
            if concern in result.undone:
                yield _Row(concern, "no longer declared, so undone:", "yellow")
            yield from _changes(result, concern, has_diffs=has_diffs)
    else:
        yield from _in_short(result)
    yield from _reboot(result, has_reasons=has_changes)
    yield from _proof(result)


def _notes(result: HostResult, *, has_changes: bool, has_diffs: bool) -> Iterator[_Row]:
    if has_changes:
        most = None if has_diffs else _NOTE
        yield from (_Row("note", notice, "yellow", most=most) for notice in result.notices)
    else:
        warnings = [one for one in result.notices if one in result.plan.warnings]
        yield from (_Row("note", warning, "yellow", most=_NOTE) for warning in warnings)
        if others := len(result.notices) - len(warnings):
            more = "more note" if warnings else "note"
            yield _Row("note", f"rigops plan shows {_count(others, more)}")


def _in_short(result: HostResult) -> Iterator[_Row]:
    """Packages and files, other than those of concerns that are undone: these have been named."""
    for concern in result.plan.packages_by:
        yield from _packages(result, concern, is_each_named=False)
    files = [
        one
        for one in result.plan.changes
        if one.kind in {"file", "unit"} and one.concern not in result.undone
    ]
    for one in files:
        if one.by_hand:
            text = f"{one.subject}, {_BY_HAND}; a copy goes to {PREVIOUS_FOLDER}"
            yield _Row("overwrites", text, "yellow")
    new = sum(one.before is None for one in files)
    changed = [one.subject for one in files if None not in {one.before, one.after}]
    gone = [one.subject for one in files if one.after is None]
    parts = (
        f"write {_count(new, 'new file')}" if new else "",
        f"change {_named(changed)}" if changed else "",
        f"remove {_named(gone)}" if gone else "",
    )
    if text := "; ".join(filter(None, parts)):
        yield _Row("files", text)


def _proof(result: HostResult) -> Iterator[_Row]:
    if result.unfixed:
        found = ", ".join(result.unfixed)
        text = f"faults whose fix is not declared: {found}. fix: rigops fix"
        yield _Row("doctor", text, "yellow")
    if result.preflight_reason:
        yield _Row("preflight", f"{_COPIES} ({result.preflight_reason})", "yellow")


def _reboot(result: HostResult, *, has_reasons: bool) -> Iterator[_Row]:
    if has_reasons:
        yield from (_Row("reboot", reason) for reason in result.reboot_reasons)
    if result.reboot_waits:
        yield _Row("reboot", result.reboot_waits, "yellow")
    for hit in result.reboot_hits:
        yield _Row("reboot", f"a reboot would interrupt: {hit}", "yellow")
    for what in result.fails_until_reboot:
        since = "from the change until the reboot" if result.plan.pending else "until the reboot"
        yield _Row("reboot", f"{what} fails {since}", "yellow")
    for debt in result.other_debts:
        yield _Row("reboot", f"for a concern that was not selected: {debt}")


def _first(result: HostResult, *, has_changes: bool) -> Iterator[_Row]:
    for concern, paths in result.undeclared.items():
        named = _named(paths)
        if concern not in result.undone:
            yield _Row(concern, f"{_UNDECLARED}: kept; --prune undoes {named}", "yellow")
        elif not has_changes or concern not in result.plan.sizes:
            yield _Row(concern, f"{_UNDECLARED}: undo {named}", "yellow")
    for repair in result.plan.repairs:
        if repair.agreed:
            yield _Row("packages", f"first `{repair.command}`, since {repair.broken}")
    if has_changes and result.root_snapshot:
        yield _Row("snapshot", result.root_snapshot)


def _root(change: RootChange) -> Iterator[_Row]:
    yield _Row("root", f"as of {change.at:%Y-%m-%d %H:%M} UTC, from the snapshot {change.snapshot}")
    yield _Row("root", f"boots the kernel {change.kernel}")
    if change.nested:
        yield _Row("root", f"subvolumes inside move over: {', '.join(change.nested)}")
    yield _Row("aside", f"the present root stays as {change.aside} on its file system")
    newer = change.newer
    if newer.files:
        folders = ", ".join(f"{path} ({files})" for path, files in newer.folders)
        goes = f"{_count(newer.files, 'file')} changed since, and go aside: {folders}"
        yield _Row("aside", goes, "yellow")


def _changes(result: HostResult, concern: str, *, has_diffs: bool) -> Iterator[_Row]:
    plan = result.plan
    yield from _packages(result, concern, is_each_named=has_diffs)
    changes = [change for change in plan.changes if change.concern == concern]
    for alike in grouped(changes, _how).values():
        change = replace(alike[0], subject=", ".join(one.subject for one in alike))
        is_said = change.kind in {"argument", "module", "setting"}  # by the row itself
        diff = () if is_said or not has_diffs else tuple(_diff(change))
        yield _Row(concern, _words(change), diff=diff)
    for later in plan.shown_later:
        if later.concern == concern:
            yield _Row(concern, f"{later.when}: {later.subject}")
    if not changes:
        for whose, record in plan.housekeeping:
            if whose == concern:
                yield _Row(concern, f"update {record}")


def _packages(result: HostResult, concern: str, *, is_each_named: bool) -> Iterator[_Row]:
    """Those with one change of version are counted, but for a few that go."""
    found = result.plan.packages_by.get(concern)
    if found is None:
        return
    for verb, packages in (
        ("install", found.install),
        ("remove", found.remove),
        ("upgrade", found.upgrade),
        ("downgrade", found.downgrade),
    ):
        by_version = grouped(
            packages, lambda one: "" if one.after is None else (one.before, one.after)
        )
        for alike in by_version.values():
            if is_each_named or len(alike) == 1:
                for one in alike:
                    yield _Row(concern, f"{verb} {one.name} {_versions(one)}".rstrip())
            elif verb == "remove":
                yield _Row(concern, f"remove {_named([one.name for one in alike])}")
            else:
                yield _Row(concern, f"{verb} {len(alike)} packages {_versions(alike[0])}")


def _versions(one: Package) -> str:
    return " -> ".join(version for version in (one.before, one.after) if version)


def _named(names: Sequence[str], most: int = _NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _how(change: Change) -> object:
    """Settings of several devices that change alike are one row."""
    return (change.before, change.after) if change.kind == "setting" else change


def _words(change: Change) -> str:
    before, after = (_split(text) for text in (change.before, change.after))
    if change.kind in {"module", "setting"} and before and after:
        return f"{change.subject}: {' '.join(before)} -> {' '.join(after)}"
    if change.kind == "argument":
        coming, going = _compared(" ".join(before).split(), " ".join(after).split())
        parts = (
            f"add to the {change.subject}: {' '.join(coming)}" if coming else "",
            f"remove from the {change.subject}: {' '.join(going)}" if going else "",
        )
        return "; ".join(filter(None, parts))
    if change.kind == "hold":
        coming, going = _compared(before, after)
        parts = (
            f"hold {_count(len(coming), 'package')}" if coming else "",
            f"no longer hold {_named(going)}" if going else "",
        )
        return "; ".join(filter(None, parts))
    differs = "; ".join(filter(None, (_BY_HAND if change.by_hand else "", change.drift)))
    drift = f" ({differs})" if differs else ""
    if change.before == change.after and not drift and after:
        return f"put into force: {change.subject}"
    verb = "remove" if change.after is None else "write" if change.before is None else "change"
    return f"{verb} {change.subject}{drift}"


def _compared(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    coming = [one for one in after if one not in before]
    return coming, [one for one in before if one not in after]


def _diff(change: Change) -> Iterator[str]:
    before, after = (_split(text) for text in (change.before, change.after))
    for line in list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT))[2:]:
        if not line.startswith("@@"):
            yield styled(line, fg={"+": "green", "-": "red"}.get(line[:1]))


def _split(text: str | None) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _blocked(one: Blocker) -> tuple[str, str]:
    if one.reason == _COMING:
        return "ignored", f"{', '.join(one.keys)}: rigops {__version__} cannot set it"
    keys = f" ({', '.join(one.keys)})" if one.keys else ""
    return "blocked", f"{one.concern}{keys}: {one.reason}"


def _table(rows: Iterable[_Row], width: int) -> Iterator[str]:
    label, rows = "", tuple(rows)
    columns = max((_LABEL, *(len(row.label) for row in rows)))
    margin = " " * (columns + 4)
    for row in rows:
        shown = "" if row.label == label and row.color is None else row.label
        label = row.label
        # The fix of a text that is cut stays whole.
        what, _, fix = row.text.partition(". fix: ") if row.most else (row.text, "", "")
        first, *rest = wrapped(what, width, margin, most=row.most) or [margin]
        rest += wrapped(f"fix: {fix}", width, margin, hanging=" " * len("fix: ")) if fix else []
        column = styled(f"{shown:{columns}}", fg=row.color)
        yield f"  {column}  {first.removeprefix(margin)}"
        yield from rest
        yield from (f"{margin}  {line}" for line in row.diff)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
