"""The output of a probe: in memory, or as a directory with one file per section."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from rigops import json_fields, regular_file
from rigops.dataclass import dataclass
from rigops.errors import RigopsError, UsageError, usage_error
from rigops.json_dataclass import from_json, to_json

SCHEMA: Final = "rigops.bundle/1"
META: Final = "meta.json"
MOST_BYTES: Final = 16 * 1024 * 1024  # of one file: the probe itself stops far earlier
MOST_CONTENT: Final = 256 * 1024 * 1024  # of all files of one or several bundles
MOST_MEMBERS: Final = 4096
# Bounds of a parser's input: a section with more is incomplete, so that it is never healthy.
LONGEST_LINE: Final = 128 * 1024
MOST_LINES: Final = 200_000
BROKEN_PIPE: Final = 141  # exit code of a program whose reader is gone

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TIMED_OUT = 124
_FIX = "Take the bundle again, or remove its meta.json: the sections alone are enough."


@dataclass(frozen=True)
class Collected:
    """`parsed`: the text as each parser read it: a bundle is looked at several times."""

    text: str = field(repr=False)
    rc: int = 0
    ms: int | None = None
    root: bool = False
    timed_out: bool = False
    parsed: dict[Callable[[str], object], object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def is_complete(self) -> bool:
        return self.rc == 0 and not self.timed_out


@dataclass(frozen=True)
class Paste:
    """Where outputs are recognized in copied text, by their names, and how many lines are in none.

    `hosts`: whose prompts are in it. `left_out`: how many lines of its beginning were not read.
    `cut`: recognized outputs that name cards and end before their end.
    """

    recognized: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    others: int = 0
    hosts: tuple[str, ...] = ()
    left_out: int = 0
    cut: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bundle:
    """An absent section was not collected, which is never the same as healthy."""

    host: str
    collected_at: str | None
    root: bool
    sections: Mapping[str, Collected]
    paste: Paste | None = None

    def __post_init__(self) -> None:
        within = {name: _within_budget(one) for name, one in self.sections.items()}
        object.__setattr__(self, "sections", within)

    def files(self) -> dict[str, bytes]:
        """By name, as written to disk. meta.json comes first: the rest may get lost."""
        sections = {name: one for name, one in self.sections.items() if section_of(name) == name}
        meta = {
            "schema": SCHEMA,
            "host": self.host,
            "collected_at": self.collected_at,
            "root": self.root,
            "sections": {
                name: {"rc": one.rc, "ms": one.ms, "root": one.root, "timed_out": one.timed_out}
                for name, one in sections.items()
            },
            **({"paste": to_json(self.paste)} if self.paste else {}),
        }
        texts = {
            name: one.text.encode("utf-8", "replace") for name, one in sorted(sections.items())
        }
        return {META: json.dumps(meta, indent=2).encode() + b"\n", **texts}

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self.files().items():
            (directory / name).write_bytes(content)

    @staticmethod
    def read(directory: Path) -> Bundle:
        """Also a hand-made one: meta.json may be partial or missing, a file may end in .txt."""
        if not directory.is_dir():
            raise usage_error(message="not a bundle", file=str(directory))
        files = content_of(directory, most=MOST_CONTENT)
        return assemble(files, host=directory.resolve().name, place=str(directory))


def listed(directory: Path) -> tuple[list[str], list[str]]:
    """Names of its folders, and of everything else; a link is not what it points to."""
    try:
        with os.scandir(directory) as entries:
            inside = sorted(islice(entries, MOST_MEMBERS + 1), key=lambda one: one.name)
            folders = [one.name for one in inside if one.is_dir(follow_symlinks=False)]
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise usage_error(message=message, file=str(directory)) from error
    if len(inside) > MOST_MEMBERS:
        raise usage_error(message=f"more than {MOST_MEMBERS} files", file=str(directory))
    return folders, [one.name for one in inside if one.name not in set(folders)]


def content_of(directory: Path, *, most: int) -> list[tuple[str, bytes]]:
    """Its files, which may be a stranger's: only what lies in it, and no more than `most` bytes."""
    found = []
    for name in filter(_is_section_name, listed(directory)[1]):
        content = _content(directory / name)
        most -= len(content)
        if most < 0:
            raise usage_error(
                message=f"has more than {MOST_CONTENT >> 20} MiB", file=str(directory), fix=_FIX
            )
        found.append((name, content))
    return found


