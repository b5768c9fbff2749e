"""The probe: one POSIX sh script that asks all sections at once, each for a limited time.

How it stays alive on a host whose driver hangs: nothing waits for a section's own processes. They
write into a pipe; a reader of ours is ended when the time is up; what cannot be killed stays
behind with no descriptor of ours. The lanes form a pipeline in which each says its own and then
passes on what those before it said, so that no file and no lock is needed.

A process costs the host a millisecond, and a fleet asks many hosts at once: sections that are quick
share a lane and its shell, and what a shell can do by its own words takes no program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rigops.probe.section import Section

FORMAT: Final = "rigops-probe/2"
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin:/usr/lib/wsl/lib"  # noqa: E501 - one word for the shell
MOST_BYTES: Final = 4 * 1024 * 1024  # of one section

_LANE_BYTES: Final = MOST_BYTES + 4096

# Several sections in a row need more time than one of them, on a slow host. All of it is
# asked in one shell first, for so long.
_SHARED_S: Final = 20
_TOGETHER_S: Final = 6
_SLOWLY_S: Final = 16

# A section's timeout is when its reader ends. Before that its command gets TERM, and then KILL.
_TERM_S: Final = 2
_KILL_S: Final = 1
_SLACK_S: Final = 5

_UNIT_FOLDERS: Final = (
    "/etc/systemd/system /run/systemd/system /run/systemd/transient /run/systemd/generator "
    "/usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system "
    "/sys/fs/cgroup/system.slice /sys/fs/cgroup/systemd/system.slice"
)

_TOOLS = r"""
unset CDPATH
# Text that is secret by its name, place or shape never leaves the host: all answers pass through
# it. It takes the place of its shell.
hide() {
    value="(\"([^\"\\]|\\\\.)*\"|'[^']*'|[^[:space:]\"'{\[][^[:space:]\"]*)"
    words="(passw|passphrase|secret|token|credential|cifspass|(api|access|private|preshared)_?key|psk)"
    short="(^|[^[:alnum:]])([[:alnum:]]*pw|pwd|pass|pat|auth|bearer)"
    name="(${words}[[:alnum:]_.-]*|$short|([^g]|[^i]g|[^s]ig)[_.-]key)[\"']?"
    bare="('[^']*'|[^[:space:]\"'{\[][^[:space:]\"]*)"
    shape="((gh[opsur]_|github_pat_|glpat-|hf_|sk-|xox[abeprs]-|A[KS]IA|AIza|pypi-Ag)"
    shape="${shape}[[:alnum:]_-]{16,}|npm_[[:alnum:]]{20,})"
    login="(-[uU]|--(proxy-)?user)" word="[^[:space:]\"']+"
    tail="([[:alnum:]]*pw|pwd|pass|pat|auth|bearer|key)"
    variable="([[:alnum:]_]*${words}[[:alnum:]_.-]*|([[:alnum:]_]*_)?$tail)="
    salt="[$](y|gy|7|[156]|2[abxy]|argon2(id|i|d))[$]([[:alnum:]./=,+-]{1,64}[$]){0,3}"
    option="--?[[:alnum:]-]*(pass|passwd|password|passphrase|token|secret|key|bearer)"
    asks="(sshpass|mysql|mariadb|mongo|ldap|login)"
    x="[[:alnum:]_+-]*" a="[a-z]" b="[A-Z]" c="[0-9]"
    mixed="$x($a$x($b$x$c|$c$x$b)|$b$x($a$x$c|$c$x$a)|$c$x($a$x$b|$b$x$a))$x"
    exec sed -E -e "/^$mark /b" -e "/-----BEGIN[A-Z ]*PRIVATE KEY/,/-----END|^[^:]*[[:space:]]/{
            s#(-----BEGIN[A-Z ]*PRIVATE KEY-----).*#\1***#
            s#^[[:space:]]*[[:alnum:]+/]+={0,2}[[:space:]]*\$#***#
        }" \
        -e "s#(://|iscsi:)[^/@[:space:]\"]*@#\1***@#g" \
        -e "s#((Environment=|[[:space:]])\"$variable)([^\"\\]|\\\\.)*#\1***#gI" \
        -e "s#(${name}[[:space:]]*:[[:space:]]*)\"([^\"\\]|\\\\.)*\"#\1\"***\"#gI" \
        -e "s#(${name}[[:space:]]*[:=][[:space:]]*)\[[^]]*#\1[***#gI" \
        -e "s#(${name}[[:space:]]*:[[:space:]]*)$bare#\1***#gI" \
        -e "s#(${name}(=|[[:space:]]+=[[:space:]]+))$value#\1***#gI" \
        -e "s#(password|password_pbkdf2)[[:space:]].*#\1 ***#" \
        -e "s#(user(name)?=[^,%[:space:]]*)%[^,[:space:]]*#\1%***#g" \
        -e "s#((^|[[:space:]])${option}[[:space:]]+)$value#\1***#gI" \
        -e "s#(${asks}[^|]*[[:space:]]-p[[:space:]]*)[^[:space:]]+#\1***#g" \
        -e "s#(ipmitool[^|]*[[:space:]]-P[[:space:]]*)[^[:space:]]+#\1***#g" \
        -e "s#(curl[^|]*[[:space:]]${login}[[:space:]=]*[^:[:space:]]+:)$word#\1***#g" \
        -e "s#${salt}[[:alnum:]./+]{20,}#***#g" \
        -e "s#(authorization[\"']?:[[:space:]]*[\"']?)[^\"']+#\1***#gI" \
        -e "s#((^|[^[:alnum:]])bearer[[:space:]]+)[[:alnum:]][^\"'[:space:]]{7,}#\1***#gI" \
        -e "s#(^|[^[:alnum:]])$shape#\1***#g" \
        -e "s#eyJ[[:alnum:]_-]{8,}[.][[:alnum:]_-]{8,}[.][[:alnum:]_-]{8,}#***#g" \
        -e "/[=\"'][[:alnum:]_+-]{24}/{
            s#(^|[^D])(=|:[[:space:]]*[\"'])([\"']?)([[:alnum:]_+-]{24,})#\1\2\3\n\4\n#g
            s#\n((GPU|MIG)-[[:alnum:]-]*)\n#\1#g
            s#\n$mixed\n={0,2}#***#g
            s#\n##g
        }"
}
# The lines below come from this file or command. No content can forge the line, since nobody else
# knows the mark (no program gets it as a word), or swallow it, since it begins a line.
block() { echo; echo "$mark == $*"; }
# Every file that is there.
show() {
    for file; do
        shift
        [ -f "$file" ] || continue
        if [ -r "$file" ]; then set -- "$@" "$file"; else run cat "$file"; echo; fi
    done
    case $# in
        0) ;;
        1) block "$1"; cat "$1"; echo ;;
        *) awk 'BEGIN {
            RS = "\001"; ORS = ""  # whole files, with or without a last end of line
            for (at = 1; at < ARGC; at++) {
                print "\n" ENVIRON["mark"] " == " ARGV[at] "\n"
                for (count = 0; (getline part <ARGV[at]) > 0; count++) print (count ? RS : "") part
                close(ARGV[at]); print "\n"
            }
        }' "$@" ;;
    esac
}
# The same for small files, most of which are the kernel's answers: it takes no program.
show_kernel() {
    for file; do
        [ -f "$file" ] || continue
        if [ ! -r "$file" ]; then run cat "$file"
        else
            block "$file"
            case $file in
                /proc/sys/kernel/random/*) copy <"$file" ;;
                /proc/sys/*) cat "$file" ;; # reading such a number by bytes gives one digit
                *) copy <"$file" ;;
            esac
        fi
        echo
    done
}
copy() { while IFS= read -r line; do say "$line"; done; [ -z "$line" ] || printf %s "$line"; }
# In mksh printf is a program.
if [ "${KSH_VERSION:-}" ]; then say() { print -r -- "$1"; }; else say() { printf '%s\n' "$1"; }; fi
run() { block "$*"; "$@" 2>&1; }
# Sets `units`: those that have a file, or run though it is gone. To ask systemd of one that is not
# there costs as much as three programs.
units_of() { # PATTERN…
    units=
    for folder in @UNIT_FOLDERS@; do
        for pattern; do
            for file in "$folder"/$pattern; do
                there "$file" || continue
                file=${file##*/}
                case "$units " in *" $file "*) continue ;; esac
                case "$file" in *.d | *.wants | *.requires | *@.*) continue ;; esac
                units="$units $file"
            done
        done
    done
}
there() { [ -e "$1" ] || [ -L "$1" ]; }
is_root() { [ "${own_id:-$(id -u)}" = 0 ]; }
""".replace("@UNIT_FOLDERS@", _UNIT_FOLDERS)

_WATCHDOG = rf"""
seconds=$1; shift
apart=; command -v setsid >/dev/null && apart=setsid
exec 5<&0 6>&1
$apart "$@" <&5 >&6 5<&- 6>&- & child=$!
exec 5<&- 6>&-
(
    # Not `kill -s`: dash and mksh then take the group for an option.
    end() {{ kill "-$1" "-$child" || kill "-$1" "$child"; }}
    nap() {{ sleep "$1" & wait "$!"; }}
    # KILL, since a nap that is about to begin would lose a TERM.
    trap '[ "$!" = "$child" ] || kill -s KILL "$!"; exit' TERM
    while [ "$seconds" -gt 0 ]; do
        nap 1
        kill -s 0 "$child" || exit
        seconds=$((seconds - 1))
    done
    end TERM; nap {_TERM_S - _KILL_S}; end KILL
) >/dev/null 2>&1 & guard=$!  # it has no descriptor that is read to its end
wait "$child"; code=$?
kill "$guard"; wait "$guard"
exit "$code"
"""

# Begins and ends one section: its name and limit, its answer, how it ended and when, and that this
# was all. It is left out where the time of its lane is up.
_FRAME = r"""
until=2147483647 # by the seconds that the host is up
begin() { # NAME LIMIT
    read -r began _ </proc/uptime || began=0
    limit=$2 left=$((until - ${began%.*}))
    [ "$left" -gt 0 ] || return
    [ "$limit" -le "$left" ] || limit=$left
    echo; echo "$mark begin $1 root=$had limit=$limit"
}
end() { # NAME CODE
    read -r ended _ </proc/uptime
    echo; echo "$mark rc=$2 from=$began to=$ended"; echo; echo "$mark end $1"
}
"""

_LANES = r"""
# In place of this shell: a command that gets TERM, and then KILL, when its time is up.
if timeout --version >/dev/null 2>&1; then limited() { exec timeout -k @KILL@ "$@"; }
else limited() { exec sh -c "$watchdog" limited "$@"; }
fi

