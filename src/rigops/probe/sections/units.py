"""Units that act on cards, clocks and packages, and what else sets cards: files, programs."""

from __future__ import annotations

import re
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe.homes import AS_USER
from rigops.probe.section import Section
from rigops.probe.text import lines, shown_units

SHOW: Final = "systemctl show"
GREP: Final = "grep nvidia-smi"
PROGRAMS: Final = "programs that set cards"
ABSENT: Final = "units without a file"
SYSTEM_UNITS: Final = "/etc/systemd/system/"

Setting = Literal["power", "clocks", "persistence"]

_PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState,Result,FragmentPath"
_MATCH = re.compile(r"(?P<file>/[^:]{1,400}):(?P<command>.*)")
_PROGRAM = re.compile(r"pid=[0-9]{1,10} comm=(?P<name>\S{1,16})")
_DENIED = re.compile(r"(?:grep|find): \W?(?P<place>/[^']{1,400}?)\W?: Permission denied")
_CARDS = re.compile(r"\s(?:-i|--id)\b")
_OPTIONS: tuple[tuple[Setting, re.Pattern[str]], ...] = (
    (
        "power",
        re.compile(r"\s(?:-pl|--power-limit)\b[\s=]*(?P<watts>[0-9]{1,4}(?:\.[0-9]{1,3})?)?"),
    ),
    (
        "clocks",
        re.compile(
            r"\s(?:-lgc|-lmc|-ac|--lock-gpu-clocks|--lock-memory-clocks|--applications-clocks)\b"
        ),
    ),
    ("persistence", re.compile(r"\s(?:-pm|--persistence-mode)\b")),
)
_DCGMI_OPTIONS: tuple[tuple[Setting, re.Pattern[str]], ...] = (
    ("power", re.compile(r"\s(?:-P|--powerlimit)\b[\s=]*(?P<watts>[0-9]{1,4})?")),
    ("clocks", re.compile(r"\s(?:-a|--appclocks)\b")),
)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Everything but the name may be unknown (None). `result` is that of the last run."""

    name: str
    line: str
    load: str | None = None  # loaded, not-found, masked
    active: str | None = None  # active, inactive, failed, activating
    sub: str | None = None
    enabled: str | None = None  # enabled, disabled, static, masked
    result: str | None = None
    file: str | None = None

    @property
    def exists(self) -> bool:
        return self.load not in {None, "not-found"}


@dataclass(frozen=True, kw_only=True)
class CardSetter:
    """A line of a file that sets cards with nvidia-smi or dcgmi."""

    file: str
    command: str
    sets: frozenset[Setting]
    line: str
    watts: float | None = None

    @property
    def names_cards(self) -> bool:
        """Whether it sets only some of the cards."""
        return _CARDS.search(self.command) is not None

    @property
    def unit(self) -> str | None:
        """The service that the file belongs to, if it is a service's."""
        name = self.file.removeprefix(SYSTEM_UNITS).split("/", 1)[0].removesuffix(".d")
        return name if self.file.startswith(SYSTEM_UNITS) and name.endswith(".service") else None


@dataclass(frozen=True, kw_only=True)
class Units:
    """`setters`: None where that was not collected. `unreadable`: places where some may be.

    `programs`: the short names of those that run and may set cards, with or without a unit.
    """

    units: tuple[Unit, ...] = ()
    setters: tuple[CardSetter, ...] | None = None
    programs: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    unparsed: tuple[str, ...] = ()

    def unit(self, name: str) -> Unit | None:
        return next((one for one in self.units if one.name == name), None)


def parse(text: str) -> Units:
    head = ""
    shown: list[str] = []
    listed: dict[str, list[str]] = {ABSENT: [], PROGRAMS: []}
    setters: list[CardSetter] = []
    looked = False
    unreadable: list[str] = []
    unparsed: list[str] = []
    for raw in lines(text):
        line = raw.strip()
        if line.startswith("== "):
            head = line[3:].strip()
            looked = looked or head.startswith(GREP)
        elif head.startswith(GREP):
            denied, match = _DENIED.fullmatch(line), _MATCH.fullmatch(line)
            if denied:
                unreadable.append(denied["place"])
            elif match:
                setters += _setter(match, line)
            elif line:
                unparsed.append(line)
        elif head in listed:
            listed[head] += [line] if line else []
        else:
            shown.append(line)
    units, rest = shown_units(shown)
    programs = {line: _PROGRAM.fullmatch(line) for line in listed[PROGRAMS]}
    return Units(
        units=tuple(
            Unit(
                name=one["Id"],
                load=one.get("LoadState") or None,
                active=one.get("ActiveState") or None,
                sub=one.get("SubState") or None,
                enabled=one.get("UnitFileState") or None,
                result=one.get("Result") or None,
                file=one.get("FragmentPath") or None,
                line=" ".join(f"{key}={value}" for key, value in one.items()),
            )
            for one in units
        )
        + tuple(
            Unit(name=one, line=f"{one} has no file", load="not-found", active="inactive")
            for one in listed[ABSENT]
        ),
        setters=tuple(setters) if looked else None,
        programs=tuple(dict.fromkeys(one["name"] for one in programs.values() if one)),
        unreadable=tuple(unreadable),
        unparsed=(*rest, *unparsed, *(line for line, found in programs.items() if not found)),
    )


