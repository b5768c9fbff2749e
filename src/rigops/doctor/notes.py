"""Limits of the collection itself: rights, time, the login shell, odd output, a paste."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from rigops.probe.bundle import MOST_LINES
from rigops.probe.registry import PASTED, SECTIONS

if TYPE_CHECKING:
    from rigops.doctor.check import Check
    from rigops.doctor.finding import Finding
    from rigops.probe.bundle import Bundle, Paste
    from rigops.probe.snapshot import HostSnapshot

_SLOW_LOGIN_S: Final = 1.0
_SHOWN: Final = 60


def of_bundle(bundle: Bundle) -> list[str]:
    return [*_without_root(bundle), *_out_of_time(bundle)]


def of_paste(
    paste: Paste, collected: Collection[str], findings: Iterable[Finding], checks: Iterable[Check]
) -> list[str]:
    """`collected` are the sections that the paste held."""
    from rigops.probe.pastes.kinds import COMMANDS  # noqa: PLC0415 - for pastes only

    found = [f"recognized: {', '.join(paste.recognized)}"]
    if paste.left_out:
        kept = f"of each file the last {MOST_LINES} are read"
        found.append(f"left out: {paste.left_out} lines at the beginning; {kept}")
    if others := paste.others:
        lines = f"{len(others)} lines, the first is" if len(others) > 1 else "one line,"
        found.append(f"not recognized: {lines} {others[0]}")
    if len(paste.hosts) > 1:
        found.append(
            f"prompts of several hosts ({', '.join(paste.hosts)}), judged as one machine; "
            "give doctor each file for itself"
        )
    sections = {check.id: check.sections for check in checks}
    decided: Counter[str] = Counter()
    for finding in findings:
        if finding.status == "unknown":
            asked = {one.name for one in sections.get(finding.id, ())} - set(collected)
            decided.update(dict.fromkeys(asked & set(COMMANDS), 1 + 2 * finding.essential))
    if decided:
        section = max(COMMANDS, key=lambda name: decided[name])  # of equals the first
        found.append(
            f"a paste is all there is to judge by; more is decided by: {COMMANDS[section]}"
        )
    return found


def of_login(noise: str, seconds: float) -> list[str]:
    """A non-interactive login shell should print nothing and be quick."""
    found = []
    if seconds > _SLOW_LOGIN_S:
        found.append(
            f"the login shell took {seconds:.1f} s before the first command: something in .bashrc "
            "or .profile does work for every command (conda init, pyenv, nvm); put it behind "
            "`case $- in *i*) … ;; esac`"
        )
    words = " ".join(noise.split())
    if words:
        shown = words if len(words) <= _SHOWN else words[:_SHOWN] + "…"
        found.append(
            f"the login shell prints text before every command ({shown!r}): rigops reads past it, "
            "scp, rsync and borg do not; print only in interactive shells"
        )
    return found


def unparsed(snapshot: HostSnapshot) -> dict[str, int]:
    """How many pieces of each section no parser understood."""
    answers = [snapshot[section] for section in (*SECTIONS, *PASTED)]
    return {
        one.section.name: len(one.unparsed) for one in answers if one.is_complete and one.unparsed
    }


def _without_root(bundle: Bundle) -> list[str]:
    wanting = {section.name for section in SECTIONS if section.wants_root}
    # A bundle that was put together by hand does not record its user.
    by_probe = any(one.ms is not None for one in bundle.sections.values())
    less = [name for name, one in bundle.sections.items() if name in wanting and not one.root]
    if bundle.root or not less or not by_probe:
        return []
    names = ", ".join(less)
    fix = "log in as root, allow sudo without a password, or give --ask-sudo-password"
    return [f"without root: {names} may be incomplete; fix: {fix}"]


def _out_of_time(bundle: Bundle) -> list[str]:
    limits = {section.name: section.timeout_s for section in SECTIONS}
    return [
        f"{name} did not answer within {limits.get(name, '?')} s"
        for name, one in bundle.sections.items()
        if one.timed_out
    ]
