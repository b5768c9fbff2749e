"""Whether the declared btrfs snapshots are taken, are sent, and have all that is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.backup.pruning import CLOCK_STEP
from rigops.backup.retention import keep_text, longest_pause, parse_rule
from rigops.concerns.snapshots import record
from rigops.concerns.snapshots.decide import UNIT, nested_text
from rigops.concerns.snapshots.record import SnapshotsState
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import copies
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.concerns.snapshots.record import TargetState
    from rigops.doctor.finding import Status
    from rigops.inventory.spec.model import Snapshots

_TIMER: Final = f"{UNIT}.timer"
_AFTER_BOOT_S: Final = 2 * copies.HOUR_S  # within which a missed run is caught up
_ABSENT_WARN_DAYS: Final = 7
_ABSENT_FAIL_DAYS: Final = 30
_KEYS: Final = frozenset({"snapshots"})
_JOURNAL: Final = f"journalctl -u {UNIT}"
_APPLY: Final = Fix(kind="hands", text="`rigops apply` installs and starts it")

_Judge = Callable[[Examined, "Snapshots", SnapshotsState], "Finding | list[Finding]"]


def _of_the_record(judge: _Judge) -> Callable[[Examined], Finding | list[Finding]]:
    """Called where snapshots are declared and the record of the last run can be read."""

    @wraps(judge)
    def judged(examined: Examined) -> Finding | list[Finding]:
        declared = examined.spec.snapshots
        if declared is None or not declared.subvolumes:
            return Finding("skipped", "snapshots are not declared")
        answer = examined.snapshot[RIGOPS_STATE]
        if answer.value is None or not (answer.is_complete and answer.value.are_files_known):
            return Finding("unknown", "the records of rigops were not collected whole")
        timer = answer.value.units.get(_TIMER)
        text = answer.value.records.get(record.PATH)
        if text is None and timer is None:
            return Finding("warn", "snapshots are declared, and nothing takes them yet", fix=_APPLY)
        if text is None:
            return Finding("info", "no snapshot was due yet: the timer has not run")
        state = json_fields.readable(record.parse, text)
        if state is None:
            return Finding("unknown", f"{record.PATH} cannot be read")
        return judge(examined, declared, state)

    return judged


@Check(
    "snap.age",
    needs=(RIGOPS_STATE, BOOT),
    needs_gpu=False,
    fixes=("hands",),
    keys=_KEYS,
)
@_of_the_record
def age(examined: Examined, declared: Snapshots, state: SnapshotsState) -> list[Finding]:
    """Each declared subvolume has a snapshot that is new enough.

    Reads what the last run on the host wrote down. It fails where the newest snapshot is older than
    twice the finest age of `keep` (two hours with `24h 7d`), where the last run could not take one,
    and where the timer does not run. After a boot there are two hours to catch up. It is unknown
    without the host's clock.
    """
    answer = examined.snapshot[RIGOPS_STATE].value
    timer = answer.units.get(_TIMER) if answer else None
    if timer is None or timer.active != "active":
        what = "is not installed" if timer is None else f"is {timer.active or 'unknown'}"
        return [Finding("fail", f"the timer {what}", subject=_TIMER, fix=_APPLY)]
    return [_age(examined, declared, state, path) for path in declared.subvolumes]


def _age(examined: Examined, declared: Snapshots, state: SnapshotsState, path: str) -> Finding:
    found = state.subvolumes.get(path)
    if found is None:
        return Finding("warn", "no run has looked at it yet", subject=path, fix=_see_journal())
    if found.error:
        return Finding(
            "fail",
            f"the last run, at {state.at}, failed: {found.error}",
            (Evidence(RIGOPS_STATE.name, found.error),),
            subject=path,
            fix=_see_journal(),
        )
    if found.newest_at is None:
        return Finding("fail", "there is no snapshot", subject=path, fix=_see_journal())
    evidence = (Evidence(RIGOPS_STATE.name, found.newest_at),)
    age_s = copies.age_s(examined, found.newest_at)
    if age_s is None:
        summary = f"newest snapshot {found.newest_at}; the host's clock was not collected"
        return Finding("unknown", summary, evidence, subject=path)
    boot = examined.snapshot[BOOT].or_empty
    has_had_time = boot.uptime_s is None or boot.uptime_s > _AFTER_BOOT_S
    summary = f"the newest snapshot is {copies.span(age_s)} old"
    if age_s < -CLOCK_STEP.total_seconds():
        summary = f"newest snapshot is dated in the future ({found.newest_at}): a clock is wrong"
    elif age_s <= 2 * _longest_pause_s(declared) or not has_had_time:
        return Finding("ok", summary, evidence, subject=path)
    status: Status = "warn" if age_s < 0 else "fail"
    return Finding(status, summary, evidence, subject=path, fix=_see_journal())


@Check(
    "snap.target",
    needs=(RIGOPS_STATE, BOOT),
    needs_gpu=False,
    fixes=("hands",),
    keys=_KEYS,
)
@_of_the_record
def target(examined: Examined, declared: Snapshots, state: SnapshotsState) -> Finding:
    """The other disk or the server that snapshots are sent to was there lately.

    Reads what the last run on the host wrote down. A disk that is absent is normal; it is a warning
    after 7 days and fails after 30. A run that could not send fails with the reason. It is skipped
    without `send_to`, and unknown without the host's clock.
    """
    if declared.send_to is None:
        return Finding("skipped", "send_to is not declared: snapshots stay on the same disk")
    found = state.target
    if found is None or found.name != declared.send_to:
        return Finding("info", f"nothing was sent to {declared.send_to} yet: no run since then")
    evidence = (Evidence(RIGOPS_STATE.name, found.seen_at or found.name),)
    if found.state == "failed":
        summary = f"{found.name}: sending failed at {state.at}: {found.error or 'no reason given'}"
        return Finding("fail", summary, evidence, fix=_see_journal())
    if found.state == "present":
        newest = min(found.newest_at.values(), default="")
        if not newest:
            return Finding("warn", f"{found.name} has no snapshot yet", evidence)
        return Finding("ok", f"{found.name} has snapshots up to {newest}", evidence)
    return _absent(examined, found, evidence)


def _absent(examined: Examined, found: TargetState, evidence: tuple[Evidence, ...]) -> Finding:
    what = f"{found.name} is {found.state}"
    why = f" ({found.error})" if found.error else ""
    fix = Fix(kind="hands", text="connect the disk, or see that the server answers; then "
              f"`sudo systemctl start {UNIT}`")  # fmt: skip
    if found.seen_at is None:
        return Finding("warn", f"{what}, and was never there{why}", evidence, fix=fix)
    age_s = copies.age_s(examined, found.seen_at)
    if age_s is None:
        summary = f"{what}; the host's clock was not collected"
        return Finding("unknown", summary, evidence)
    days = age_s / copies.DAY_S
    summary = f"{what} for {copies.span(age_s)}{why}"
    if days > _ABSENT_FAIL_DAYS:
        return Finding("fail", summary, evidence, fix=fix)
    if days > _ABSENT_WARN_DAYS:
        return Finding("warn", summary, evidence, fix=fix)
    return Finding("ok", f"{summary}, which is normal up to {_ABSENT_WARN_DAYS} days", evidence)


@Check("snap.nested", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("hands",), keys=_KEYS)
@_of_the_record
def nested(_: Examined, declared: Snapshots, state: SnapshotsState) -> list[Finding]:
    """No declared subvolume has others inside, which its snapshots would lack.

    A snapshot ends where another subvolume begins: docker's btrfs driver, systemd-nspawn machines
    and what somebody made by hand are empty folders in it. They are named as information. Those
    that are declared themselves are left out.
    """
    found = list(_nested(declared, state))
    return found or [Finding("ok", "no subvolume is missing from the snapshots of another")]


def _nested(declared: Snapshots, state: SnapshotsState) -> Iterator[Finding]:
    for path in declared.subvolumes:
        inside = [
            one
            for one in state.nested.get(path, ())
            if f"{path.rstrip('/')}/{one}" not in declared.subvolumes
        ]
        if inside:
            evidence = tuple(Evidence(RIGOPS_STATE.name, one) for one in inside[:1])
            yield Finding("info", nested_text(path, inside), evidence, subject=path)


@Check("snap.held", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("hands",), keys=_KEYS)
@_of_the_record
def held(_: Examined, __: Snapshots, state: SnapshotsState) -> Finding:
    """The last run removed all snapshots that `keep` no longer keeps.

    A run removes nothing while a declared path is missing or the clock is in doubt, and never more
    than half of the copies without consent. What it left is a warning, with the reason.
    """
    return copies.held_back("snapshot", state.held)


def _longest_pause_s(declared: Snapshots) -> float:
    keep = keep_text(declared.keep)
    return longest_pause(parse_rule(keep) if keep else None).total_seconds()


def _see_journal() -> Fix:
    return Fix(kind="hands", text=f"see `{_JOURNAL}`, then `sudo systemctl start {UNIT}`")
