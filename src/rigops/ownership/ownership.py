"""Files that rigops owns on a host: as declared, found and recorded, and the steps between these.

Digests are SHA-256, in hex.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from hashlib import sha256

from rigops import json_fields
from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.json_fields import Fields
from rigops.probe.sections.rigops_state import RECORD, ROOT, Present, RigopsState
from rigops.probe.sections.rigops_traces import FOREIGN_FILES

PREVIOUS_FOLDER = "/var/lib/rigops/previous"
MADE = "made"  # in the place of a digest: the host makes the content, and any is ours

_SCHEMA = "rigops.owned/1"
# Files that version 0.1 recorded for another concern than their present one.
_MOVED = {
    ("base", "/etc/rigops/notify"): "monitoring",
    ("base", "/usr/local/libexec/rigops/notify"): "monitoring",
}
_RESTORE = f"put {RECORD} back from a backup or a snapshot of the host's root; without one"
_FIX = f"{_RESTORE}, move it away: `rigops plan` then names the files of rigops to remove"
_FIX_LOST = (
    f"{_RESTORE}, remove these files (of {', '.join(FOREIGN_FILES)} the lines of rigops; what was "
    f"there before is in {PREVIOUS_FOLDER}), and run this again"
)


@dataclass(frozen=True)
class WantedFile:
    """Root's, a regular file."""

    concern: str
    digest: str
    mode: int

    def is_in_place(self, found: Present) -> bool:
        return found.digest == self.digest and not self.drift(found)

    def drift(self, found: Present) -> str:
        """Differences beside the content."""
        found_and_declared = (
            ("it", found.kind or "a file", "a file"),
            ("the owner", found.owner, ROOT),
            ("the mode", f"{found.mode:04o}", f"{self.mode:04o}"),
        )
        return "; ".join(
            f"{what} is {there}, declared {declared}"
            for what, there, declared in found_and_declared
            if there != declared
        )


@dataclass(frozen=True)
class Previous:
    """Content that was there before rigops wrote; `name` is its file in the folder of such."""

    name: str
    digest: str
    mode: int
    owner: str = ROOT

    def __post_init__(self) -> None:
        if not self.name.isprintable() or "/" in self.name or self.name in {"", ".", ".."}:
            raise RigopsError(
                Problem(
                    message=f"{self.name!a} is no name for an earlier content",
                    accepted="one name, without folders",
                ),
            )

    def is_in_place(self, found: Present) -> bool:
        return found == Present(self.digest, self.mode, self.owner)


@dataclass(frozen=True, kw_only=True)
class OwnedFile:
    path: str
    concern: str
    digest: str
    mode: int
    previous: Previous | None = None  # None: nothing was there before rigops
    replaces: str = ""  # digest of our own earlier content, there until this one is written

    def __post_init__(self) -> None:
        require_plain_path(self.path)

    def has_ours(self, found: Present) -> bool:
        return not found.kind and (
            self.digest == MADE or found.digest in {self.digest, self.replaces}
        )


def previous_of(path: str, found: Present) -> Previous:
    """Name the copy after path and content, so that a second copy is the same copy."""
    mark = sha256(f"{path}\n{found.digest}".encode()).hexdigest()[:16]
    return Previous(f"{posixpath.basename(path)}.{mark}", found.digest, found.mode, found.owner)


def require_plain_path(path: str) -> None:
    plain = (
        path.startswith("/")
        and not path.startswith("//")
        and path != "/"
        and path == posixpath.normpath(path)
        and path.isprintable()
        and "\\" not in path
    )
    if not plain:
        raise RigopsError(
            Problem(
                message=f"{path!a} is no path for a file that rigops may own",
                accepted="an absolute path without '..', '.', backslashes or repeated slashes",
            ),
        )


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


@dataclass(frozen=True)
class Write:
    """New, or ours and changed by what is declared. `by_hand`: it was changed since by others."""

    record: OwnedFile
    before: Present | None
    backup: Previous | None  # foreign and there now: to be copied aside first
    by_hand: bool = False


@dataclass(frozen=True)
class Make:
    """Recorded, and then made on the host by the effect of its path."""

    record: OwnedFile


@dataclass(frozen=True)
class InPlace:
    """As declared; where a foreign file satisfies it, that is neither owned nor ever removed."""


@dataclass(frozen=True)
class Undo:
    """No longer declared: restore what was there before, or remove it where nothing was."""

    owned: OwnedFile


@dataclass(frozen=True)
class Show:
    """No longer declared, but changed since: left alone, and shown in the plan."""

    owned: OwnedFile


@dataclass(frozen=True)
class Forget:
    """No longer declared, and nothing of ours is there any more: only the record changes."""

    owned: OwnedFile


Step = Write | Make | InPlace | Undo | Show | Forget


