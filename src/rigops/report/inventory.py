"""The text of a first inventory, and what else could be declared: by rigops, or by a person."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Final

from rigops.doctor.host_report import HostReport
from rigops.doctor.proposal import ProposedKeys
from rigops.hosts.probing import CollectedHost
from rigops.python_literal import literal
from rigops.rendering import render
from rigops.report.words import MARGIN, wrapped

if TYPE_CHECKING:
    from rigops.inventory.rewrite import Rewrite

_WIDTH = 96
_MOST_ROWS: Final = 12
_WIDEST: Final = 46  # of the keys of a row; longer ones push its reason aside


def inventory_text(hosts: Sequence[str], date: str) -> str:
    return render("inventory.py.j2", hosts=hosts, date=date)


def host_text(name: str, reached: Mapping[str, object], entries: Sequence[ProposedKeys]) -> str:
    """One host of a group; `reached`: its ssh keys."""
    lines = [f"{keys_text({key: value})}," for key, value in reached.items()]
    for entry in in_order(entries):
        lines += _comment(entry.reason)
        if entry.keys:
            lines.append(f"{keys_text(entry.keys)}," if entry.holds else _suggested(entry))
    if not lines:
        return indent(f"{literal(name)},", MARGIN)
    body = indent("\n".join(lines), MARGIN * 2)
    return indent(f"(\n{MARGIN}{literal(name)},\n{MARGIN}{{\n{body}\n{MARGIN}}},\n),", MARGIN)


def in_order(entries: Sequence[ProposedKeys]) -> list[ProposedKeys]:
    """What is there, then what is suggested."""
    return sorted(entries, key=lambda one: not one.holds)


def written_lines(
    path: Path, text: str, entries: Sequence[ProposedKeys], width: int, *, accepted: bool
) -> Iterator[str]:
    """What `text`, just written, does not declare yet. `entries`: in its order."""
    lines = enumerate(text.splitlines(), 1)
    rows = []
    for one in entries:
        if not one.holds:
            begins = _suggested(one) if one.keys else _comment(one.reason)[0]
            line = next(number for number, line in lines if line.strip() == begins)
            rows.append((f"{path}:{line}  {keys_text(one.keys)}".rstrip(), one.reason))
    if not rows:
        found = "Every suggestion is declared" if accepted else "Nothing to suggest"
        yield f"Wrote {path}. {found}."
        return
    yield f"Wrote {path}. Comments in it, which declare nothing yet:"
    yield from row_lines(rows[:_MOST_ROWS], width)
    if len(rows) > _MOST_ROWS:
        yield f"  and {len(rows) - _MOST_ROWS} more"


def row_lines(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """What to declare, and why."""
    widest = max((len(keys) for keys, _ in rows if len(keys) <= _WIDEST), default=0)
    for keys, reason in rows:
        yield from wrapped(f"  {keys:{widest}}  {reason}", width, "", hanging=" " * (widest + 4))


def keys_text(keys: Mapping[str, object]) -> str:
    """As the dict of a host has them."""
    return ", ".join(f"{literal(key)}: {literal(value)}" for key, value in keys.items())


def _suggested(entry: ProposedKeys) -> str:
    return f"# {keys_text(entry.keys)},"


def _comment(reason: str) -> list[str]:
    """Every line becomes a comment: output of a host in it cannot become code."""
    return wrapped(reason, _WIDTH - 12, "# ")


def unreached_lines(reports: Iterable[HostReport | CollectedHost]) -> Iterator[str]:
    for one in reports:
        if one.error:
            yield f"{one.host}: {one.error.kind}: {one.error.message}"
            if one.error.fix:
                yield f"  fix: {one.error.fix}"


def reason_lines(proposed: Mapping[str, Sequence[ProposedKeys]], width: int) -> Iterator[str]:
    for host, entries in proposed.items():
        if entries:
            yield host
            yield from row_lines([(keys_text(one.keys), one.reason) for one in entries], width)


def diff_lines(wanted: Rewrite) -> list[str]:
    before, after = (text.decode().splitlines() for text in (wanted.before, wanted.text))
    name = str(wanted.path)
    return list(difflib.unified_diff(before, after, name, f"{name} (fixed)", lineterm=""))


def by_hand_lines(wanted: Rewrite, width: int) -> Iterator[str]:
    for one in wanted.by_hand:
        text = f"{wanted.path}:{one.line}: {one.host}: where these keys belong is not certain"
        yield from wrapped(text, width, "")
        fix = f"fix: write in its data: {keys_text(one.keys)}    then: rigops apply"
        yield from wrapped(fix, width, hanging="     ")


def document_hosts(
    reports: Iterable[HostReport],
    proposed: Mapping[str, Sequence[ProposedKeys]],
    wanted: Rewrite,
) -> Iterator[dict[str, object]]:
    by_hand = {one.host: one for one in wanted.by_hand}
    for one in reports:
        left = by_hand.get(one.host)
        yield {
            "host": one.host,
            "status": one.status,
            "declare": [
                {"keys": dict(entry.keys), "reason": entry.reason} for entry in proposed[one.host]
            ],
            "by_hand": {"line": left.line, "keys": dict(left.keys)} if left else None,
            "error": one.error.as_json() if one.error else None,
        }