def _setter(match: re.Match[str], line: str) -> list[CardSetter]:
    """Nothing where the line is a comment, or sets nothing."""
    command = match["command"].strip()
    if command.startswith(("#", ";")):
        return []
    options = _DCGMI_OPTIONS if "dcgmi" in command else _OPTIONS
    found = {name: option.search(command) for name, option in options}
    sets = frozenset(name for name, option in found.items() if option)
    power = found["power"]
    watts = float(power["watts"]) if power and power["watts"] else None
    one = CardSetter(file=match["file"], command=command, sets=sets, line=line, watts=watts)
    return [one] if sets else []


_KNOWN = (
    "nvidia-persistenced.service nvidia-powerd.service nvidia-fabricmanager.service "
    "tuned.service power-profiles-daemon.service tlp.service auto-cpufreq.service "
    "cpupower.service thermald.service unattended-upgrades.service apt-daily-upgrade.timer "
    "lactd.service nvidia-pstated.service nvidia_oc.service nvidia-oc.service "
    "tuxclockerd.service coolercontrold.service cpufrequtils.service"
)

_SETTERS = "gwe|lactd|tuxclocker|tuxclockerd|nvidia-pstated|nvidia_oc|nvidia-powerd|coolercontrold"

# Programs are too large to be looked through: only what may be a script or a unit is. Root reads
# the files of root's folders. Where a link leads, and what is in a folder that others may write
# into, is read as a user that may only read what everybody may.
_SNIPPET = rf"""{AS_USER}
set --
for place in /etc/systemd/system /usr/local/bin /usr/local/sbin /etc/cron* /var/spool/cron \
    /etc/rc.local /etc/rc.d/rc.local /etc/init.d /etc/local.d /etc/udev/rules.d; do
    [ -e "$place" ] && set -- "$@" "$place"
done
setters() {{ # FIND FOLDER… [CONDITION…]
    "$@" ! -path '*.wants/*' ! -path '*.requires/*' -type f -size -65536c -exec \
        grep -E -e 'nvidia-smi.*[[:space:]]--?(pl|power|lgc|lmc|lock|ac|app|pm|persist)' \
        -e 'dcgmi[[:space:]]+config[[:space:]].*--set' \
        /dev/null {{}} + 2>&1
}}
of_root() {{
    set -f
    foreign='( -type l -o -type d ( ! -user 0 -o -perm -2 ) ) -prune'
    # shellcheck disable=SC2086  # several words
    setters find "$@" $foreign -o
    # shellcheck disable=SC2086
    set -- "$@" $foreign ! -path '*.wants/*' ! -path '*.requires/*'
    # Another name for a package's unit is the package's. Not every find knows -lname.
    links=$(find "$@" ! -lname '/lib/systemd/*' ! -lname '/usr/lib/systemd/*' ! -lname /dev/null \
        -print 2>/dev/null) || links=$(find "$@" -print)
    [ -n "$links" ] || return
    IFS='
'
    # shellcheck disable=SC2086
    set -- $links
    unset IFS
    found=$(setters as_user 65534 65534 nobody sh -c '"$@" 2>&1; echo whole' sh find -L "$@")
    printf '%s\n' "$found"
    case $found in *whole) ;; *) for link; do echo "find: '$link': Permission denied"; done ;; esac
}}
code=0 found=
[ $# = 0 ] || found=$(if is_root; then of_root "$@"; else setters find -L "$@"; fi)
case $found in
    ''|whole) found= ;;
    *) found=$(printf '%s\n' "$found" |
        grep -a -E '^/|Permission denied' | sort -u | cut -c 1-400 | head -n 200) ;;
esac
if [ -d /run/systemd/system ]; then
    units_of {_KNOWN} 'rigops-*'
    block "{ABSENT}"
    for unit in {_KNOWN}; do
        case "$units " in *" $unit "*) ;; *) say "$unit" ;; esac
    done
    # shellcheck disable=SC2086  # several units
    set -- $units
    [ -z "$found" ] || set -- "$@" $(printf '%s\n' "$found" |
        sed -n 's#^{SYSTEM_UNITS}\([A-Za-z0-9_.-]*\)\.service[:.].*#\1.service \1.timer#p' |
        sort -u)
    block "{SHOW} -p {_PROPERTIES}"
    [ $# = 0 ] || systemctl show -p {_PROPERTIES} "$@" 2>&1; code=$?
fi
block "{PROGRAMS}"
programs() {{
    exec awk 'BEGIN {{
        for (at = 1; at < ARGC; at++) {{
            if ((getline name <ARGV[at]) > 0 && name ~ /^({_SETTERS})$/)
                print "pid=" substr(ARGV[at], 1, index(ARGV[at], "/") - 1) " comm=" name
            close(ARGV[at])
        }}
    }}' [0-9]*/comm 2>/dev/null
}}
cd /proc/ 2>/dev/null && {{
    left=5 # tries: mawk gives up where a process ends while it is read
    until running=$(programs); do
        left=$((left - 1)); [ "$left" -gt 0 ] || {{ code=1; break; }}
    done
    [ -z "$running" ] || say "$running"
}}
cd /
block "{GREP}"
[ -z "$found" ] || printf '%s\n' "$found"
return $code
"""

_TECHNICAL = (
    f"{SHOW} {GREP} {PROGRAMS} {_SETTERS.replace('|', ' ')} {ABSENT} "
    f"{SYSTEM_UNITS} {_PROPERTIES} {_KNOWN} find: Permission denied loaded "
    "dcgmi config --set --powerlimit --appclocks "
    "not-found masked active inactive failed activating enabled disabled static exit-code success "
    "--power-limit --lock-gpu-clocks --lock-memory-clocks --applications-clocks --persistence-mode"
)

SECTION = Section(
    name="units",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=10,
    wants_root=True,
    lane="machine",
    technical=_TECHNICAL,
)