# With the trap the shell stays until its command has ended too: else TERM would end the shell
# alone, and a command that ignores TERM would never get its KILL.
stays="trap 'exit 143' TERM"

# Each section in a shell of its own, with a limit of its own.
apart() { # FUNCTIONS NUMBER:NAME:LIMIT…
    functions=$1; shift
    for asked; do
        number=${asked%%:*} name=${asked#*:}; limit=${name#*:} name=${name%:*}
        ! begin "$name" "$limit" || {
            (limited "$limit" sh -c "$stays; $tools$functions section_$number")
            end "$name" "$?"
        }
    done
}
# All in one shell, which tells by a byte that a section is done. Those that are not when the time
# of all is up are asked apart.
together() { # SECONDS FUNCTIONS NUMBER:NAME:LIMIT…
    most=$1 functions=$2; shift 2
    { answered=$(limited "$most" sh -c "$stays; $tools$frame$functions$ask_all" "" "$@" \
        3>&1 >&5 5>&-); } 5>&1
    shift ${#answered}
    apart "$functions" "$@"
}
ask_all='
for asked; do
    number=${asked%%:*} name=${asked#*:}; limit=${name#*:} name=${name%:*}
    begin "$name" "$limit"
    "section_$number" 3>&-; code=$?
    set +f; unset IFS; cd /
    end "$name" "$code"
    printf . >&3
done
'
quiet() { begin "$1" "$2"; end "$1" 0; }

# Prints the output of these sections, then that of earlier lanes, which comes on stdin. They get so
# many seconds. A lane ends only when all of it has been read.
lane() { # SECONDS BYTES COMMAND…
    seconds=$1 bytes=$2; shift 2
    read -r began _ </proc/uptime || began=0
    until=$((${began%.*} + seconds - 1))
    {
        { exec 4<&- 2>/dev/null; "$@"; } | # exec: else the shell keeps what was there before
        (limited "$seconds" cat) 2>/dev/null | # cat, since it buffers nothing
        head -c "$bytes" |
        tail -q -c @MOST@ - /proc/self/fd/4 &
    } 4<&0 </dev/null
}
"""

_BODY = r"""#!/bin/sh
# What `rigops doctor` asks a host. It changes nothing and leaves nothing behind.
rigops_probe() {
PATH=@PATH@
LC_ALL=C
export PATH LC_ALL

# shellcheck disable=SC1003  # texts within a text
program=@PROGRAM@

eval "$program"
eval "$tools$frame$lanes"

had=0 root=0 own_id=$(id -u)
if is_root; then had=1 root=1
@SUDO@fi
{
    read -r mark </proc/sys/kernel/random/uuid || mark=$$-$(date +%s)
    read -r node </proc/sys/kernel/hostname || node=$(uname -n)
} 2>/dev/null
asked_at=$(date -u "+%Y-%m-%dT%H:%M:%SZ %s")
at=${asked_at% *} asked_at=${asked_at#* }
export mark asked_at own_id had
echo "@FORMAT@ $mark root=$root at=$at host=$node"
echo "$mark asked@NAMES@"
@ROOTLY@
@ROUNDS@
echo; echo "$mark done"
}
rigops_probe </dev/null
"""

_SUDO = "elif sudo -n sh -c : >/dev/null 2>&1; then root=1\n"

_ROOTLY = r"""
# Sections that need root, in one shell that has it. It gets its program on stdin, since sudo writes
# every word of a command into the log of the host. A here-document would do, but for bash, which
# puts a long one into a file: there may be no place for that.
rootly() { # FUNCTION SECONDS BYTES
    if [ "$had" = "$root" ]; then "$1"; else lane "$2" "$3" as_root "$1"; fi
}
as_root() { # FUNCTION
    {
        say "PATH=$PATH LC_ALL=C mark=$mark asked_at=$asked_at had=1 own_id=0"
        say "export PATH LC_ALL mark asked_at own_id had"
        say "$program"
        say 'eval "$tools$frame$lanes"'
        say "$1 </dev/null | cat"
    } | sudo -n sh -s
}
"""
_WITHOUT_ROOT = 'rootly() { "$1"; }'


def script(sections: Iterable[Section[Any]], *, root: bool = True, path: str = PATH) -> str:
    """The whole probe. Without `root` it does not ask for more rights than the login has."""
    every = tuple(sections)
    numbers = {one.name: number for number, one in enumerate(every, 1)}
    asked = [_Round(number, one, numbers) for number, one in enumerate(rounds(every), 1)]
    lanes = _LANES
    for name, value in {
        "KILL": str(_TERM_S - _KILL_S),
        "MOST": str(_LANE_BYTES * len(every)),
    }.items():
        lanes = lanes.replace(f"@{name}@", value)
    texts = {"tools": _TOOLS, "frame": _FRAME, "watchdog": _WATCHDOG, "lanes": lanes}
    functions = "\n\n".join(text for one in asked for text in one.functions())
    variables = "\n".join(f"{name}={_quoted(one)}" for name, one in texts.items())
    text = _BODY
    for name, value in {
        "PATH": path,
        "PROGRAM": _quoted(f"{variables}\n{functions}"),
        "SUDO": _SUDO if root else "",
        "ROOTLY": _ROOTLY if root else _WITHOUT_ROOT,
        "FORMAT": FORMAT,
        "NAMES": "".join(f" {one.name}" for one in every),
        "ROUNDS": "\n".join(one.call() for one in asked),
    }.items():
        text = text.replace(f"@{name}@", value)
    return text


def longest_s(sections: Iterable[Section[Any]]) -> float:
    """After which the script has ended, whatever hangs."""
    return sum(map(_patience, rounds(sections))) + _SLACK_S


def rounds(sections: Iterable[Section[Any]]) -> list[Sequence[Section[Any]]]:
    """Sections without the driver come first."""
    every = tuple(sections)
    split = ([s for s in every if not s.asks_driver], [s for s in every if s.asks_driver])
    return [one for one in split if one]


class _Round:
    """Sections that are asked at the same time, as texts of functions and functions."""

    def __init__(
        self, number: int, sections: Sequence[Section[Any]], numbers: Mapping[str, int]
    ) -> None:
        self._sections = sections
        self._shares = {
            f"as_{who}_{number}{suffix}": [
                one for one in sections if one.wants_root == is_root and one.is_exact == is_exact
            ]
            for suffix, is_exact in (("", False), ("_exact", True))
            for who, is_root in (("user", False), ("root", True))
        }
        self._numbers = numbers

    def functions(self) -> Iterator[str]:
        for share, sections in self._shares.items():
            lanes = []
            for members in _lanes(sections):
                text = f"{share}_{self._numbers[members[0].name]}"
                yield f"{text}={_quoted(''.join(map(self._function, members)))}"
                most = _LANE_BYTES * len(members)
                asked = " ".join(map(self._asked, members))
                lanes.append(f'lane {_time(members)} {most} {_how(members)} "${text}" {asked}')
            if lanes:
                yield "\n".join((f"{share}() {{", " |\n".join(lanes), "}"))

    def call(self) -> str:
        """Exact sections join behind the filter. The last of the calls waits for all."""
        calls: dict[bool, list[str]] = {False: [], True: []}
        for name, sections in self._shares.items():
            most = _LANE_BYTES * len(sections)
            rootly = f"rootly {name} {_patience(sections)} {most}"
            if sections:
                one = rootly if sections[0].wants_root else name
                calls[sections[0].is_exact].append(one)
        hidden = [*calls[False], "hide"] if calls[False] else []
        exact = [*calls[True], "cat"] if calls[True] else []
        return _unless_missing(self._sections, " | ".join([*hidden, *exact]))

    def _function(self, section: Section[Any]) -> str:
        return f"section_{self._numbers[section.name]}() {{\n{section.snippet.strip()}\n}}\n"

    def _asked(self, section: Section[Any]) -> str:
        return f"{self._numbers[section.name]}:{section.name}:{section.timeout_s - _TERM_S}"


def _lanes(sections: Iterable[Section[Any]]) -> list[list[Section[Any]]]:
    found: dict[str, list[Section[Any]]] = {}
    for one in sections:
        found.setdefault(one.lane or one.name, []).append(one)
    return list(found.values())


def _how(members: Sequence[Section[Any]]) -> str:
    return f"together {_first_s(members)}" if _first_s(members) else "apart"


def _first_s(members: Sequence[Section[Any]]) -> int:
    """For how long they are asked in one shell."""
    if len(members) == 1 or any(one.asks_driver for one in members):
        return 0
    return _SLOWLY_S if any(one.is_slow for one in members) else _TOGETHER_S


def _unless_missing(sections: Sequence[Section[Any]], lanes: str) -> str:
    """Without their command there is nothing to wait for."""
    needs = {one.needs for one in sections}
    if needs == {""} or len(needs) > 1:
        return lanes
    silence = "\n".join(f"quiet {one.name} {one.timeout_s - _TERM_S}" for one in sections)
    return f"if command -v {needs.pop()} >/dev/null; then\n{lanes}\nelse\n{silence}\nfi"


def _patience(sections: Iterable[Section[Any]]) -> int:
    return max(map(_time, _lanes(sections)), default=0)


def _time(members: Sequence[Section[Any]]) -> int:
    """That one lane is given."""
    longest = max(one.timeout_s for one in members)
    if len(members) == 1:
        return longest
    return max(longest, _SHARED_S) + min(_first_s(members), _TOGETHER_S)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
