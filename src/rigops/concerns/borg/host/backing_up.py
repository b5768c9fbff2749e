"""One run: an archive of all that is declared; prune and compact; a check when it is due."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rigops.backup.host.errors import HostError
from rigops.backup.host.noted_places import is_elsewhere, note_places
from rigops.backup.host.one_run import BusyError
from rigops.backup.host.time_service import find_unsynchronized
from rigops.backup.pruning import (
    Occasion,
    describe_runs,
    is_future,
    judge_clock,
    read_runs,
    runs_of_copies,
)
from rigops.backup.utc import read_utc, utc_now, utc_text
from rigops.concerns.borg.host.archive_names import archives_of, free_archive_name
from rigops.concerns.borg.host.archive_retention import lost_archives, plan_pruning
from rigops.concerns.borg.host.borg_meanings import NOT_TRIED, BorgError
from rigops.concerns.borg.host.borg_run_lock import only_borg_run
from rigops.concerns.borg.host.borg_settings import demand_borg_settings
from rigops.concerns.borg.host.borg_sources import frozen_sources
from rigops.concerns.borg.host.borg_state import known_repository, read_borg_state, write_borg_state
from rigops.concerns.borg.host.checkpoint_excludes import checkpoint_excludes
from rigops.concerns.borg.host.identity import (
    collect_identity,
    identity_excludes,
    identity_paths,
)
from rigops.concerns.borg.host.repository import (
    Listing,
    RepositoryError,
    check_signatures,
    explain_refusal,
    is_for_later,
    list_repository,
    open_borg,
    repository_state,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from datetime import datetime

    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.borg_documents import CreatedArchive, NamedArchive
    from rigops.concerns.borg.host.borg_process import Borg
    from rigops.concerns.borg.host.borg_settings import BorgSettings

_COMPACT_EVERY = timedelta(days=7)  # and after every prune
_MOST_WARNINGS = 20


def add_borg_run(commands: Any) -> None:
    parser = commands.add_parser("run", help="what the timer does")
    parser.set_defaults(
        carry_out=back_up,
        by_timer=True,
        dry_run=False,
        moved=False,
        accept_lost=False,
        prune_most=False,
    )


def add_borg_backup(commands: Any) -> None:
    parser = commands.add_parser("backup", help="back up now, prune, compact, check what is due")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument(
        "--moved", action="store_true", help="accept another place of it or of a path"
    )
    parser.add_argument("--accept-lost", action="store_true", help="accept that archives are gone")
    parser.add_argument(
        "--prune-most", action="store_true", help="remove more than half of the archives at once"
    )
    parser.set_defaults(carry_out=back_up, by_timer=False)


def back_up(options: argparse.Namespace, output: Output) -> int:
    settings = demand_borg_settings()
    borg = open_borg(settings, options)
    if options.dry_run:
        return _plan(borg, output, options)
    try:
        with only_borg_run():
            run = BorgRun(
                borg,
                output,
                accepts_lost=options.accept_lost,
                prunes_most=options.prune_most,
                accepts_moved=options.moved,
            )
            return run.carry_out(by_timer=options.by_timer)
    except BusyError as error:
        if not options.by_timer:
            raise
        output.notice(f"{error.message}; what is due is for the next run")
        return 0


def _plan(borg: Borg, output: Output, options: argparse.Namespace) -> int:
    settings = borg.settings
    listing = list_repository(borg)
    now = utc_now()
    occasion = present_occasion(settings, now, accepts_moved=options.moved)
    occasion = occasion._replace(has_consent=options.prune_most)
    name = free_archive_name(settings.host, now, listing.names, is_partial=bool(occasion.missing))
    output.notice(f"would create {name}")
    going, held = plan_pruning(settings, (*listing.names, name), now, occasion)
    for one in going:
        output.notice(f"would remove {one}")
    if held:
        output.notice(held)
    output.result(
        {
            "created": [{"name": name}],
            "pruned": [{"name": one} for one in going],
            "held": [held] if held else [],
        }
    )
    return 0


def present_occasion(
    settings: BorgSettings, now: datetime, *, accepts_moved: bool = False
) -> Occasion:
    """As far as it is known without a run."""
    clock = judge_clock(read_runs(read_borg_state()), now, find_unsynchronized())
    missing = tuple(
        path
        for path in settings.paths
        if not os.path.lexists(path) or (is_elsewhere(path) and not accepts_moved)
    )
    return Occasion(missing, clock.doubt)


class BorgRun:
    def __init__(
        self,
        borg: Borg,
        output: Output,
        *,
        accepts_lost: bool,
        prunes_most: bool,
        accepts_moved: bool,
    ) -> None:
        self._borg = borg
        self._settings = borg.settings
        self._output = output
        self._accepts_lost = accepts_lost
        self._prunes_most = prunes_most
        self._accepts_moved = accepts_moved
        self._now = utc_now()
        self._state = read_borg_state()
        self._clock = judge_clock(read_runs(self._state), self._now, find_unsynchronized())
        self._missing: tuple[str, ...] = ()
        self._held: list[str] = []
        self._known = known_repository(borg.repository)
        self._listing: Listing | None = None
        self._error: HostError | None = None
        self._created: list[CreatedArchive] = []
        self._pruned: list[NamedArchive] = []
        self._warnings: list[str] = []
        self._lost: list[str] = []

    def carry_out(self, *, by_timer: bool) -> int:
        """The results so far are recorded, however far it gets."""
        is_put_off = False
        try:
            self._work()
        except HostError as error:
            explained = (
                explain_refusal(self._borg, error) if isinstance(error, BorgError) else error
            )
            is_put_off = by_timer and self._error is None and is_for_later(self._borg, explained)
            if is_put_off:
                self._output.notice(f"{explained.message}; the next run tries again")
            else:
                self._output.error(explained)
            self._error = self._error or explained
        self._note()
        self._output.result(
            {
                "created": self._created,
                "pruned": self._pruned,
                "warnings": self._warnings,
                "held": self._held,
                "repository": self._borg.repository,
            }
        )
        return int(self._error is not None and not is_put_off)

    def _work(self) -> None:
        self._listing = list_repository(self._borg)
        self._judge_clock()
        self._lost = self._find_lost()
        self._create()
        self._listing = list_repository(self._borg)
        if self._lost:
            raise _lost_error(self._borg.repository, self._lost)
        self._prune()
        self._check()

    def _judge_clock(self) -> None:
        """Without a state the newest archive is what is known."""
        if read_runs(self._state).newest is None:
            times = [one.at for one in archives_of(self._settings.host, self._names())]
            runs = runs_of_copies(times, self._now)
            self._clock = judge_clock(runs, self._now, find_unsynchronized())

    def _find_lost(self) -> list[str]:
        if self._accepts_lost or self._listing is None:
            return []
        seen = self._known.get("seen_archives") or []
        return lost_archives(self._settings, seen, self._listing.names, self._clock.now)

    def _create(self) -> None:
        settings = self._settings
        extra = identity_paths(settings)
        if extra:
            collect_identity()
        frozen = frozen_sources(
            settings.paths, settings.folder, self._output, accepts_moved=self._accepts_moved
        )
        with frozen as present:
            self._missing = tuple(path for path in settings.paths if path not in present)
            if self._missing:
                missing = ", ".join(self._missing)
                self._error = HostError(f"{missing}: missing, and not backed up", "mount it")
            if not present:
                return
            try:
                found = self._create_once([*present, *extra])
            except BorgError as error:
                if not error.is_full or self._lost or not self._make_room():
                    raise
                found = self._create_once([*present, *extra])
        self._created.append(found)
        note_places(present)
        added = found["added_bytes"] / (1 << 20)
        self._output.notice(f"{found['name']}: {added:.1f} MiB new in {found['seconds']:.1f} s")

    def _create_once(self, paths: list[str]) -> CreatedArchive:
        return create_archive(self._borg, paths, self._names(), self._output, self._warnings)

    def _make_room(self) -> bool:
        self._output.notice(f"{self._borg.repository} is full: pruning first")
        before = len(self._pruned)
        self._prune()
        return len(self._pruned) > before

    def _names(self) -> tuple[str, ...]:
        return self._listing.names if self._listing else ()

    def _prune(self) -> None:
        pruned = archives_of(self._settings.host, (one["name"] for one in self._pruned))
        occasion = Occasion(
            self._missing,
            self._clock.doubt,
            self._prunes_most,
            removed=sum(one.is_complete for one in pruned),
        )
        going, held = plan_pruning(self._settings, self._names(), self._now, occasion)
        self._held = [held] if held else []
        if held:
            self._output.notice(held)
        if going:
            self._borg.ask("delete", self._borg.repository, *going)
            for name in going:
                self._output.notice(f"removed {name}")
                self._pruned.append({"name": name})
            self._listing = list_repository(self._borg)
            self._state["last_compact_at"] = None
            self._note()  # a compact takes long: killed in it, the next run knows what went
        if self._is_due(self._state.get("last_compact_at"), _COMPACT_EVERY):
            self._borg.ask("compact", self._borg.repository)
            self._state["last_compact_at"] = utc_text(self._now)

    def _is_due(self, last: object, every: timedelta) -> bool:
        """A time from the future counts for nothing: the clock went back."""
        at = read_utc(last)
        return at is None or is_future(at, self._now) or self._now - at >= every

    def _check(self) -> None:
        last = self._state.get("last_check", {}).get("at")
        if not self._is_due(last, timedelta(days=self._settings.check_every_days)):
            return
        check_signatures(self._borg, self._known)
        self._output.notice(f"checking {self._borg.repository}")
        try:
            self._borg.ask("check", self._borg.repository, is_strict=True)
        except BorgError as error:
            if error.state not in NOT_TRIED:
                self._state["last_check"] = {"at": utc_text(self._now), "result": "failed"}
            raise
        self._state["last_check"] = {"at": utc_text(self._now), "result": "ok"}

    def _note(self) -> None:
        found = repository_state(self._borg, self._known, self._listing, self._error)
        names = self._listing.names if self._listing else self._known.get("seen_archives") or ()
        mine = archives_of(self._settings.host, names)
        if self._listing:
            seen = [one.name for one in mine if one.is_complete]
            if not self._accepts_lost:
                seen += self._still_lost()
            found["archives"], found["seen_archives"] = len(mine), sorted(seen)
        if self._created:
            found["last_borg"] = str(self._borg.version)
        made = {one["name"] for one in self._created}  # after this run began
        whole = [
            one.at for one in mine if one.is_whole and (one.at <= self._now or one.name in made)
        ]
        self._state["repository"] = found
        self._state["clock"] = describe_runs(self._clock.runs)
        self._state["held"] = self._held
        if whole:
            self._state["newest_at"] = utc_text(max(whole))
        write_borg_state(self._state)

    def _still_lost(self) -> list[str]:
        """Reported at every run, until it is accepted."""
        pruned = {one["name"] for one in self._pruned}
        return [name for name in self._find_lost() if name not in pruned]


def create_archive(
    borg: Borg, paths: list[str], names: Sequence[str], output: Output, warnings: list[str]
) -> CreatedArchive:
    settings = borg.settings
    is_partial = not set(settings.paths) <= set(paths)
    name = free_archive_name(settings.host, utc_now(), names, is_partial=is_partial)
    excludes = [*settings.exclude, *identity_excludes(settings)]
    words = ["create", "--json", "--one-file-system", "--exclude-caches"]
    words += [word for one in excludes for word in ("--exclude", one)]
    left_out, more = checkpoint_excludes(settings, output)
    words += more

    def tell(found: dict[str, Any]) -> None:
        output.progress(f"backing up {settings.host}", int(found.get("original_size", 0)), None, 0)

    answer = borg.ask(*words, f"{borg.repository}::{name}", *paths, on_progress=tell)
    warnings += answer.warnings[:_MOST_WARNINGS]
    for one in answer.warnings[:_MOST_WARNINGS]:
        output.notice(f"warning: {one}")
    found = answer.document().get("archive") or {}
    stats = found.get("stats") or {}
    return {
        "name": name,
        "paths": paths,
        "files": int(stats.get("nfiles", 0)),
        "bytes": int(stats.get("original_size", 0)),
        "added_bytes": int(stats.get("deduplicated_size", 0)),
        "seconds": float(found.get("duration", 0.0)),
        "checkpoints_left_out": left_out,
    }


def _lost_error(repository: str, lost: list[str]) -> RepositoryError:
    return RepositoryError(
        f"{repository}: {len(lost)} archives are gone that retention keeps ({', '.join(lost)}); "
        "nothing is pruned or compacted until this is clear",
        "find out who removed them: before a compact, an append-only repository can be brought "
        "back; if it was you, run `rigops backup HOST --accept-lost`",
        "failed",
    )
