"""The journal as objects (`-o json`, `export`, `verbose`) and dmesg's, as the lines of a log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Final

_FIELD: Final = re.compile(r"\s*(?P<name>[A-Z_][A-Z0-9_]{0,63})=(?P<value>.*)")
_VERBOSE_HEAD: Final = re.compile(r"\S.{10,60} \[s=")
_HEAD_OF_RING: Final = re.compile(r"\{\s{0,9}\"dmesg\"\s{0,9}:\s{0,9}\[")
_BEFORE_OBJECT: Final = "\x1e \t},"  # `-o json-seq`; the end of the one before in dmesg's
_MICROSECONDS: Final = 1_000_000

Entry = Mapping[str, object]


def log_lines(lines: Iterable[str]) -> list[str]:
    """In the layout of `-o short-iso`. The entries of another boot follow `-- Boot`."""
    found: list[str] = []
    boot: object = None
    for entry in _entries(list(lines)):
        message = _text(entry.get("MESSAGE"))
        if message is None:
            continue
        now = entry.get("_BOOT_ID")
        if boot is not None and now is not None and now != boot:
            found.append(f"-- Boot {_text(now)} --")
        boot = now if now is not None else boot
        found += [_line(entry, part) for part in message.splitlines() if part.strip()]
    return found


def _entries(lines: list[str]) -> Iterator[Entry]:
    fields = [_FIELD.match(line) for line in lines]
    if any(fields):
        yield from _of_fields(lines, fields)
        return
    decoder = json.JSONDecoder()
    for text in _texts(lines):
        ring = _HEAD_OF_RING.match(text)  # whose entries are whole where its end is lost
        at = text.find("{", ring.end()) if ring else 0
        while at >= 0:
            try:
                value, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                break
            yield from _objects(value)
            at = text.find("{", end)


def _texts(lines: Iterable[str]) -> Iterator[str]:
    """Each from where an object may begin: entries hold none, and a cut one is tried once."""
    found: list[str] = []
    for line in lines:
        inner = line.lstrip(_BEFORE_OBJECT).removeprefix("data: ")
        if inner.startswith("{"):
            yield "\n".join([*found, line.removesuffix(inner)])
            found = [inner]
        else:
            found.append(line)
    yield "\n".join(found)


def _objects(value: object) -> Iterator[Entry]:
    if not isinstance(value, dict):
        return
    ring = value.get("dmesg")
    for one in ring if isinstance(ring, list) else [value]:
        if isinstance(one, dict) and "msg" in one:
            yield {"MESSAGE": one["msg"], "_TRANSPORT": "kernel", "seconds": one.get("time")}
        elif isinstance(one, dict):
            yield one


def _of_fields(lines: list[str], fields: list[re.Match[str] | None]) -> Iterator[Entry]:
    """An entry ends at a blank line, at the head of the next, or where a field comes again."""
    entry: dict[str, object] = {}
    for line, field in zip(lines, fields, strict=True):
        is_end = not line.strip() or (field is None and _VERBOSE_HEAD.match(line))
        if entry and (is_end or (field and field["name"] == "__CURSOR")):
            yield entry
            entry = {}
        if field:
            entry[field["name"]] = field["value"]
    yield entry


def _line(entry: Entry, message: str) -> str:
    program = _text(entry.get("SYSLOG_IDENTIFIER"))
    is_kernels = _text(entry.get("_TRANSPORT")) == "kernel" or program in {None, "kernel"}
    host = _text(entry.get("_HOSTNAME")) or "host"
    seconds = _number(entry.get("seconds"))
    since_boot = _number(entry.get("__MONOTONIC_TIMESTAMP"))
    if since_boot is not None:
        since_boot /= _MICROSECONDS
    now = _number(entry.get("__REALTIME_TIMESTAMP"))
    if now is not None:
        return f"{_moment(now)} {host} {'kernel' if is_kernels else program}: {message}"
    up = seconds if seconds is not None else since_boot
    if up is not None:
        return f"[{up:12.6f}] {message}"
    return message if is_kernels else f"host {program}: {message}"


def _moment(microseconds: float) -> str:
    try:
        moment = datetime.fromtimestamp(microseconds / _MICROSECONDS, timezone.utc)
    except (ValueError, OverflowError, OSError):
        moment = datetime.fromtimestamp(0, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}+0000"


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, (str, int, float)) else None
    except (ValueError, OverflowError):
        return None


def _text(value: object) -> str | None:
    """Journald gives bytes that are no text as a list of numbers."""
    if isinstance(value, list) and all(isinstance(one, int) and 0 <= one <= 255 for one in value):  # noqa: PLR2004 - a byte
        return bytes(value).decode("utf-8", "replace")
    return value if isinstance(value, str) else None
