"""A host after its reinstall against its capture, line by line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeVar

from rigops.capture.document import Capture, Disk, Gpu, Interface, Limits, P2p, User
from rigops.dataclass import dataclass
from rigops.probe.sections.own_modules import ARGUMENT as OWN_MODULES
from rigops.record.proven import no_access
from rigops.record.trial_boot import MARK

Verdict = Literal["same", "better", "worse", "other"]
T = TypeVar("T")

ABSENT: Final = "absent"
UNKNOWN: Final = "unknown"

# Those of preflight, by how much they leave of P2P.
_LEVELS: Final = ("ok", "not_granted", "skipped", "one_way", "slower_than_staged", "unknown")
_OWN_ARGUMENTS: Final = ("BOOT_IMAGE=", "root=", "rootflags=", "initrd=", "resume=")
_PHYSICAL: Final = frozenset({"wired", "wifi"})
_FIRST_UID: Final = 1000
_LAST_UID: Final = 59_999
_MOST_NAMES: Final = 6
_NOT_DECLARED: Final = "no driver is declared, so none was installed: declare it, and apply"
_ACCEPTED: Final = "not declared, accepted: none was installed"
_NOT_LOADED: Final = "declared, and not loaded: see rigops doctor"


@dataclass(frozen=True)
class Compared:
    """`note`: what it means, or what to do."""

    subject: str
    verdict: Verdict
    before: str
    after: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.subject}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class ReplacedGpu:
    """Another card in the place of the captured one."""

    address: str
    before: str  # UUIDs
    after: str


def compare(before: Capture, after: Capture, *, adopts_parts: bool) -> tuple[Compared, ...]:
    """Facts that were not collected before are not compared."""
    return (
        *_system(before, after),
        *_arguments(before, after),
        *_driver(before, after),
        *_gpus(before, after, adopts_parts=adopts_parts),
        *_p2p(before, after),
        *_limits(before, after),
        *_borg(before, after),
        *_disks(before, after),
        *_mounts(before, after),
        *_network(before, after),
        *_users(before, after),
        *_packages(before, after),
        *_host_keys(before, after),
    )


def overall(found: Iterable[Compared]) -> Verdict:
    """Other counts as the same: it is another machine in parts, and no worse one."""
    verdicts = {one.verdict for one in found}
    return "worse" if "worse" in verdicts else "better" if "better" in verdicts else "same"


def replaced_gpus(before: Capture, after: Capture) -> tuple[ReplacedGpu, ...]:
    now = {one.address: one for one in after.gpus}
    there = {one.uuid for one in after.gpus}
    known = {one.uuid for one in before.gpus}
    return tuple(
        ReplacedGpu(one.address, one.uuid, new.uuid)
        for one in before.gpus
        if one.uuid
        and one.uuid not in there
        and (new := now.get(one.address)) is not None
        and new.uuid
        and new.uuid not in known
    )


def _same_or(
    subject: str, before: object, after: object, verdict: Verdict = "other", note: str = ""
) -> Iterator[Compared]:
    if before is None:
        return
    is_same = before == after
    yield Compared(
        subject=subject,
        verdict="same" if is_same else verdict,
        before=_text(before),
        after=_text(after),
        note="" if is_same else note,
    )


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _system(before: Capture, after: Capture) -> Iterator[Compared]:
    old, new = before.system, after.system
    yield from _same_or("system", old.os_name, new.os_name)
    yield from _same_or("kernel", old.kernel, new.kernel)
    yield from _same_or("firmware", old.firmware, new.firmware)
    yield from _same_or("host name", old.hostname, new.hostname)


def _lasting(arguments: Sequence[str]) -> Sequence[str]:
    """Without those of a boot that tried the others: they come last, and only there."""
    return arguments[: arguments.index(MARK)] if MARK in arguments else arguments


def _arguments(before: Capture, after: Capture) -> Iterator[Compared]:
    old, new = (
        [word for word in _lasting(one.system.arguments) if not word.startswith(_OWN_ARGUMENTS)]
        for one in (before, after)
    )
    declared = {*before.declared.kernel_args, OWN_MODULES}
    for word in dict.fromkeys(old):
        is_there = word in new
        missing: Verdict = "worse" if word in declared else "other"
        yield Compared(
            subject=f"kernel argument {word}",
            verdict="same" if is_there else missing,
            before="live",
            after="live" if is_there else ABSENT,
        )
    for word in dict.fromkeys(new):
        if word not in old:
            yield Compared(f"kernel argument {word}", "other", ABSENT, "live")


def _without_driver(before: Capture, after: Capture) -> Verdict:
    """Of what only a driver brings: no worse where the capture accepts that none comes back."""
    accepted = any(one.id == "driver" and one.status == "warn" for one in before.requirements)
    is_missing = after.driver is None and after.declared.driver is None
    return "other" if accepted and is_missing else "worse"


def _driver(before: Capture, after: Capture) -> Iterator[Compared]:
    old, new = before.driver, after.driver
    if old is None:
        return
    if new is None:
        verdict = _without_driver(before, after)
        note = _NOT_LOADED if after.declared.driver is not None else _NOT_DECLARED
        note = note if verdict == "worse" else _ACCEPTED
        yield Compared("driver", verdict, old.version, ABSENT, note=note)
        return
    yield from _same_or("driver", f"{old.version} {old.flavor}", f"{new.version} {new.flavor}")
    if not old.packages:
        return
    digests = {one.name: one.sha256 for one in new.packages}
    same = [one for one in old.packages if digests.get(one.name) == one.sha256]
    absent = [one.name for one in old.packages if one.name not in digests]
    others = [one.name for one in old.packages if one not in same and one.name not in absent]
    notes = [f"not there: {_some(absent)}"] if absent else []
    notes += [f"other content: {_some(others)}"] if others else []
    yield Compared(
        subject="driver packages",
        verdict="worse" if absent else "other" if others else "same",
        before=f"{len(old.packages)}",
        after=f"{len(same)} of them byte for byte",
        note="; ".join(notes),
    )


def _gpus(before: Capture, after: Capture, *, adopts_parts: bool) -> Iterator[Compared]:
    now = {one.uuid: one for one in after.gpus if one.uuid}
    replaced = {one.before: one for one in replaced_gpus(before, after)}
    nameless = _nameless(before, after)
    if nameless:
        is_driven = after.driver is not None
        yield Compared(
            subject=", ".join(f"GPU {one.address}" for one in nameless),
            verdict=_without_driver(before, after),
            before="there",
            after="on the bus, and the driver does not see it"
            if is_driven
            else "on the bus, without a driver",
            note="" if is_driven else "which card it is, only a driver says",
        )
    for old in before.gpus:
        if old.uuid is None or old in nameless:
            continue
        if change := replaced.get(old.uuid):
            by_address = {one.address: one for one in after.gpus}
            yield Compared(
                subject=f"GPU {old.address}",
                verdict="other" if adopts_parts else "worse",
                before=old.uuid,
                after=change.after,
                note="a replaced part" if adopts_parts else "a replaced part: pass --adopt-parts",
            )
            yield from _card(old, by_address[old.address])
        elif (new := now.get(old.uuid)) is None:
            yield Compared(f"GPU {old.address}", "worse", old.uuid, ABSENT, note="not on the bus")
        else:
            yield Compared(
                subject=f"GPU {old.address}",
                verdict="same" if new.address == old.address else "other",
                before=old.uuid,
                after=old.uuid if new.address == old.address else f"now at {new.address}",
                note="" if new.address == old.address else "in another slot",
            )
            yield from _card(old, new)
    known = {one.uuid for one in before.gpus} | {one.after for one in replaced.values()}
    for added in after.gpus:
        if added.uuid and added.uuid not in known:
            yield Compared(f"GPU {added.address}", "better", ABSENT, added.uuid)


def _nameless(before: Capture, after: Capture) -> list[Gpu]:
    """Captured cards in whose place is one that no driver has named."""
    there = {one.uuid for one in after.gpus}
    unnamed = {one.address for one in after.gpus if one.uuid is None}
    return [
        one for one in before.gpus if one.uuid and one.uuid not in there and one.address in unnamed
    ]


def _card(old: Gpu, new: Gpu) -> Iterator[Compared]:
    """A link is as wide as both ends agreed at boot; its speed follows the load."""
    at = f"GPU {new.address}"
    yield from _same_or(f"{at} model", old.name, new.name)
    yield from _more(f"{at} link width", old.link_width, new.link_width, "x{}".format)
    yield from _more(f"{at} link speed", old.max_link_gts, new.max_link_gts, "{:g} GT/s".format)
    if old.power_limit_watts is not None and new.power_limit_watts is not None:
        yield from _same_or(
            f"{at} power limit", f"{old.power_limit_watts:g} W", f"{new.power_limit_watts:g} W"
        )


def _more(
    subject: str, old: float | None, new: float | None, text: Callable[[float], str]
) -> Iterator[Compared]:
    if old is None or new is None:
        return
    verdict: Verdict = "same" if old == new else "better" if new > old else "worse"
    yield Compared(subject, verdict, text(old), text(new))


def _p2p(before: Capture, after: Capture) -> Iterator[Compared]:
    old, new = before.p2p, after.p2p
    if old is None:
        return
    if new is None:
        proven = _no_access(old) or old.level
        yield Compared("P2P", _without_driver(before, after), proven, "not proven")
        return
    if not _no_access(old) and not _no_access(new):
        yield from _more_level(old.level, new.level)
    moved = _moved(before, after)
    found = {(one.source, one.target): one.verdict for one in new.pairs}
    same = 0
    for pair in old.pairs:
        at = (moved.get(pair.source, pair.source), moved.get(pair.target, pair.target))
        verdict = found.get(at, ABSENT)
        if verdict == pair.verdict:
            same += 1
            continue
        yield Compared(
            subject=f"P2P {pair.source} to {pair.target}",
            verdict="worse" if _rank(verdict) > _rank(pair.verdict) else "better",
            before=pair.verdict,
            after=verdict,
        )
    if same:
        count = f"{same} of {len(old.pairs)} pairs"
        yield Compared("P2P pairs", "same", count, "as before")


def _no_access(p2p: P2p) -> str:
    return no_access([pair.verdict for pair in p2p.pairs])


def _more_level(old: str, new: str) -> Iterator[Compared]:
    verdict: Verdict = "same" if old == new else "better" if new > old else "worse"
    yield Compared("P2P proof", verdict, old, new)


def _rank(verdict: str) -> int:
    return _LEVELS.index(verdict) if verdict in _LEVELS else len(_LEVELS)


def _moved(before: Capture, after: Capture) -> Mapping[str, str]:
    """Addresses then and now, of the cards that are still there."""
    now = {one.uuid: one.address for one in after.gpus if one.uuid}
    return {one.address: now[one.uuid] for one in before.gpus if one.uuid in now}


def _limits(before: Capture, after: Capture) -> Iterator[Compared]:
    old, new = before.limits, after.limits
    yield from _more("shared memory", old.shm_bytes, new.shm_bytes, "{:d} bytes".format)
    yield from _more("locked memory", _memlock(old), _memlock(new), _bound_text(" bytes"))
    yield from _more("open files", _nofile(old), _nofile(new), _bound_text(""))


def _memlock(limits: Limits) -> float | None:
    return math.inf if "memlock" in limits.unlimited else limits.memlock_bytes


def _nofile(limits: Limits) -> float | None:
    return math.inf if "nofile" in limits.unlimited else limits.nofile


def _bound_text(unit: str) -> Callable[[float], str]:
    return lambda bound: "unlimited" if bound == math.inf else f"{bound:.0f}{unit}"


def _borg(before: Capture, after: Capture) -> Iterator[Compared]:
    """A newer one reads what an older one wrote, and not the other way round."""
    old = before.borg.version if before.borg else None
    if old is None:
        return
    new = after.borg.version if after.borg else None
    if new is None:
        yield Compared("borg", "worse", old, ABSENT)
        return
    is_older = _numbers(new) < _numbers(old)
    yield from _same_or("borg", old, new, "worse" if is_older else "other", "older" * is_older)


def _numbers(version: str) -> list[int]:
    return [int(one) for one in re.findall(r"[0-9]+", version)]


def _disks(before: Capture, after: Capture) -> Iterator[Compared]:
    now = {_identity(one) for one in after.disks}
    for one in before.disks:
        if (identity := _identity(one)) is None:
            continue
        is_there = identity in now
        lost: Verdict = "worse" if one.holds else "other"
        held = f" ({', '.join(one.holds)})" if one.holds else ""
        yield Compared(
            subject=f"disk {identity}",
            verdict="same" if is_there else lost,
            before=f"{one.model or one.name}{held}",
            after="there" if is_there else ABSENT,
        )


def _identity(disk: Disk) -> str | None:
    return disk.id_serial or disk.wwn


def _mounts(before: Capture, after: Capture) -> Iterator[Compared]:
    """Of file systems that a reinstall leaves alone."""
    now = {one.uuid: {mount.at for mount in one.mounts} for one in after.file_systems if one.uuid}
    wiped = {disk.name for disk in before.disks if "root" in disk.holds}
    for one in before.file_systems:
        if one.uuid is None or wiped & set(one.disks):
            continue
        for mount in one.mounts:
            is_there = mount.at in now.get(one.uuid, set())
            yield Compared(
                subject=f"mount {mount.at}",
                verdict="same" if is_there else "worse",
                before=f"{one.type} {one.uuid}",
                after="mounted" if is_there else "not mounted",
                note="" if is_there else "write it into /etc/fstab and mount it",
            )


def _network(before: Capture, after: Capture) -> Iterator[Compared]:
    now = {mac: one for one in after.network.interfaces if (mac := _mac(one))}
    for one in before.network.interfaces:
        if one.kind not in _PHYSICAL or (mac := _mac(one)) is None:
            continue
        new = now.get(mac)
        yield Compared(
            subject=f"network {mac}",
            verdict="same" if new and new.name == one.name else "other",
            before=one.name,
            after=new.name if new else ABSENT,
            note="" if new is None or new.name == one.name else "another name of the same card",
        )


def _mac(one: Interface) -> str | None:
    return one.permanent_mac or one.mac


def _users(before: Capture, after: Capture) -> Iterator[Compared]:
    now = {one.name: one for one in after.users}
    for one in before.users:
        if not _FIRST_UID <= one.uid <= _LAST_UID:
            continue
        new = now.get(one.name)
        if new is None:
            add = f"useradd --uid {one.uid} --home-dir {one.home} --shell {one.shell} {one.name}"
            yield Compared(
                f"user {one.name}", "other", _who(one), ABSENT, note=f"to have it again: {add}"
            )
            continue
        lost = sorted(set(one.groups) - set(new.groups))
        is_same = new.uid == one.uid and not lost
        yield Compared(
            subject=f"user {one.name}",
            verdict="same" if is_same else "worse" if new.uid != one.uid else "other",
            before=_who(one),
            after=_who(new),
            note=f"no longer in {', '.join(lost)}" if lost else "",
        )


def _who(user: User) -> str:
    return f"uid {user.uid}"


def _packages(before: Capture, after: Capture) -> Iterator[Compared]:
    if before.packages is None or after.packages is None:
        return
    missing = [one for one in before.packages if one not in set(after.packages)]
    yield Compared(
        subject="selected packages",
        verdict="other" if missing else "same",
        before=str(len(before.packages)),
        after=f"{len(before.packages) - len(missing)} of them",
        note=f"not selected now: {_some(missing)}" if missing else "",
    )


def _host_keys(before: Capture, after: Capture) -> Iterator[Compared]:
    now = {one.fingerprint for one in after.host_keys}
    if not before.host_keys or not after.host_keys:
        return
    same = [one for one in before.host_keys if one.fingerprint in now]
    yield Compared(
        subject="ssh host keys",
        verdict="same" if len(same) == len(before.host_keys) else "other",
        before=str(len(before.host_keys)),
        after=f"{len(same)} of them",
        note="" if same else "new keys; every other client has to accept them",
    )


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
