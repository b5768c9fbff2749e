"""Whether the declared btrfs snapshots are taken, are sent, and have all that is in them."""

from __future__ import annotations

from typing import Final

from rigops import json_fields
from rigops.concerns.snapshots import record
from rigops.concerns.snapshots.decide import (
    UNIT,
    nested_text,
    on_no_btrfs,
    read_back,
)
from rigops.concerns.snapshots.state import AGE, TARGET, UNPRUNED, judge_snapshots
from rigops.concerns.state import State
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views import copies
from rigops.probe.mounts import mount_over
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.storage import SECTION as STORAGE

_NEEDS: Final = (RIGOPS_STATE, BOOT)
_KEYS: Final = frozenset({"snapshots"})
_CONNECT: Final = fix_by_hand(
    "connect the disk, or see that the server answers; then `sudo systemctl start "
    f"{UNIT}`; `journalctl -u {UNIT}` says more"
)


@once
def _judged(examined: Examined) -> Finding | list[State]:
    declared = examined.spec.snapshots
    if declared is None or not declared.subvolumes:
        return Finding("skipped", "snapshots are not declared")
    settings = read_back("", declared)
    return copies.judged(
        examined, UNIT, record.PATH, lambda text, at: judge_snapshots(settings, text, at)
    )


@Check(
    "snap.age",
    needs=(*_NEEDS, STORAGE),
    needs_gpu=False,
    fixes=("apply", "hands"),
    keys=_KEYS,
)
def age(examined: Examined) -> Finding | list[Finding]:
    """Each declared subvolume has a snapshot that is new enough.

    Reads what the last run on the host wrote down. It fails where the newest snapshot is older than
    twice the finest age of `keep` (two hours with `24h 7d`), where the last run could not take one,
    and where the timer does not run. After a boot there are two hours to catch up. Before the first
    run it is information; a snapshot that is dated in the future is a warning. It is unknown
    without the host's clock. Before the first run a path that is on no btrfs is a warning: apply
    refuses it, or its disk is not mounted.
    """
    found = _judged(examined)
    is_before_a_run = isinstance(found, Finding) and found.status in {"warn", "info"}
    if is_before_a_run and (unfit := _on_no_btrfs(examined)):
        return unfit
    stopped = copies.stopped_timer(examined, UNIT, found)
    return stopped or copies.findings(found, AGE, copies.journal(UNIT))


def _on_no_btrfs(examined: Examined) -> list[Finding]:
    declared, mounts = examined.spec.snapshots, examined.snapshot[STORAGE].or_empty.mounts or ()
    found = []
    for path in declared.subvolumes if declared else ():
        mount = mount_over(path, mounts)
        if mount and mount.type not in {"btrfs", "autofs"}:
            what, text = on_no_btrfs(path, mount.type, mount.target)
            summary, fix = what.removeprefix(f"{path} "), fix_by_hand(text)
            evidence = (Evidence(STORAGE.name, mount.line),)
            found.append(Finding("warn", summary, evidence, subject=path, fix=fix))
    return found


@Check("snap.target", needs=_NEEDS, needs_gpu=False, fixes=("apply", "hands"), keys=_KEYS)
def target(examined: Examined) -> Finding | list[Finding]:
    """The other disk or the server that snapshots are sent to was there lately.

    Reads what the last run on the host wrote down. An absent disk is normal; it is a warning after
    7 days and fails after 30. One that lacks a declared subvolume is a warning. A run that could
    not send fails with the reason. It is skipped without `send_to`, and unknown without the host's
    clock.
    """
    found = copies.findings(_judged(examined), TARGET, _CONNECT)
    return found or Finding("skipped", "send_to is not declared: snapshots stay on the same disk")


@Check("snap.nested", needs=_NEEDS, needs_gpu=False, fixes=("apply", "hands"), keys=_KEYS)
def nested(examined: Examined) -> Finding | list[Finding]:
    """No declared subvolume has others inside, which its snapshots would lack.

    A snapshot ends where another subvolume begins: subvolumes of docker's btrfs driver, of
    systemd-nspawn machines and those made by hand are empty folders in it. They are named as
    information, but for those that are declared themselves.
    """
    judged, declared = _judged(examined), examined.spec.snapshots
    if isinstance(judged, Finding):
        return copies.beside(judged)
    text = examined.snapshot[RIGOPS_STATE].or_empty.records.get(record.PATH)
    state = json_fields.readable(record.parse, text)
    if state is None or declared is None:
        return Finding("unknown", f"{record.PATH} cannot be read")
    found = []
    for path in declared.subvolumes:
        inside = [
            one
            for one in state.nested.get(path, ())
            if f"{path.rstrip('/')}/{one}" not in declared.subvolumes
        ]
        if inside:
            evidence = (Evidence(RIGOPS_STATE.name, inside[0]),)
            found.append(Finding("info", nested_text(path, inside), evidence, subject=path))
    return found or Finding("ok", "no subvolume is missing from the snapshots of another")


@Check("snap.held", needs=_NEEDS, needs_gpu=False, fixes=("apply", "hands"), keys=_KEYS)
def held(examined: Examined) -> Finding | list[Finding]:
    """The last run removed all snapshots that `keep` no longer keeps.

    A run removes nothing while a declared path is missing or the clock is in doubt, and never more
    than half of the copies without consent. Copies that it left are a warning, with the reason.
    """
    return copies.findings(_judged(examined), UNPRUNED, copies.FREE)
