"""Locked memory and open files, of logins and of services.

For logins pam_limits reads /etc/security/limits.conf, then limits.d. The wildcard does not include
root everywhere, and a line about a user or a group overrides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rigops.concerns.base.limit_files import (
    MADE,
    UNLIMITED,
    LimitPlan,
    PlannedFile,
    as_bytes,
    others,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rigops.concerns.base.facts import HostState
    from rigops.inventory.spec.model import Limits
    from rigops.probe.sections import limits as section
    from rigops.probe.sections.limits import Bound, Configured

SERVICES: Final = "/etc/systemd/system.conf.d/90-rigops.conf"
EFFECT: Final = "systemctl daemon-reload"  # which rereads its defaults too

_KEYS: Final[Mapping[Item, str]] = {
    "memlock": "DefaultLimitMEMLOCK",
    "nofile": "DefaultLimitNOFILE",
}
LOGINS: Final = "/etc/security/limits.d/90-rigops.conf"

Item = Literal["memlock", "nofile"]

_FIRST: Final = "/etc/security/limits.conf"
_EVERYBODY: Final = ("*", "root")
_ENDLESS: Final = frozenset({"unlimited", "infinity", "-1"})
_SIDES: Final[Mapping[str, tuple[str, ...]]] = {
    "-": ("soft", "hard"),
    "soft": ("soft",),
    "hard": ("hard",),
}


def bounds(declared: Limits) -> dict[Item, Bound]:
    """Bytes of locked memory, and files."""
    found: dict[Item, Bound] = {}
    if declared.memlock is not None:
        endless = declared.memlock == UNLIMITED
        found["memlock"] = UNLIMITED if endless else as_bytes(declared.memlock) or 0
    if declared.nofile is not None:
        found["nofile"] = declared.nofile
    return found


def bounded(wanted: Mapping[Item, Bound], found: section.Limits, around: HostState) -> LimitPlan:
    """Files for logins and for services: neither reads those of the other."""
    if reason := _blocker(wanted, found, around):
        return LimitPlan(blockers=(reason,))
    return _at_logins(wanted, found) + _of_services(wanted, found, around)


def _blocker(wanted: Mapping[Item, Bound], found: section.Limits, around: HostState) -> str:
    """PAM turns a login away whose limits the kernel refuses, root's included."""
    files = wanted.get("nofile")
    if isinstance(files, int) and around.most_files is not None and files > around.most_files:
        return (
            f"nofile {files} is above fs.nr_open, which is {around.most_files} here: every login "
            "would be refused"
        )
    ranges = {"memlock": found.memlock, "nofile": found.nofile}
    above = [
        item
        for item, bound in wanted.items()
        if (now := ranges[item]) is not None and not isinstance(now.hard, str)
        if isinstance(bound, str) or bound > now.hard
    ]
    if above and around.may_raise is False:
        return (
            f"not even root may raise {' and '.join(above)} here, as in a container: "
            "every login would be refused"
        )
    return ""


def _at_logins(wanted: Mapping[Item, Bound], found: section.Limits) -> LimitPlan:
    lines = login_lines(wanted, found.configured)
    content = "".join(f"{line}\n" for line in lines.ours)
    return LimitPlan(
        (PlannedFile(LOGINS, f"{MADE}{content}"),) if lines.ours else (),
        tuple(f"{one.file} overrides what is declared: {one.line}" for one in lines.later),
        tuple(
            f"{one.domain} keeps a limit of its own ({one.file}: {one.line})" for one in lines.own
        ),
    )


def _of_services(
    wanted: Mapping[Item, Bound], found: section.Limits, around: HostState
) -> LimitPlan:
    now = {"memlock": found.service_memlock, "nofile": found.service_nofile}
    ours: list[str] = []
    blockers: list[str] = []
    live = True
    for item, bound in wanted.items():
        key = _KEYS[item]
        theirs = others(around.settings, SERVICES, key)
        means = _means(bound)
        if theirs.already(means):
            continue
        if overriding := theirs.overrides(means):
            blockers.append(f"{overriding} as {key}, which overrides what is declared")
        ours.append(f"{key}={'infinity' if bound == UNLIMITED else bound}\n")
        live = live and now[item] in {None, bound}
    content = f"{MADE}[Manager]\n{''.join(ours)}"
    files = (PlannedFile(SERVICES, content, EFFECT, live),) if ours else ()
    return LimitPlan(files, tuple(blockers))


def _means(bound: Bound) -> Callable[[str], bool]:
    """Whether a value of systemd's, which may be SOFT:HARD, is this bound on both sides."""

    def means(value: str) -> bool:
        sides = value.split(":")
        found = [UNLIMITED if side == "infinity" else as_bytes(side) for side in sides]
        return found in ([bound], [bound, bound])

    return means


@dataclass(frozen=True)
class LoginLines:
    """`later`: lines that override ours. `own`: limits of a user or a group, which stay."""

    ours: tuple[str, ...] = ()
    later: tuple[Configured, ...] = ()
    own: tuple[Configured, ...] = ()


def login_lines(wanted: Mapping[Item, Bound], configured: Sequence[Configured]) -> LoginLines:
    """What has to be written so that every login gets this, beside the lines of others."""
    others = (one for one in configured if one.file != LOGINS)
    foreign = sorted(others, key=lambda one: (one.file != _FIRST, one.file))
    ours: list[str] = []
    later: list[Configured] = []
    own: list[Configured] = []
    for item, bound in wanted.items():
        # Locked memory in KiB, rounded up: what was declared has to fit.
        value = str(-(-bound // 1024) if item == "memlock" and isinstance(bound, int) else bound)
        theirs = [one for one in foreign if one.item == item and one.kind in _SIDES]
        for domain in _EVERYBODY:
            rows = [one for one in theirs if one.domain == domain]
            last = {side: _value(one) for one in rows for side in _SIDES[one.kind]}
            if last != {"soft": value, "hard": value}:
                ours.append(f"{domain} - {item} {value}")
                later += [one for one in rows if one.file > LOGINS and _value(one) != value]
        own += [one for one in theirs if one.domain not in _EVERYBODY and _value(one) != value]
    return LoginLines(tuple(ours), tuple(dict.fromkeys(later)), tuple(own))


def _value(one: Configured) -> str:
    return UNLIMITED if one.value in _ENDLESS else one.value