def section_of(file_name: str) -> str | None:
    """None if the file is not a section's."""
    return (
        file_name.removesuffix(".txt")
        if file_name != META and _is_section_name(file_name)
        else None
    )


def assemble(
    files: Iterable[tuple[str, bytes]], *, host: str, place: str, incomplete: Collection[str] = ()
) -> Bundle:
    """`host` is its name if meta.json has none; `incomplete` names files without an end."""
    contents: dict[str, bytes] = {}
    incomplete_names: set[str] = set()
    for name, content in files:
        if (key := META if name == META else section_of(name)) is None:
            continue
        if key in contents:
            message = f"two files for the section {key}"
            raise usage_error(message=message, file=place, fix="Remove one of them.")
        contents[key] = content
        if name in incomplete:
            incomplete_names.add(key)
    meta, paste = _meta(contents.pop(META, None), place)
    about = _object(meta.get("sections"))
    sections = {
        name: _collected(
            content.decode("utf-8", "replace"),
            {
                **_object(about.get(name)),
                **({"rc": BROKEN_PIPE} if name in incomplete_names else {}),
            },
        )
        for name, content in contents.items()
    }
    for name, listed in about.items():
        # Listed in meta.json, and lost on the way: it must not look like empty output.
        if name not in sections and section_of(name) == name:
            sections[name] = _collected(
                "", {**_object(listed), "rc": _number(_object(listed).get("rc")) or 1}
            )
    named, collected_at = meta.get("host"), meta.get("collected_at")
    return Bundle(
        host=named if isinstance(named, str) and named else host,
        collected_at=collected_at if isinstance(collected_at, str) else None,
        root=meta.get("root") is True,
        sections=sections,
        paste=paste,
    )


def _is_section_name(file_name: str) -> bool:
    return _NAME.fullmatch(file_name) is not None


def _content(path: Path) -> bytes:
    try:
        return regular_file.read(path, most=MOST_BYTES, follows_links=False)
    except OSError as error:
        if error.errno == errno.EFBIG:
            message = f"longer than {MOST_BYTES >> 20} MiB"
            fix = "Keep the part that matters, such as the end of a log."
        else:
            message = f"cannot be read: {error.strerror}"
            fix = "Remove it: a section that is not there counts as not collected."
        raise usage_error(message=message, file=str(path), fix=fix) from error


def _meta(content: bytes | None, place: str) -> tuple[dict[str, object], Paste | None]:
    if content is None:
        return {}, None
    text = content.decode("utf-8", "replace")
    try:
        fields = json_fields.parse(text, place=META, fix=_FIX)
        if fields.raw("schema") is not None:
            fields.require_schema(SCHEMA)
        pasted = fields.nested_or_none("paste")
        paste = from_json(Paste, pasted) if pasted else None
    except RigopsError as error:
        file = f"{place}/{META}"
        raise UsageError(replace(problem, file=file) for problem in error.problems) from error
    named = ("host", "collected_at", "root", "sections")
    return {name: fields.raw(name) for name in named}, paste


def _within_budget(one: Collected) -> Collected:
    lines = one.text.split("\n")
    if len(lines) <= MOST_LINES and max(map(len, lines)) <= LONGEST_LINE:
        return one
    kept = (
        line if len(line) <= LONGEST_LINE else f"(a line of {len(line)} characters)"
        for line in lines[:MOST_LINES]
    )
    return replace(one, text="\n".join(kept), rc=one.rc or BROKEN_PIPE)


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _collected(text: str, meta: Mapping[str, object]) -> Collected:
    timed_out = meta.get("timed_out") is True
    rc = _number(meta.get("rc"))
    return Collected(
        text=text,
        rc=rc if rc is not None else _TIMED_OUT if timed_out else 0,
        ms=_number(meta.get("ms")),
        root=meta.get("root") is True,
        timed_out=timed_out,
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
