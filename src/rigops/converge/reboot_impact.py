"""The impact of a reboot: people, locks, containers, GPU jobs, hung processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from rigops.concerns.preconditions.card_users import DAEMONS, DESKTOP
from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe.bundle import Bundle
from rigops.probe.collect import collect
from rigops.probe.section import Section
from rigops.probe.sections import processes
from rigops.probe.sections.processes import Holder, Task
from rigops.probe.text import assignments, blocks, lines
from rigops.transport import Connection, Privilege
from rigops.transport.errors import clean

# busctl and not systemd-inhibit, whose columns cannot be separated where a reason has spaces.
LIST_INHIBITORS: Final = (
    "busctl --system --timeout=5 call org.freedesktop.login1 /org/freedesktop/login1 "
    "org.freedesktop.login1.Manager ListInhibitors"
)

_WORD = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"|(?P<bare>\S+)')
_WHO_ROW = re.compile(
    r"(?P<user>\S+)\s+(?P<tty>\S+)\s+(?P<since>[^(\s][^(]*)(?:\((?P<where>[^)]*)\))?"
)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True, kw_only=True)
class User:
    name: str
    tty: str = ""
    since: str = ""
    where: str = ""  # from which other machine
    logged_out: bool = False  # but something of that session still runs

    def __str__(self) -> str:
        about = [self.tty, f"from {self.where}" if self.where else ""]
        about.append(f"since {self.since}" if self.since else "")
        details = ", ".join(part for part in about if part)
        state = "has logged out, but left something running" if self.logged_out else "is logged in"
        return f"{self.name} {state}" + (f" ({details})" if details else "")


@dataclass(frozen=True, kw_only=True)
class ShutdownInhibitor:
    """A lock that a program has of logind: `mode` is block, block-weak or delay."""

    what: str
    who: str
    why: str
    mode: str
    pid: int

    @property
    def of_shutdown(self) -> bool:
        return "shutdown" in self.what.split(":")

    @property
    def blocks(self) -> bool:
        return self.of_shutdown and self.mode == "block"

    def __str__(self) -> str:
        does = {"block": "asks not to shut down", "delay": "delays a shutdown for a moment"}
        effect = does.get(self.mode, f"inhibits the shutdown ({self.mode})")
        return f"{self.who} ({self.pid}) {effect}: {self.why}"


@dataclass(frozen=True, kw_only=True)
class Job:
    pid: int
    name: str
    user: str = ""
    seconds: int | None = None

    def __str__(self) -> str:
        whose = f" of {self.user}" if self.user else ""
        long = "" if self.seconds is None else f", for {_duration(self.seconds)}"
        return f"{self.name} ({self.pid}){whose}{long}"


@dataclass(frozen=True, kw_only=True)
class RebootImpact:
    """`unreadable`: what could not be read, in words for people."""

    users: tuple[User, ...] = ()
    inhibitors: tuple[ShutdownInhibitor, ...] = ()  # on the shutdown only
    containers: tuple[str, ...] = ()
    busy_gpus: tuple[Job, ...] = ()
    desktop: tuple[Job, ...] = ()
    wedged: tuple[Task, ...] = ()
    unreadable: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """One line each, the gravest first."""
        return tuple(clean(line) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for task in self.wedged:
            yield f"{task.comm} ({task.pid}) hangs in the driver and cannot be ended"
        for job in self.busy_gpus:
            yield f"a GPU is used by {job}"
        for inhibitor in sorted(self.inhibitors, key=lambda one: not one.blocks):
            yield str(inhibitor)
        for user in self.users:
            yield str(user)
        for job in self.desktop:
            yield f"a desktop is shown by {job}"
        if self.containers:
            yield f"running containers: {', '.join(self.containers)}"
        for what in self.unreadable:
            yield f"could not be read: {what}"


def find(connection: Connection, privilege: Privilege) -> RebootImpact:
    """In one exec. Starts nothing there, such as a daemon that would wait for its first client."""
    return read(collect(connection, SECTIONS, as_root=privilege).bundle)


def read(bundle: Bundle) -> RebootImpact:
    texts = {name: one.text for name, one in bundle.sections.items()}
    seen = processes.parse(texts.get(processes.SECTION.name, ""))
    started = ages(texts.get(_OWNERS, ""))
    jobs = [_job(holder, started) for holder in seen.holders or () if holder.comm not in DAEMONS]
    people = texts.get(_PEOPLE, "")
    return RebootImpact(
        users=users(people),
        inhibitors=tuple(
            one for one in inhibitors(blocks(people).get(_LOCKS, "")) if one.of_shutdown
        ),
        containers=containers(texts.get(_CONTAINERS, "")),
        busy_gpus=tuple(job for job in jobs if job.name not in DESKTOP),
        desktop=tuple(job for job in jobs if job.name in DESKTOP),
        wedged=tuple(task for task in seen.tasks or () if task.waits_for_driver),
        unreadable=tuple(
            words
            for name, words in _WORDS.items()
            if name not in bundle.sections or not bundle.sections[name].is_complete
        ),
    )


def _job(holder: Holder, started: Mapping[int, tuple[str, int]]) -> Job:
    user, seconds = started.get(holder.pid, ("", None))
    return Job(pid=holder.pid, name=holder.comm, user=user, seconds=seconds)


# ---- users and inhibitors

_PEOPLE: Final = "people"
_SESSIONS, _OWN, _WHO, _LOCKS = "loginctl", "own session", "who", "locks"


def users(text: str) -> tuple[User, ...]:
    """The sessions that logind has, and users at terminals that it does not know."""
    answers = blocks(text)
    own = answers.get(_OWN, "").strip()
    sessions = [assignments(block) for block in answers.get(_SESSIONS, "").split("\n\n")]
    found = [
        _user(session)
        for session in sessions
        if session.get("Class", "user").startswith("user") and session.get("Id", own) != own
    ]
    known = {session.get("TTY", "").removeprefix("/dev/") for session in sessions}
    rows = (_WHO_ROW.fullmatch(line.rstrip()) for line in lines(answers.get(_WHO, "")))
    also = [
        User(
            name=row["user"], tty=row["tty"], since=row["since"].rstrip(), where=row["where"] or ""
        )
        for row in rows
        if row and row["tty"] not in known
    ]
    return (*found, *also)


def _user(session: Mapping[str, str]) -> User:
    return User(
        name=session.get("Name", "a user"),
        tty=session.get("TTY") or session.get("Display", ""),
        since=session.get("Timestamp", ""),
        where=session.get("RemoteHost", ""),
        logged_out=session.get("State") == "closing",
    )


def inhibitors(text: str) -> tuple[ShutdownInhibitor, ...]:
    """Output of busctl: the type, how many, and six values for each."""
    words = [
        _plain(word["text"]) if word["text"] is not None else word["bare"]
        for word in _WORD.finditer(text)
    ]
    if words[:1] != ["a(ssssuu)"]:
        return ()
    rest = words[2:]
    rows = (rest[at : at + 6] for at in range(0, len(rest) - 5, 6))
    return tuple(
        ShutdownInhibitor(what=what, who=who, why=why, mode=mode, pid=number)
        for what, who, why, mode, _, pid in rows
        if (number := whole(pid)) is not None
    )


def _plain(quoted: str) -> str:
    """Without the escapes of C, in which busctl writes all that is not ASCII."""

    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        return {"n": "\n", "t": "\t"}.get(code, code)

    text = re.sub(r"\\([0-7]{1,3}|.)", character, quoted)
    try:
        return text.encode("latin-1").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text


_PEOPLE_SNIPPET = f"""
block "{_OWN}"
sed -n 's/.*session-\\([^/]*\\)\\.scope.*/\\1/p' /proc/self/cgroup 2>/dev/null | head -n 1
if command -v loginctl >/dev/null; then
    block "{_SESSIONS}"
    sessions=$(loginctl --no-legend list-sessions 2>/dev/null | awk '{{ print $1 }}')
    [ -z "$sessions" ] || loginctl show-session $sessions -p Id -p Name -p Class -p State -p TTY \\
        -p Display -p RemoteHost -p Timestamp 2>/dev/null
