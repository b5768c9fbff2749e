"""Backups: their timers and services, and how the last runs ended.

Never what a repository is called or how it is opened: only names, dates and results.
"""

from __future__ import annotations

import re
from datetime import datetime

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines, preamble, shown_time, shown_units, stripped

NOW = "date +%s"
UNITS = "systemctl show"
NEWEST = "newest backup"
WATCHED = "/etc/rigops/borg_watched"  # of a backup that rigops does not manage: a word a line

_OLDER = ("stat ", "files in homes ", "grep -l borg ")  # of an older rigops, and read by none
_EPOCH = re.compile(r"[0-9]{1,11}")


@dataclass(frozen=True, kw_only=True)
class BackupUnit:
    """`started`, `finished`: of the last run, since 1970; None: never, or not reported.

    systemd forgets the end of a run when the next one starts.
    """

    name: str
    load: str | None  # loaded, not-found, masked
    active: str | None
    enabled: str | None  # enabled, disabled, static
    result: str | None  # success, exit-code, timeout; of the last run
    started: int | None  # of a service
    finished: int | None
    line: str


@dataclass(frozen=True, kw_only=True)
class Backups:
    """`newest`: what the command that is declared for an unmanaged backup printed, since 1970."""

    now: int | None = None  # by the host's own clock
    units: tuple[BackupUnit, ...] | None = None  # None: there is no systemd to ask
    newest: int | None = None
    unparsed: tuple[str, ...] = ()

    def unit_of(self, name: str) -> BackupUnit | None:
        """How a service ended; of a timer that of its service, which did the work."""
        by_name = {one.name: one for one in self.units or ()}
        service = f"{name.rpartition('.')[0]}.service"
        return by_name.get(service) or by_name.get(name)


def parse(text: str) -> Backups:
    now: int | None = None
    units: tuple[BackupUnit, ...] | None = None
    newest: int | None = None
    unparsed = list(preamble(text))
    for head, body in blocks(text).items():
        left: list[str] = []
        if head == NOW:
            output = body.strip()
            now = int(output) if _EPOCH.fullmatch(output) else None
            left = [] if now is not None or not output else [output]
        elif head.startswith(UNITS):
            shown, left = shown_units(lines(body))
            units = tuple(map(_unit, shown))
        elif head == NEWEST:
            newest = next(filter(None, map(_moment, reversed(stripped(body)))), None)
            left = [] if newest is not None else stripped(body)
        elif not head.startswith(_OLDER):
            left = [head]
        unparsed += left
    return Backups(now=now, units=units, newest=newest, unparsed=tuple(unparsed))


def _unit(properties: dict[str, str]) -> BackupUnit:
    return BackupUnit(
        name=properties["Id"],
        load=properties.get("LoadState") or None,
        active=properties.get("ActiveState") or None,
        enabled=properties.get("UnitFileState") or None,
        result=properties.get("Result") or None,
        started=shown_time(properties.get("ExecMainStartTimestamp", "")),
        finished=shown_time(properties.get("ExecMainExitTimestamp", "")),
        line=" ".join(f"{name}={value}" for name, value in properties.items() if value),
    )


def _moment(line: str) -> int | None:
    """Seconds since 1970, or a time with its zone."""
    if _EPOCH.fullmatch(line):
        return int(line)
    try:
        when = datetime.fromisoformat(line.replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(when.timestamp()) if when.tzinfo else None


_SNIPPET = rf"""
block "{NOW}"; say "$asked_at"
watched=''
newest=''
if [ -r {WATCHED} ]; then
    watched=$(sed -n 's/^unit //p' {WATCHED} | head -n 1)
    newest=$(sed -n 's/^newest //p' {WATCHED} | head -n 1)
fi
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null; then
    units_of 'borg*' '*backup*' 'restic*' 'btrbk*' 'kopia*' 'rsnapshot*' 'duplicity*' 'snapper-*' \
        'rigops-*'
    set --
    # shellcheck disable=SC2086  # several units
    for unit in ${{watched%.*}}${{watched:+.service}} $watched $units; do
        case " $* " in *" $unit "*) continue ;; esac
        case "$unit" in *@.*|dpkg-db-backup.*) continue ;; *.timer|*.service) ;; *) continue ;; esac
        [ $# -ge 60 ] || set -- "$@" "$unit"
    done
    block '{UNITS}'
    [ "$#" = 0 ] || TZ=UTC systemctl show --no-pager -p Id -p LoadState -p ActiveState \
        -p UnitFileState -p Result -p ExecMainStatus -p LastTriggerUSec -p NextElapseUSecRealtime \
        -p ExecMainStartTimestamp -p ExecMainExitTimestamp -- "$@" 2>&1
fi

# A command that root wrote down, for root; nothing but a time comes of it.
if [ -n "$newest" ] && is_root; then
    block '{NEWEST}'
    timeout -k 2 10 sh -c "$newest" 2>/dev/null </dev/null | head -c 4096 |
        grep -aE '^[0-9TZ:.+ -]{{1,40}}$' | tail -n 1
fi
return 0
"""

_TECHNICAL = (
    f"{NOW} {UNITS} {NEWEST} service timer Id LoadState "
    "ActiveState UnitFileState Result ExecMainStatus LastTriggerUSec NextElapseUSecRealtime "
    "ExecMainStartTimestamp ExecMainExitTimestamp loaded not-found masked active failed enabled "
    "disabled static success exit-code timeout"
)

SECTION = Section(
    name="backups",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=14,  # the command has 12
    wants_root=True,
    lane="machine",
    technical=_TECHNICAL,
)
