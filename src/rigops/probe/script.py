"""The probe: one POSIX sh script that asks all sections at once, each for a limited time.

How it stays alive on a host whose driver hangs: nothing waits for a section's own processes. They
write into a pipe; a reader of ours is ended when the time is up; what cannot be killed stays
behind with no descriptor of ours. The sections form a pipeline in which each passes on what those
before it said and then adds its own, so that no file and no lock is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rigops.probe.section import Section

FORMAT: Final = "rigops-probe/1"
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin:/usr/lib/wsl/lib"  # noqa: E501 - one word for the shell
MOST_BYTES: Final = 4 * 1024 * 1024  # of one section

# A section's timeout is when its reader ends. Before that its command gets TERM, and then KILL.
_TERM_S: Final = 2
_KILL_S: Final = 1
_SLACK_S: Final = 5

_TOOLS = r"""
unset CDPATH
# Logins in URLs and values whose name says that they are secret never leave the host.
hide() {
    value="(\"[^\"]*\"|[^[:space:]\"]*)" name="[^[:space:]=\"]*"
    secret="(passw|passphrase|secret|token|credential|api_?key|psk)"
    sed -E -e "s#(://|iscsi:)[^/@[:space:]\"]*@#\1***@#g" \
        -e "s#($name$secret$name=)$value#\1***#gI" \
        -e "s#((^|[[:space:]._\"-])([[:alnum:]]*pw|pwd|pass)=)$value#\1***#gI" \
        -e "s#(password|password_pbkdf2)[[:space:]].*#\1 ***#"
}
show() {
    for file; do
        [ -f "$file" ] || continue
        if [ -r "$file" ]; then echo "== $file"; hide <"$file"; else run cat "$file"; fi
        echo
    done
}
run() { echo "== $*"; "$@" 2>&1; }
"""

_TIMEOUT = f'exec timeout -k {_TERM_S - _KILL_S} "$@"'

_WATCHDOG = rf"""
seconds=$1; shift
apart=; command -v setsid >/dev/null && apart=setsid
exec 5<&0 6>&1
$apart "$@" <&5 >&6 5<&- 6>&- & child=$!
exec 5<&- 6>&-
(
    end() {{ kill -s "$1" "-$child" || kill -s "$1" "$child"; }}
    nap() {{ sleep "$1" & nap=$!; wait "$nap"; }}
    trap "kill \$nap; exit" TERM
    nap "$seconds"; end TERM; nap {_TERM_S - _KILL_S}; end KILL
) & guard=$!
wait "$child"; code=$?
kill "$guard"
exit "$code"
"""

_ANSWER = """
read -r from _ </proc/uptime
sh -c "$3" limited "$2" sh -c "$4"
code=$?
read -r to _ </proc/uptime
echo
echo "$1 rc=$code from=$from to=$to"
"""

_BODY = r"""#!/bin/sh
# What `rigops doctor` asks a host. It changes nothing and leaves nothing behind.
# shellcheck disable=SC2016,SC2086  # the quoted programs run elsewhere; $as is several words
rigops_probe() {
PATH=@PATH@
LC_ALL=C
export PATH LC_ALL

tools="PATH=$PATH LC_ALL=C; export PATH LC_ALL"@TOOLS@

# Runs a command for so many seconds: TERM, then KILL, to it and to what it started.
if timeout --version >/dev/null 2>&1; then limited=@TIMEOUT@
else limited=@WATCHDOG@
fi

# One section's answer, and the line that says that it is whole.
answer=@ANSWER@

section() { # NAME SECONDS root|user PROGRAM; what earlier sections said comes on stdin
    as=; had=$is_root
    if [ "$3" = root ] && [ -n "$as_root" ]; then as=$as_root had=1; fi
    {
        { $as sh -c "$answer" answer "$mark" "$2" "$limited" "$tools$4" 4<&- & } 2>/dev/null |
        sh -c "$limited" limited "$(($2 + @TERM@))" cat 2>/dev/null |
        head -c @MOST@ |
        tail -c @MOST@ |
        {
            cat <&4
            echo "$mark begin $1 root=$had limit=$2"
            cat
            echo
            echo "$mark end $1"
        }
    } 4<&0 </dev/null
}

is_root=0 as_root=
if [ "$(id -u)" = 0 ]; then is_root=1
@SUDO@fi
{ read -r mark </proc/sys/kernel/random/uuid || mark=$$-$(date +%s); } 2>/dev/null
root=$is_root; [ -z "$as_root" ] || root=1
echo "@FORMAT@ $mark root=$root at=$(date -u +%Y-%m-%dT%H:%M:%SZ) host=$(uname -n)"
@ROUNDS@
echo "$mark done"
}
rigops_probe </dev/null
"""

_SUDO = "elif sudo -n sh -c : >/dev/null 2>&1; then as_root='sudo -n'\n"


def script(sections: Iterable[Section[Any]], *, root: bool = True, path: str = PATH) -> str:
    """The whole probe. Without `root` it does not ask for more rights than the login has."""
    text = _BODY
    for name, value in {
        "PATH": path,
        "TOOLS": _quoted(_TOOLS),
        "TIMEOUT": _quoted(_TIMEOUT),
        "WATCHDOG": _quoted(_WATCHDOG),
        "ANSWER": _quoted(_ANSWER),
        "TERM": str(_TERM_S),
        "MOST": str(MOST_BYTES),
        "SUDO": _SUDO if root else "",
        "FORMAT": FORMAT,
        "ROUNDS": "\n\n".join(_pipeline(one) for one in rounds(sections)),
    }.items():
        text = text.replace(f"@{name}@", value)
    return text


def longest_s(sections: Iterable[Section[Any]]) -> float:
    """After which the script has ended, whatever hangs."""
    return sum(max(section.timeout_s for section in one) for one in rounds(sections)) + _SLACK_S


def rounds(sections: Iterable[Section[Any]]) -> list[Sequence[Section[Any]]]:
    """What needs no driver comes first."""
    every = tuple(sections)
    split = ([s for s in every if not s.asks_driver], [s for s in every if s.asks_driver])
    return [one for one in split if one]


def _pipeline(sections: Sequence[Section[Any]]) -> str:
    return " |\n".join(
        f"section {section.name} {section.timeout_s - _TERM_S} "
        f"{'root' if section.wants_root else 'user'} " + _quoted(f"\n{section.snippet.strip()}\n")
        for section in sections
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
