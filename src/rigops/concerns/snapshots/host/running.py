"""One run over all declared subvolumes: take what is due, prune, send, prune at the target."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from rigops.backup.host.btrfs import BtrfsError
from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.host.noted_places import find_place, note_places
from rigops.backup.host.one_run import BusyError, only_run
from rigops.backup.host.snapshot_names import folder_of, parse_snapshot_name
from rigops.backup.host.snapshot_settings import read_snapshot_settings
from rigops.backup.host.time_service import find_unsynchronized
from rigops.backup.host.unfinished import clear_unfinished
from rigops.backup.host.volumes import find_source
from rigops.backup.pruning import (
    Clock,
    KnownRuns,
    Occasion,
    choose_pruned,
    describe_runs,
    is_future,
    judge_clock,
    read_runs,
    runs_of_copies,
)
from rigops.backup.utc import read_utc, utc_now, utc_text
from rigops.concerns.snapshots.host.chain import (
    ambiguous_origins,
    choose_transfers,
    find_reasons_to_stay,
    is_due,
    is_from_future,
    newest_common,
)
from rigops.concerns.snapshots.host.creating import (
    create_snapshot,
    free_name,
    local_store,
    nothing_declared,
)
from rigops.concerns.snapshots.host.marks import read_parents, read_pinned, write_parents
from rigops.concerns.snapshots.host.place import SnapshotCopy
from rigops.concerns.snapshots.host.root_rollback import finish_noted_rollback
from rigops.concerns.snapshots.host.run_state import read_snapshots_state, write_snapshots_state
from rigops.concerns.snapshots.host.targets import open_target
from rigops.concerns.snapshots.host.transfer import clear_incomplete, send_snapshot

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from rigops.backup.file_systems import NotedPath
    from rigops.backup.host.output import Output
    from rigops.backup.host.snapshot_settings import SnapshotSettings
    from rigops.backup.host.volumes import Source
    from rigops.concerns.snapshots.host.chain import Transfer
    from rigops.concerns.snapshots.host.place import LocalPlace
    from rigops.concerns.snapshots.host.remote import RemotePlace
    from rigops.concerns.snapshots.host.snapshot_documents import (
        CreatedSnapshot,
        PrunedSnapshot,
        SentSnapshot,
        SubvolumeNote,
        TargetNote,
        TargetRow,
    )
    from rigops.concerns.snapshots.host.targets import Target
    from rigops.concerns.snapshots.host.transfer import Sent

_DUE_EVERY = timedelta(minutes=1)
_FORGOTTEN = timedelta(days=90)  # a target that is not declared any more keeps no parent


class Wish(NamedTuple):
    """`kind`: of the snapshots to take; empty: none. `always`: due or not.

    `prunes_most`: a person consents to the removal of more than half of the copies.
    `accepts_moved`: and to a subvolume on another file system than at the last run.
    """

    kind: str = ""
    always: bool = False
    sends: bool = True
    is_dry: bool = False
    prunes_most: bool = False
    accepts_moved: bool = False


def add_run(commands: Any) -> None:
    parser = commands.add_parser(
        "run", help="what the timer does: take, prune and send what is due"
    )
    parser.set_defaults(carry_out=_run_timer)


def add_backup(commands: Any) -> None:
    parser = commands.add_parser("backup", help="take snapshots now, prune, and send")
    _add_pruning_options(parser)
    parser.add_argument(
        "--moved", action="store_true", help="accept that a subvolume is on another file system"
    )
    parser.set_defaults(carry_out=_run_backup)


def add_prune(commands: Any) -> None:
    parser = commands.add_parser("prune", help="remove what retention does not keep")
    _add_pruning_options(parser)
    parser.set_defaults(carry_out=_run_prune)


def _add_pruning_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument(
        "--prune-most", action="store_true", help="remove more than half of the copies at once"
    )


def _run_timer(options: argparse.Namespace, output: Output) -> int:
    """Beside a backup or a restore of a person it is no failure that it has to wait."""
    del options
    finish_noted_rollback(output)
    try:
        return _run_wish(Wish("timer"), output)
    except BusyError as error:
        output.notice(f"{error.message}; what is due is for the next run")
        return 0


def _run_backup(options: argparse.Namespace, output: Output) -> int:
    wish = Wish(
        "manual",
        always=True,
        is_dry=options.dry_run,
        prunes_most=options.prune_most,
        accepts_moved=options.moved,
    )
    return _run_wish(wish, output)


def _run_prune(options: argparse.Namespace, output: Output) -> int:
    wish = Wish(sends=False, is_dry=options.dry_run, prunes_most=options.prune_most)
    return _run_wish(wish, output)


def _run_wish(wish: Wish, output: Output) -> int:
    settings = read_snapshot_settings()
    if settings is None or not settings.subvolumes:
        raise nothing_declared()
    with only_run():
        if not wish.is_dry:
            clear_unfinished(output)
        return SnapshotRun(settings, wish, output, utc_now()).carry_out()


class Work:
    """A declared subvolume in this run."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = folder_of(path)
        self.source: Source | None = None
        self.place: NotedPath | None = None
        self.error: HostError | None = None
        self.sent_to_at = ""  # when the newest one at the target was taken
        self.sent_bytes = 0
        self.planned: SnapshotCopy | None = None  # of a dry run

    @property
    def store(self) -> LocalPlace:
        assert self.source is not None  # noqa: S101 - only found ones are worked on
        return local_store(self.source)

    def copies(self) -> list[SnapshotCopy]:
        found = self.store.copies(self.folder)
        return [*found, self.planned] if self.planned else found


