"""Which capture a reprovision starts from: the newest of the system before the reinstall.

The new system may have been captured already, which is not the one to restore.
"""

from __future__ import annotations

from collections.abc import Sequence

from rigops.capture.document import Capture


def choose(captures: Sequence[Capture], *, shown_key: str, machine_id: str = "") -> Capture:
    """`captures`: at least one, the newest first. The newest of all where none is older.

    The machine id decides, since a reprovision brings the old host keys back. The keys do where it
    is not known yet, and where an image has the same id for every installation.
    """
    before = [one for one in captures if not _is_of(one, machine_id, shown_key)]
    before = before or [one for one in captures if shown_key not in fingerprints(one)]
    return next(iter(before or captures))


def trusted_keys(captures: Sequence[Capture]) -> list[str]:
    """Of the newest capture, and of the system before that one."""
    newest = captures[0]
    other = next(
        (one for one in captures if one.system.machine_id != newest.system.machine_id), newest
    )
    return list(dict.fromkeys((*fingerprints(newest), *fingerprints(other))))


def explain(chosen: Capture, captures: Sequence[Capture], machine_id: str) -> str:
    """Which one it is, when it was taken, and which newer ones it is not."""
    text = f"compared with the capture of {chosen.at}, {chosen.place}"
    newer = ", ".join(one.at for one in captures[: captures.index(chosen)])
    if newer:
        return f"{text}; taken after the reinstall, and left alone: {newer}"
    if machine_id and chosen.system.machine_id == machine_id:
        return f"{text}; it is of the very system that runs now"
    return text


def fingerprints(capture: Capture) -> list[str]:
    return [one.fingerprint for one in capture.host_keys]


def _is_of(capture: Capture, machine_id: str, shown_key: str) -> bool:
    """Whether it was taken of the system that runs now."""
    known = capture.system.machine_id
    if machine_id and known:
        return machine_id == known
    return shown_key in fingerprints(capture)