fi
if command -v who >/dev/null; then block "{_WHO}"; who 2>/dev/null; fi
if command -v busctl >/dev/null; then block "{_LOCKS}"; {LIST_INHIBITORS} 2>/dev/null; fi
return 0
"""

# ---- containers

_CONTAINERS: Final = "containers"


def containers(text: str) -> tuple[str, ...]:
    names = (line.strip() for body in blocks(text).values() for line in lines(body))
    return tuple(dict.fromkeys(name for name in names if name))


# docker would be started by a question to its socket; each container of podman's, any user's, has a
# conmon that was given its name.
_CONTAINERS_SNIPPET = """
if grep -qsx dockerd /proc/[0-9]*/comm && command -v docker >/dev/null; then
    block docker; docker ps --format '{{.Names}}' 2>/dev/null || return
fi
block podman
grep -lsx conmon /proc/[0-9]*/comm | while read -r comm; do
    tr '\\0' '\\n' <"${comm%comm}cmdline" 2>/dev/null | sed -n '/^\\(-n\\|--name\\)$/{n;p;q;}'
done
return 0
"""

# ---- whose the processes are, and how old

_OWNERS: Final = "owners"


def ages(text: str) -> dict[int, tuple[str, int]]:
    """By process: its user, and for how many seconds it has been there."""
    answers = blocks(text)
    uptime = whole(answers.get("uptime", "").partition(".")[0])
    ticks = whole(answers.get("ticks", "").strip())
    if uptime is None or not ticks:
        return {}
    owners = dict(_pairs(answers.get("owners", "")))
    return {
        number: (owners.get(pid, ""), max(0, uptime - ticks_before // ticks))
        for pid, began in _pairs(answers.get("began", ""))
        if (number := whole(pid)) is not None and (ticks_before := whole(began)) is not None
    }


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in lines(text):
        first, _, second = line.strip().partition(" ")
        yield first, second


_OWNERS_SNIPPET = """
block uptime; cat /proc/uptime
block ticks; getconf CLK_TCK 2>/dev/null || echo 100
block began
cat /proc/[0-9]*/stat 2>/dev/null | awk '{ pid = $1; sub(/^.*\\) /, ""); print pid, $20 }'
block owners
stat -c '%n %U' /proc/[0-9]* 2>/dev/null | sed 's|^/proc/||'
return 0
"""

SECTIONS: Final = (
    processes.SECTION,
    Section(name=_OWNERS, snippet=_OWNERS_SNIPPET, parse=ages, wants_root=True, lane="machine"),
    Section(name=_PEOPLE, snippet=_PEOPLE_SNIPPET, parse=users, wants_root=True),
    Section(
        name=_CONTAINERS,
        snippet=_CONTAINERS_SNIPPET,
        parse=containers,
        wants_root=True,
        timeout_s=5,
    ),
)
_WORDS: Final = {
    processes.SECTION.name: "processes on the GPUs, and hung ones",
    _PEOPLE: "logged-in users, and held locks",
    _CONTAINERS: "which containers run",
}


def _duration(seconds: int) -> str:
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min"
    if seconds < _DAY:
        return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE} min"
    return f"{seconds // _DAY} d {seconds % _DAY // _HOUR} h"