class SnapshotRun:
    def __init__(
        self, settings: SnapshotSettings, wish: Wish, output: Output, now: datetime
    ) -> None:
        self._settings = settings
        self._rule = settings.rule
        self._wish = wish
        self._output = output
        self._now = now
        self._always = wish.always
        self._works = [Work(path) for path in settings.subvolumes]
        self._before = read_snapshots_state()
        self._clock = Clock(now, KnownRuns())
        self._held: list[str] = []
        self._created: list[CreatedSnapshot] = []
        self._pruned: list[PrunedSnapshot] = []
        self._sent: list[SentSnapshot] = []
        self._target: Target | None = None

    def carry_out(self) -> int:
        """One subvolume's failure, or the target's, does not stop the others."""
        for work in self._works:
            self._try(work, self._find)
        self._judge_clock()
        if self._wish.kind:
            self._each(self._take)
        self._always = False
        taken = {one.path: one.place for one in self._works if one.place and not one.error}
        self._target = open_target(self._settings)
        self._check_target()
        for work in self._works:
            if work.source:  # even where the snapshot failed: on a full disk it is what helps
                self._try(work, self._prune_local)
        if self._target and self._target.place:
            self._fill(self._target.place)
        if not self._wish.is_dry:
            self._write_state()
            note_places(taken)
        self._output.result(
            {
                "created": self._created,
                "pruned": self._pruned,
                "sent": self._sent,
                "held": self._held,
                "target": self._target_document(),
            }
        )
        has_failed = any(work.error for work in self._works)
        return int(has_failed or bool(self._target and self._target.state == "failed"))

    def _each(self, do: Callable[[Work], None]) -> None:
        for work in self._works:
            if work.source and not work.error:
                self._try(work, do)

    def _try(self, work: Work, do: Callable[[Work], None]) -> None:
        try:
            do(work)
        except HostError as error:
            self._fail(work, error)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            self._fail(work, as_host_error(work.path, error))

    def _fail(self, work: Work, error: HostError) -> None:
        self._output.error(error)
        work.error = work.error or error

    def _find(self, work: Work) -> None:
        work.place = find_place(work.path, accepts_moved=self._wish.accepts_moved)
        work.source = find_source(work.path)
        if not self._wish.is_dry and work.store.clear():
            self._output.notice(f"{work.path}: removed what an interrupted restore left")
        if work.source.nested:
            names = ", ".join(work.source.nested)
            self._output.notice(f"{work.path}: nested subvolumes are not in its snapshots: {names}")

    def _judge_clock(self) -> None:
        runs = read_runs(self._before)
        if runs.newest is None:
            names: list[str] = []
            self._each(lambda work: names.extend(one.name for one in work.copies()))
            times = [found.at for found in map(parse_snapshot_name, names) if found]
            runs = runs_of_copies(times, self._now)
        self._clock = judge_clock(runs, self._now, find_unsynchronized())

    def _take(self, work: Work) -> None:
        names = [one.name for one in work.store.copies(work.folder)]
        future = [name for name in names if is_from_future(name, self._now)]
        if future:
            self._output.notice(f"{work.path}: {', '.join(future)}: from the future; they stay")
        if not self._always and not is_due(names, self._rule, self._now):
            return
        if self._wish.is_dry:
            name = free_name(self._now, self._wish.kind, names)
            work.planned = SnapshotCopy(name, "planned", "planned", is_complete=True)
            self._output.notice(f"{work.path}: would take {name}")
        else:
            name = create_snapshot(work.source, self._wish.kind, self._now) if work.source else ""
            self._output.notice(f"{work.path}: snapshot {name}")
        self._created.append({"path": work.path, "name": name})

    def _take_meanwhile(self) -> None:
        """A send that lasts, or that a server draws out, holds up no snapshot here."""
        now = utc_now()
        if not self._wish.kind or now - self._now < _DUE_EVERY:
            return
        self._now = now
        before = len(self._created)
        self._each(self._take)
        if len(self._created) > before:
            with suppress(HostError):  # the end of the run says so too
                self._write_state()

    def _check_target(self) -> None:
        target = self._target
        if target is None:
            return
        if target.state == "absent":
            seen = self._target_before().get("seen_at") or "never"
            self._output.notice(f"{target.name} is absent (last seen: {seen}); the next run sends")
        elif target.state == "unreachable" and target.error:
            self._output.notice(f"{target.error.message}; the next run sends")
        elif target.error:
            self._output.error(target.error)
        same = [
            work for work in self._works if work.source and work.source.volume.uuid == target.name
        ]
        if same:
            paths = ", ".join(work.path for work in same)
            error = HostError(
                f"send_to: {target.name} is the file system of {paths}",
                "declare another disk: this one is no second copy",
            )
            self._output.error(error)
            self._target = target._replace(state="failed", place=None, error=error)

    def _prune_local(self, work: Work) -> None:
        store = work.store
        there = store.path(work.folder)
        copies = work.copies()
        parents = self._parents(work, copies, self._known_parent(work, copies))
        reasons = find_reasons_to_stay(
            copies,
            self._rule,
            self._now,
            parents=parents,
            pinned=read_pinned(there),
        )
        self._prune(work, store, reasons)

    def _known_parent(self, work: Work, copies: list[SnapshotCopy]) -> str:
        """A target that cannot say what it has is none, and holds up nothing here."""
        place = self._target.place if self._target else None
        try:
            return newest_common(copies, place.copies(work.folder), self._now) if place else ""
        except HostError as error:
            self._refuse_target(error)
            return ""

    def _parents(self, work: Work, copies: list[SnapshotCopy], common: str) -> set[str]:
        """Of each target, noted before anything is removed, for when it is absent."""
        there = work.store.path(work.folder)
        before = read_parents(there)
        parents = dict(before)
        if common:
            parents[self._settings.send_to] = common
        ours = {one.name for one in copies}
        parents = {
            target: name
            for target, name in parents.items()
            if name in ours and (target == self._settings.send_to or not self._is_old(name))
        }
        if there.is_dir() and not self._wish.is_dry:
            try:
                write_parents(there, parents)
            except OSError as error:  # on a full disk pruning is what helps
                self._output.notice(as_host_error(work.path, error).message)
                return {*before.values(), *parents.values()}
        return set(parents.values())

    def _is_old(self, name: str) -> bool:
        found = parse_snapshot_name(name)
        return found is not None and self._clock.now - found.at > _FORGOTTEN

    def _fill(self, place: LocalPlace | RemotePlace) -> None:
        """The target, as long as nobody else writes there."""
        try:
            if self._wish.is_dry:
                self._each(lambda work: self._send(work, place))
                return
            with place.locked():
                for work in self._works:
                    if work.source:
                        self._try(work, lambda work: self._send_while_there(work, place))
                    if self._target and self._target.state == "failed":
                        return
                place.sync()
                if self._target:
                    self._target = self._target._replace(free_bytes=place.room()[0])
        except HostError as error:
            self._refuse_target(place.away(error) or error)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            self._refuse_target(place.away(error) or as_host_error(place.name, error))

    def _send_while_there(self, work: Work, place: LocalPlace | RemotePlace) -> None:
        """A target that goes away meanwhile is said once, and is no fault of a subvolume."""
        try:
            self._send(work, place)
        except (HostError, OSError) as error:
            away = place.away(error)
            if away is None:
                raise
            self._refuse_target(away)

    def _refuse_target(self, error: HostError) -> None:
        self._output.error(error)
        if self._target:
            self._target = self._target._replace(state="failed", place=None, error=error)

    def _send(self, work: Work, place: LocalPlace | RemotePlace) -> None:
        if not self._wish.is_dry:
            clear_incomplete(place, work.folder, self._output)
        if self._wish.sends:
            self._send_missing(work, place)
        self._prune_target(work, place)
        theirs = (one.name for one in place.copies(work.folder) if one.is_complete)
        past = [name for name in theirs if not is_from_future(name, self._now)]
        newest = parse_snapshot_name(max(past)) if past else None
        work.sent_to_at = utc_text(newest.at) if newest else ""
        if not self._wish.is_dry:
            ours = work.copies()
            self._parents(work, ours, newest_common(ours, place.copies(work.folder), self._now))

    def _send_missing(self, work: Work, place: LocalPlace | RemotePlace) -> None:
        ours = work.copies()
        doubtful = ambiguous_origins(ours)
        if doubtful:
            names = ", ".join(one.name for one in ours if one.origin in doubtful)
            raise HostError(
                f"{work.path} was received and made writable by force: its snapshots ({names}) "
                "look the same at a target",
                f"replace it by a snapshot of itself: `btrfs subvolume snapshot {work.path} NEW`",
            )
        theirs = place.copies(work.folder)
        for transfer in choose_transfers(ours, theirs, self._rule, self._now):
            if self._wish.is_dry:
                parent = "".join(transfer.parents[:1])
                how = f"from {parent}" if parent else "in full"
                self._output.notice(f"{work.path}: would send {transfer.name} {how}")
                self._note_sent(work, transfer.name, parent)
                continue
            self._send_one(work, transfer, place)
            self._parents(work, ours, newest_common(ours, place.copies(work.folder), self._now))

    def _send_one(self, work: Work, transfer: Transfer, place: LocalPlace | RemotePlace) -> None:
        needed = self._size_of_last(work)
        if not transfer.parents:
            needed = work.store.measure(work.folder, transfer.name)
        free = place.room()[0]
        room = f"{place.name} has {_mebibytes(free)} free"
        if needed is not None and needed > free:
            about = "the last increment had" if transfer.parents else "all files have"
            room += f", {about} {_mebibytes(needed)}"
            self._output.notice(room)
        try:
            try:
                sent = self._stream(work, transfer, place)
            except BtrfsError as error:
                if not error.is_full or not self._prune_target(work, place):
                    raise
                sent = self._stream(work, transfer, place)
        except BtrfsError as error:
            if error.is_full:
                raise HostError(f"{error.message} ({room})", error.fix) from error
            raise
        work.sent_bytes = sent.bytes
        how = f"from {sent.parent}" if sent.parent else "in full"
        self._output.notice(
            f"{work.path}: sent {sent.name} {how}: {_mebibytes(sent.bytes)} in {sent.seconds:.1f} s"
        )
        self._note_sent(work, sent.name, sent.parent, sent.bytes, sent.seconds)

    def _stream(self, work: Work, transfer: Transfer, place: LocalPlace | RemotePlace) -> Sent:
        return send_snapshot(
            transfer,
            work.folder,
            work.store,
            place,
            self._output,
            meanwhile=self._take_meanwhile,
        )

    def _note_sent(
        self,
        work: Work,
        name: str,
        parent: str,
        size: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self._sent.append(
            {
                "path": work.path,
                "name": name,
                "parent": parent or None,
                "bytes": size,
                "seconds": None if seconds is None else round(seconds, 1),
            }
        )

    def _prune_target(self, work: Work, place: LocalPlace | RemotePlace) -> int:
        """By the same rule. How many are gone."""
        theirs = place.copies(work.folder)
        common = newest_common(theirs, work.copies(), self._now)
        reasons = find_reasons_to_stay(
            [one for one in theirs if one.is_complete],
            self._rule,
            self._now,
            parents={common},
            pinned=read_pinned(work.store.path(work.folder)),
        )
        return self._prune(work, place, reasons)

    def _prune(
        self,
        work: Work,
        place: LocalPlace | RemotePlace,
        reasons: Mapping[str, tuple[str, ...]],
    ) -> int:
        """How many are gone. Snapshots that are held back are reported and recorded."""
        here = (work.path, place.name)
        occasion = Occasion(
            missing=tuple(one.path for one in self._works if one.source is None),
            clock_doubt=self._clock.doubt,
            has_consent=self._wish.prunes_most,
            removed=sum((one["path"], one["place"]) == here for one in self._pruned),
        )
        unwanted = sorted(name for name, found in reasons.items() if not found)
        going, held = choose_pruned(unwanted, len(reasons), occasion)
        for name in going:
            self._remove(work, place, name)
        if held:
            sentence = held if occasion.doubt else f"{work.path} ({place.name}): {held}"
            if sentence not in self._held:
                self._held.append(sentence)
                self._output.notice(sentence)
        return len(going)

    def _remove(self, work: Work, place: LocalPlace | RemotePlace, name: str) -> None:
        if self._wish.is_dry:
            self._output.notice(f"{work.path}: would remove {name} ({place.name})")
        else:
            place.delete(work.folder, name)
            self._output.notice(f"{work.path}: removed {name} ({place.name})")
        self._pruned.append({"path": work.path, "name": name, "place": place.name})

    def _size_of_last(self, work: Work) -> int | None:
        if work.sent_bytes:
            return work.sent_bytes
        sizes = self._target_before().get("sent_bytes") or {}
        found = sizes.get(work.path)
        return found if isinstance(found, int) else None

    def _target_before(self) -> TargetNote:
        """The record of this target; empty where it was another one."""
        found = self._before.get("target") or {}
        return found if found.get("name") == self._settings.send_to else {}

    def _target_document(self) -> TargetRow | None:
        target = self._target
        if target is None:
            return None
        return {
            "name": target.name,
            "state": target.state,
            "free_bytes": target.free_bytes,
            "error": target.error.message if target.error else None,
        }

    def _write_state(self) -> None:
        subvolumes: dict[str, SubvolumeNote] = {}
        nested: dict[str, list[str]] = {}
        for work in self._works:
            newest = None
            if work.source:
                nested[work.path] = list(work.source.nested)
                found = [
                    name
                    for name in (parse_snapshot_name(one.name) for one in work.copies())
                    if name and not is_from_future(str(name), self._now)
                ]
                newest = utc_text(max(found).at) if found else None
            error = work.error.message if work.error else None
            subvolumes[work.path] = {"newest_at": newest, "error": error}
        write_snapshots_state(
            {
                "subvolumes": subvolumes,
                "nested": nested,
                "target": self._target_state(),
                "scrub": self._before.get("scrub", {}),
                "clock": describe_runs(self._clock.runs),
                "held": self._held,
            },
            self._now,
        )

    def _target_state(self) -> TargetNote | None:
        target = self._target
        if target is None:
            return None
        before = self._target_before()
        newest = {
            path: at
            for path, at in (before.get("newest_at") or {}).items()
            if not self._is_future(at)
        }
        sizes = dict(before.get("sent_bytes") or {})
        for work in self._works:
            if work.sent_to_at:
                newest[work.path] = work.sent_to_at
            if work.sent_bytes:
                sizes[work.path] = work.sent_bytes
        is_present = target.state == "present"
        seen = before.get("seen_at")
        seen = utc_text(self._now) if is_present or self._is_future(seen) else seen
        free = target.free_bytes if is_present else before.get("free_bytes")
        return {
            "name": target.name,
            "state": target.state,
            "newest_at": newest,
            "seen_at": seen,
            "error": target.error.message if target.error else None,
            "free_bytes": free,
            "sent_bytes": sizes,
        }

    def _is_future(self, text: object) -> bool:
        """Written by a run whose clock was wrong."""
        at = read_utc(text)
        return at is not None and is_future(at, self._now)


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
