"""Output of the host's snapshot program, a JSON document a line. Pure."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

from rigops.backup.answer_shape import MOST, ProgramResult, fits, is_whole
from rigops.backup.engine import (
    BackupError,
    BackupTarget,
    ForeignTool,
    HostSnapshots,
    Progress,
    ProgressListener,
    Snapshot,
    SnapshotPlace,
    Subvolume,
)
from rigops.backup.utc import parse_utc
from rigops.errors import REPORT_IT, RigopsError
from rigops.json_fields import Fields
from rigops.transport.errors import clean

_LONGEST_FIX = 2000  # with a line of authorized_keys in it


class ProgramAnswer:
    """`over`: the program has ended, and its exit code is known."""

    def __init__(self, on_progress: ProgressListener, on_notice: Callable[[str], None]) -> None:
        self._on_progress = on_progress
        self._on_notice = on_notice
        self._result: ProgramResult | None = None
        self._errors: list[tuple[str, str]] = []
        self.ended: int | None = None
        self.over = threading.Event()

    def hear(self, line: bytes) -> None:
        """Any line; one that is none of the program's is skipped."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(found, dict):
            return
        if isinstance(found.get("progress"), dict):
            if progress := _progress(found["progress"]):
                self._on_progress(progress)
        elif isinstance(found.get("notice"), str):
            self._on_notice(clean(found["notice"]))
        elif isinstance(error := found.get("error"), dict):
            message, fix = (str(error.get(name) or "") for name in ("message", "fix"))
            self._errors.append((clean(message), clean(fix, _LONGEST_FIX)))
        elif isinstance(found.get("result"), dict):
            self._result = found["result"]
        elif isinstance(found.get("ended"), int):
            self.ended = found["ended"]
            self.over.set()

    def result_or_raise(self, host: str, stderr: bytes) -> ProgramResult:
        """With `errors`, where a part of the work failed."""
        if self._result is not None:
            if not fits(self._result):
                raise unreadable(host)
            errors: list[ProgramResult] = [
                {"message": message, "fix": fix} for message, fix in self._errors
            ]
            return {**self._result, "errors": errors} if errors else self._result
        if self._errors:
            raise BackupError(host, *self._errors[0])
        last = clean(stderr.strip().rpartition(b"\n")[2])
        raise BackupError(
            host, f"the program there ended without a result: {last or 'no output'}", REPORT_IT
        )


def unreadable(host: str) -> BackupError:
    where = f" on {host}" if host else ""
    why = f"the backup program{where} gave an answer that cannot be read"
    return BackupError(host, why, REPORT_IT)


def read_snapshots(host: str, document: Mapping[str, object]) -> HostSnapshots:
    try:
        return _snapshots(host, document)
    except (RigopsError, ValueError, OverflowError) as error:
        raise unreadable(host) from error


def _snapshots(host: str, document: Mapping[str, object]) -> HostSnapshots:
    found = Fields(document, place=f"{host}: list of snapshots", fix=REPORT_IT)
    return HostSnapshots(
        subvolumes=tuple(map(_subvolume, found.each("subvolumes"))),
        targets=tuple(
            BackupTarget(
                name=one.text("name"),
                state=one.text("state"),
                newest_at=parse_utc(one.text("newest_at")) if one.raw("newest_at") else None,
                free_bytes=_whole(one, "free_bytes"),
                size_bytes=_whole(one, "size_bytes"),
                error=one.text("error") if one.raw("error") else "",
            )
            for one in found.each("targets")
        ),
        foreign=tuple(
            ForeignTool(tool=one.text("tool"), where=one.text("where"))
            for one in found.each("foreign")
        ),
        raw=document,
    )


def _subvolume(found: Fields) -> Subvolume:
    error = found.nested_or_none("error")
    return Subvolume(
        path=found.text("path"),
        nested=found.texts("nested"),
        snapshots=tuple(map(_snapshot, found.each("snapshots"))),
        error=error.text("message") if error else "",
        fix=error.text("fix") if error else "",
    )


def _snapshot(found: Fields) -> Snapshot:
    return Snapshot(
        name=found.text("name"),
        at=parse_utc(found.text("at")),
        kind=found.text("kind"),
        engine=found.text("engine"),
        places=tuple(
            SnapshotPlace(place=one.text("place"), is_complete=bool(one.raw("is_complete")))
            for one in found.each("places")
        ),
        bytes=_whole(found, "bytes"),
        reasons=found.texts("reasons"),
        is_pruned_next=bool(found.raw("is_pruned_next")),
    )


def _whole(found: Fields, name: str) -> int | None:
    number = found.raw(name)
    if number is None or is_whole(number):
        return number
    raise found.wrong(name, number, "a size")


def _progress(found: Mapping[str, object]) -> Progress | None:
    what, done, total, per_s = (found.get(name) for name in ("what", "done", "total", "per_s"))
    if not isinstance(what, str) or not is_whole(done):
        return None
    return Progress(
        what=clean(what),
        done=done,
        total=total if is_whole(total) else None,
        per_s=float(per_s) if isinstance(per_s, (int, float)) and 1 <= per_s < MOST else 0.0,
    )
