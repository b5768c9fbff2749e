"""What `rigops fix` would declare, and what it leaves to a person."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rigops.report.inventory import keys_text, row_lines
from rigops.report.words import wrapped

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostReport
    from rigops.doctor.proposal import ProposedKeys
    from rigops.inventory.rewrite import Rewrite


def unreached_lines(reports: Iterable[HostReport]) -> Iterator[str]:
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
