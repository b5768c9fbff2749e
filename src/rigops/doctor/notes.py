"""Limits of the collection itself: rights, time, the login shell, odd output, a paste."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rigops.doctor.pasted import NOT_DECIDED
from rigops.probe.bundle import MOST_LINES, Bundle, Paste
from rigops.probe.registry import PASTED, SECTIONS

if TYPE_CHECKING:
    from rigops.doctor.check import Check
    from rigops.doctor.finding import Finding
    from rigops.probe.snapshot import HostSnapshot

_LOG: Final = "kernel-log"
_OF_DRIVER: Final = "sudo dmesg | grep -i -e NVRM -e nvidia"
_NO_CARD: Final = ("gpu.count", "gpu.init", "gpu.lost", "drv.loaded", "drv.gsp")
# By finding, or by its group: the sections that say more of it, the best first.
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_NO_CARD, (_LOG, "lspci")),
    "xid": ("lspci", "nvidia-smi-xml"),
    "pci": ("lspci", _LOG),
    "bar1": (_LOG, "lspci"),
    "iommu": ("proc-cmdline", "lspci", "nvidia-smi-topo"),
    "bench": ("nvidia-smi-topo", "lspci", _LOG),
    "nccl": ("nvidia-smi-topo", "nvidia-smi-p2p-read", _LOG),
    "p2p": ("nvidia-smi-topo", "lspci"),
    "cuda": ("nvidia-smi-xml", _LOG),
    "container": ("nvidia-smi-xml", _LOG),
    "pkg": ("dkms", "packages"),
    "drv": ("dkms", "packages", _LOG),
    **dict.fromkeys(("ram", "cpu", "disk", "host", "clk", "pwr", "tmp"), (_LOG,)),
}
_SLOW_LOGIN_S: Final = 1.0
_SHOWN: Final = 60
_KNOWN_ALONE: Final = "no output is recognized: known lines alone are judged"
_MOST_PIECES: Final = 4  # of one output


def of_bundle(bundle: Bundle) -> list[str]:
    return [*_without_root(bundle), *_out_of_time(bundle)]


def of_paste(paste: Paste) -> list[str]:
    outputs = ", ".join(f"{name} ({_pieces(places)})" for name, places in paste.recognized.items())
    others = "1 other line is" if paste.others == 1 else f"{paste.others} other lines are"
    rest = f"; {others} judged only if known" if paste.others else ""
    found = [f"recognized: {outputs}{rest}" if outputs else _KNOWN_ALONE]
    if paste.left_out:
        kept = f"of each file the last {MOST_LINES} are read"
        found.append(f"left out: {paste.left_out} lines at the beginning; {kept}")
    if len(paste.hosts) > 1:
        found.append(
            f"prompts of several hosts ({', '.join(paste.hosts)}), judged as one machine; "
            "give doctor each file for itself"
        )
    return found


def _pieces(places: Sequence[str]) -> str:
    left = len(places) - _MOST_PIECES
    first, *others = places if left <= 1 else (*places[:_MOST_PIECES], f"and {left} more pieces")
    return ", ".join((first, *(one.removeprefix("line ") for one in others)))


def command_for_more(
    collected: Collection[str], findings: Sequence[Finding], checks: Iterable[Check]
) -> str:
    """The one whose output would decide more than the sections that a paste has; or empty.

    That for the worst finding; where nothing is wrong, that for most of what was not judged.
    """
    from rigops.probe.pastes.kinds import COMMANDS  # noqa: PLC0415 - for pastes only

    worst = next((one.id for one in findings if one.status in {"fail", "warn"}), "")
    asked = _ASKED.get(worst, _ASKED.get(worst.partition(".")[0], ()))
    if found := next((one for one in asked if one not in collected), None):
        return _OF_DRIVER if found == _LOG and worst in _NO_CARD else COMMANDS[found]
    sections = {check.id: check.sections for check in checks}
    decided: Counter[str] = Counter()
    for finding in findings:
        if finding.summary == NOT_DECIDED:
            lacking = {one.name for one in sections.get(finding.id, ())} - set(collected)
            decided.update(dict.fromkeys(lacking & set(COMMANDS), 1 + 2 * finding.essential))
    return COMMANDS[max(COMMANDS, key=lambda name: decided[name])] if decided else ""


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
