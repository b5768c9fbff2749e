"""Snapshots, backups and restores of hosts in lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from rigops.backup.engine import (
    BackupTarget,
    HostSnapshots,
    Progress,
    Snapshot,
    Subvolume,
    newest_at,
)
from rigops.report.terminal import styled, visible
from rigops.report.words import error_lines, minutes, wrapped

if TYPE_CHECKING:
    from rigops.backup.answer_shape import ProgramResult

_COLORS: Final = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "yellow"}
_NEXT: Final = "goes next"
_NARROWEST_REASONS: Final = 16
_SHORT: Final = 8  # of a UUID
_WHEN: Final = "%Y-%m-%d %H:%M:%S"


def snapshots_lines(
    host: str, status: str, found: HostSnapshots, now: datetime, width: int, *, verbose: bool
) -> list[str]:
    """Times by the clock of this machine, so that they can be given to restore as they are."""
    lines = [f"{styled(host, bold=True)}  {_state(status)}"]
    if found.not_applied:
        what = ", ".join(found.not_applied)
        lines += wrapped(f"{what}: declared, and not set up on the host", width, "  ")
        lines += wrapped(f"fix: rigops apply; `rigops plan {host}` shows what is in its way", width)
    elif not found.subvolumes:
        lines += wrapped("no snapshots, and none declared", width, "  ")
    newest = newest_at(found)
    for one in found.subvolumes:
        lines += ["", *_subvolume(one, newest[one.path], now, width, verbose=verbose)]
    if found.targets:
        lines.append("")
    for target in found.targets:
        lines += wrapped(f"target {_target(target, now)}", width, "  ", hanging="  ")
    for failed in found.failures:
        lines += error_lines(f"{failed.engine}: {failed.message}", failed.fix, width, "  ")
    for foreign in found.foreign:
        text = f"{foreign.tool} makes snapshots or backups here too ({foreign.where})"
        lines += wrapped(text, width, "  ", hanging="  ")
    return lines


def restored_lines(
    host: str,
    done: ProgramResult,
    width: int,
    *,
    dry_run: bool,
    is_beside: bool = False,
) -> list[str]:
    """`is_beside`: no place was asked for. Where something has the path, it stays."""
    number = done.get("bytes")
    size = "" if number is None else f", {bytes_text(number)}"
    engine = f"{done['engine']}, " if done.get("engine") not in {None, "", "btrfs"} else ""
    source = f"{_when(done.get('at'))} ({engine}{done.get('place')}{size})"
    verb = "would be" if dry_run else "is"
    head = f"{host}: {done.get('restored_to')} {verb} restored from {source}"
    lines = wrapped(head, width, "", hanging="    ")
    if done.get("aside"):
        lines += wrapped(f"the one before {verb} at {done['aside']}", width)
    if done.get("to_do"):
        lines += wrapped(f"to do: {done['to_do']}", width)
    path = str(done.get("path"))
    if is_beside and not dry_run and done.get("restored_to") != path:
        words = ("rigops", "restore", host, path, "--at", str(done.get("snapshot")), "--in-place")
        lines += [f"    To put it where it was: {visible(shlex.join(words))}"]
    return lines


def question_text(host: str, planned: ProgramResult) -> str:
    aside = f" The present one moves to {planned['aside']}." if planned.get("aside") else ""
    return (
        f"Replace {visible(str(planned.get('restored_to')))} on {visible(host)} with the "
        f"{planned.get('kind')} of {_when(planned.get('at'))} from "
        f"{visible(str(planned.get('place')))}?{visible(aside)}"
    )


def backup_lines(host: str, done: ProgramResult, width: int, *, dry_run: bool) -> list[str]:
    would = "would be " if dry_run else ""
    texts = [f"{one.get('path')}: {one['name']} {would}taken" for one in done.get("created", ())]
    texts += [
        f"{one.get('path')}: {one['name']} {would}removed ({short_place(str(one.get('place')))})"
        for one in done.get("pruned", ())
    ]
    texts += [f"{one.get('path')}: {_sent(one, would)}" for one in done.get("sent", ())]
    texts += map(str, done.get("held", ()))
    target = done.get("target")
    if target and target["state"] != "present":
        texts.append(f"target {target['name']} is {target['state']}; the next run sends")
    lines = [
        line for text in texts for line in wrapped(f"{host}: {text}", width, "", hanging="    ")
    ]
    for error in done.get("errors", ()):
        lines += error_lines(f"{host}: {error['message']}", error["fix"], width)
    return lines or [f"{host}: nothing to do"]


def drill_lines(host: str, done: ProgramResult, width: int) -> list[str]:
    texts = []
    if done.get("archive"):
        texts.append(f"made {done['archive']} for the drill; `keep` counts it as any other")
    if done.get("result") == "ok":
        files = f" {done['files']} files" if done.get("files") is not None else " a sample"
        texts.append(f"the drill passed:{files} restored, and as they were backed up")
        texts += _of_older(done.get("older") or {})
    lines = [line for one in texts for line in wrapped(f"{host}: {one}", width, "", hanging="    ")]
    if done.get("result") == "ok":
        return lines
    why = done.get("error") or done.get("result") or "no reason given"
    return [*lines, *error_lines(f"{host}: the drill failed: {why}", done.get("fix"), width)]


def _of_older(found: ProgramResult) -> Iterator[str]:
    """A drill reads one older archive by turn."""
    if found.get("result") == "ok":
        yield f"of the older archive {found['archive']} {found.get('files')} files can be read"
    elif found:
        yield f"the older archive {found['archive']} was not read in time, and is not judged"


def heal_lines(host: str, done: ProgramResult, width: int) -> list[str]:
    texts = [f"{one}: healed" for one in done.get("healed", ())]
    texts += [f"{one}: to be healed" for one in done.get("to_heal", ())]
    texts = texts or ["nothing is to be healed"]
    lines = [line for one in texts for line in wrapped(f"{host}: {one}", width, "", hanging="    ")]
    if done.get("to_heal"):
        lines += wrapped(f"fix: `rigops backup {host} --heal --yes` signs them", width)
    return lines


def _sent(one: ProgramResult, would: str) -> str:
    how = f"as changes since {one['parent']}" if one.get("parent") else "in full"
    number = one.get("bytes")
    size = "" if number is None else f": {bytes_text(number)}"
    return f"{one['name']} {would}sent {how}{size}"


def progress_text(found: Progress) -> str:
    """The part before the first comma stays the same while one thing is copied."""
    parts = [found.what]
    if found.total:
        parts.append(f"{bytes_text(min(found.done, found.total))} of {bytes_text(found.total)}")
    else:
        parts.append(bytes_text(found.done))
    if found.per_s:
        parts.append(f"{bytes_text(round(found.per_s))}/s")
        if found.total and found.total > found.done:
            parts.append(f"{minutes((found.total - found.done) / found.per_s)} left")
    return ", ".join(parts)


def bytes_text(number: int) -> str:
    size, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:  # noqa: PLR2004 - of one unit in the next
        size, units = size / 1024, units[1:]
    return f"{size:.0f} {units[0]}" if size >= 10 or units[0] == "B" else f"{size:.1f} {units[0]}"  # noqa: PLR2004 - digits


def age_text(seconds: float) -> str:
    for unit, length in (("w", 604800), ("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit == "min" and seconds >= length):
            return f"{int(seconds // length)} {unit}"
    return "now" if seconds < 60 else "1 min"  # noqa: PLR2004 - a minute


def _subvolume(
    found: Subvolume, newest: datetime | None, now: datetime, width: int, *, verbose: bool
) -> Iterator[str]:
    count = len(found.snapshots)
    age = age_text((now - newest).total_seconds()) if newest else ""
    since = f", newest {age} old" if age not in {"", "now"} else age and ", newest just taken"
    yield f"  {styled(found.path, bold=True)}  {count} snapshot{'s' * (count != 1)}{since}"
    if found.error:
        yield from wrapped(f"Error: {found.error}", width)
        if found.fix:
            yield from wrapped(f"fix: {found.fix}", width)
    if found.nested:
        names = ", ".join(found.nested)
        yield from wrapped(f"not in its snapshots (nested subvolumes): {names}", width)
    yield from _table(found.snapshots, now, width)
    if verbose:
        for one in found.snapshots:
            places = ", ".join(place.place for place in one.places)
            yield from wrapped(f"{one.name} ({one.engine}): {places}", width)


def _table(snapshots: Sequence[Snapshot], now: datetime, width: int) -> Iterator[str]:
    rows = [("when (local time)", "age", "kind", "where", "size", "why it stays")]
    rows += [
        _row(one, now)
        for one in sorted(snapshots, key=lambda one: (one.at, one.name), reverse=True)
    ]
    if len(rows) == 1:
        return
    columns = [max(len(row[index]) for row in rows) for index in range(5)]
    for number, row in enumerate(rows):
        when, age, kind, where, size, why = row
        start = (
            f"    {when:<{columns[0]}}  {age:>{columns[1]}}  {kind:<{columns[2]}}  "
            f"{where:<{columns[3]}}  {size:>{columns[4]}}  "
        )
        room = max(width - len(start), _NARROWEST_REASONS)
        first, *rest = wrap(why, room, break_on_hyphens=False) or [""]
        if number == 0:
            yield styled(f"{start}{first}".rstrip(), dim=True)
            continue
        shown = styled(first, fg="yellow") if first == _NEXT else visible(first)
        yield f"{visible(start)}{shown}".rstrip()
        for line in rest:
            yield " " * len(start) + visible(line)


def _row(found: Snapshot, now: datetime) -> tuple[str, str, str, str, str, str]:
    places = ", ".join(
        short_place(one.place) + ("" if one.is_complete else " (incomplete)")
        for one in found.places
    )
    return (
        _local(found.at, _WHEN),
        age_text((now - found.at).total_seconds()),
        found.kind,
        places,
        "" if found.bytes is None else bytes_text(found.bytes),
        _NEXT if found.is_pruned_next else ", ".join(found.reasons),
    )


def short_place(name: str) -> str:
    """A UUID by its beginning, a server by its name."""
    if "@" in name:
        return name.partition("@")[2].partition(":")[0]
    return name if len(name) <= _SHORT else name[:_SHORT]


def _target(found: BackupTarget, now: datetime) -> str:
    parts = [f"{found.name}: {found.state}"]
    if found.newest_at:
        age = age_text((now - found.newest_at).total_seconds())
        parts.append("newest just taken" if age == "now" else f"newest {age} old")
    if found.free_bytes is not None and found.size_bytes is not None:
        free, size = bytes_text(found.free_bytes), bytes_text(found.size_bytes)
        parts.append(f"{free} of {size} free")
    if found.error:
        parts.append(found.error)
    return ", ".join(parts)


def _when(at: object) -> str:
    try:
        found = datetime.fromisoformat(str(at).replace("Z", "+00:00"))
    except ValueError:
        return str(at)
    return _local(found, f"{_WHEN} %Z")


def _local(at: datetime, form: str) -> str:
    """By the clock of this machine, where its calendar goes so far."""
    try:
        return at.astimezone().strftime(form)
    except (OverflowError, ValueError):
        return at.isoformat(" ")


def _state(status: str) -> str:
    return styled(status, fg=_COLORS.get(status), bold=True)