@dataclass(frozen=True)
class Ownership:
    """`Ownership()` is a host without a record, and without files that rigops made."""

    files: Mapping[str, OwnedFile] = field(default_factory=dict)

    @classmethod
    def from_state(cls, state: RigopsState) -> Ownership:
        """RigopsError where it is lost, damaged or incomplete: those files could not be undone."""
        if not state.are_files_known:
            raise RigopsError(
                Problem(
                    message="the host's answer about the files that rigops owns is incomplete",
                    fix="Run this again; nothing is changed on a host that did not answer.",
                )
            )
        ownership = cls() if state.owned is None else cls.parse(state.owned)
        made = [path for path, trace in state.unrecorded.items() if trace.is_made]
        if made := [path for path in made if not _is_copy(path, ownership.files)]:
            loss = "is lost; it named" if state.owned is None else "does not name"
            text = f"{RECORD} {loss} what rigops wrote: {', '.join(made)}"
            raise RigopsError(Problem(message=text, fix=_FIX_LOST))
        return ownership

    @classmethod
    def parse(cls, text: str) -> Ownership:
        document = json_fields.parse(text, place=RECORD, fix=_FIX)
        document.require_schema(_SCHEMA)
        files: dict[str, OwnedFile] = {}
        for entry in document.each("files"):
            owned = owned_file(entry)
            if owned.path in files:
                raise entry.wrong("path", owned.path, "a path that is listed once")
            files[owned.path] = owned
        return cls(files)

    def to_json(self) -> str:
        files = [_as_json(self.files[path]) for path in sorted(self.files)]
        return json.dumps({"schema": _SCHEMA, "files": files}, indent=2) + "\n"

    def after(self, step: Step) -> Ownership:
        match step:
            case Write(record=record) | Make(record=record):
                return Ownership({**self.files, record.path: record})
            case Undo(owned=owned) | Forget(owned=owned):
                return self.without(owned.path)
            case _:
                return self

    def paths_of(self, concern: str) -> list[str]:
        return [path for path, owned in self.files.items() if owned.concern == concern]

    def only(self, paths: Collection[str]) -> Ownership:
        return Ownership({path: owned for path, owned in self.files.items() if path in paths})

    def without(self, path: str) -> Ownership:
        return Ownership({known: owned for known, owned in self.files.items() if known != path})


def _is_copy(path: str, owned: Collection[str]) -> bool:
    """Whether a person copied or moved an owned file there, as `UNIT.bak` or `UNIT~`."""
    return any(path.startswith((f"{one}.", f"{one}~")) for one in owned)


def reconcile(
    ownership: Ownership,
    wanted: Mapping[str, WantedFile],
    present: Mapping[str, Present | None],
    *,
    selected: Collection[str],
) -> list[Step]:
    """Return one step per path of the selected concerns: first what is declared, then the rest.

    `present` has an entry for every such path, None for one that is absent: a path that was not
    collected is a KeyError, not an absent file. `wanted` may name concerns outside `selected`;
    their files are neither written nor undone.
    """
    for path in wanted:
        require_plain_path(path)
    steps = [
        _hold(ownership.files[path], file, present[path])
        if path in ownership.files
        else _take(path, file, present[path])
        for path, file in sorted(wanted.items())
        if file.concern in selected
    ]
    steps += [
        _back(owned, present[path])
        for path, owned in sorted(ownership.files.items())
        if path not in wanted and owned.concern in selected
    ]
    return steps


def _take(path: str, file: WantedFile, found: Present | None) -> Step:
    if found is None:
        return Write(_record(path, file, previous=None), None, None)
    if file.is_in_place(found):
        return InPlace()
    foreign = previous_of(path, found)
    return Write(_record(path, file, previous=foreign), found, foreign)


def _hold(owned: OwnedFile, file: WantedFile, found: Present | None) -> Step:
    record = _record(owned.path, file, previous=owned.previous)
    if found is None:
        return Write(record, None, None)
    if file.is_in_place(found) and record == replace(owned, replaces=""):
        return InPlace()
    if owned.has_ours(found) or found.digest == file.digest:
        return Write(replace(record, replaces=found.digest), found, None)
    if owned.previous and owned.previous.is_in_place(found):  # recorded, but never written
        return Write(record, found, owned.previous)
    return Write(record, found, previous_of(owned.path, found), by_hand=True)


def _back(owned: OwnedFile, found: Present | None) -> Step:
    if found is None or (owned.previous and owned.previous.is_in_place(found)):
        return Forget(owned)
    return Undo(owned) if owned.has_ours(found) else Show(owned)


def _record(path: str, file: WantedFile, *, previous: Previous | None) -> OwnedFile:
    return OwnedFile(
        path=path, concern=file.concern, digest=file.digest, mode=file.mode, previous=previous
    )


def _as_json(owned: OwnedFile) -> dict[str, object]:
    previous = owned.previous
    return {
        "path": owned.path,
        "concern": owned.concern,
        "digest": owned.digest,
        "mode": f"{owned.mode:04o}",
        "replaces": owned.replaces,
        "previous": previous
        and {
            "name": previous.name,
            "digest": previous.digest,
            "mode": f"{previous.mode:04o}",
            **({"owner": previous.owner} if previous.owner != ROOT else {}),
        },
    }


def owned_file(entry: Fields) -> OwnedFile:
    path, concern = entry.text("path"), entry.text("concern")
    return OwnedFile(
        path=path,
        concern=_MOVED.get((concern, path), concern),
        digest=MADE if entry.raw("digest") == MADE else _digest(entry, "digest"),
        mode=_mode(entry),
        previous=_previous(entry.nested_or_none("previous")),
        replaces=_digest(entry, "replaces") if entry.raw("replaces") else "",
    )


def _previous(entry: Fields | None) -> Previous | None:
    if entry is None:
        return None
    owner = ROOT if entry.raw("owner") is None else entry.text("owner")
    if not re.fullmatch(r"[0-9]{1,10}:[0-9]{1,10}", owner):
        raise entry.wrong("owner", owner, "the numbers of a user and a group such as 1000:1000")
    return Previous(entry.text("name"), _digest(entry, "digest"), _mode(entry), owner)


def _digest(entry: Fields, name: str) -> str:
    value = entry.text(name)
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise entry.wrong(name, value, "a SHA-256 digest in hex")
    return value


def _mode(entry: Fields) -> int:
    value = entry.text("mode")
    if not re.fullmatch(r"[0-7]{4}", value):
        raise entry.wrong("mode", value, "four octal digits such as 0644")
    return int(value, 8)
