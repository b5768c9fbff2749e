"""The sh script that has apt make the announced changes on a host, in one exec. Pure.

Two parts. The first waits for apt's locks, simulates once more, and ends here if its output is not
what was announced; a line every second ends it once the connection is gone. The second is a session
of its own, with a log for its output: it comes to its end even if the connection does not, or
its caller is ended. Lines on stdout report progress.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rigops.atomic_file import SHELL, shell_replace
from rigops.dataclass import dataclass
from rigops.packages.facts import HOLDER, SIMULATE, STATUS, UNFINISHED
from rigops.packages.records import PACKAGES_RECORD, WORK_RECORD
from rigops.probe.script import PATH

LOG: Final = "/var/lib/rigops/packages.log"  # of the last package work that failed

_HEAD: Final = f"""\
set -eu
PATH={PATH}
export PATH LC_ALL=C DEBIAN_FRONTEND=noninteractive DEBIAN_PRIORITY=critical
export APT_LISTCHANGES_FRONTEND=none APT_LISTBUGS_FRONTEND=none UCF_FORCE_CONFFOLD=1
export NEEDRESTART_MODE=l NEEDRESTART_SUSPEND=1
unset CDPATH
umask 022
"""
_WAIT: Final = f"""{HOLDER}
now() {{ read -r seconds _ </proc/uptime; echo "${{seconds%.*}}"; }}
wait_for_locks() {{
    since=$(now) printed=
    while found=$(holder); do
        pid=${{found%% *}} name=${{found#* }}
        if [ $(($(now) - since)) -ge "$1" ]; then
            echo "$name (process $pid) still has apt's lock after $1 s: see what it does with" \\
                "ps -fp $pid, and run this again when it is done" >&2
            exit 1
        fi
        [ "$printed" = "$found" ] || text=$(waits_for "$pid" "$name" "$1")
        echo "$text"
        printed=$found text=
        sleep 1
    done
}}
waits_for() {{
    echo "waiting up to $3 s for apt's lock, held by $2 (process $1$(began "$1"))"
}}
began() {{
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
    # shellcheck disable=SC2086  # its fields, behind the name, which may hold anything
    set -- ${{stat##*) }}
    age=$(($(now) - ${{20}} / 100))
    if [ "$age" -lt 120 ]; then age="$age s"
    elif [ "$age" -lt 7200 ]; then age="$((age / 60)) min"
    else age="$((age / 3600)) h"; fi
    echo ", begun $age ago"
}}
"""
# Building modules takes minutes, in which dpkg says nothing. A sleep that outlives its shell must
# not keep the connection open.
_APART: Final = """
unfinished() {
    dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' |
        sed -n 's/^.\\([HUFWt]\\|.R\\)[^ ]* *//p' | tr '\\n' ' '
}
report() {
    reported=
    while sleep 1 >/dev/null 2>&1 && kill -s 0 "$$" 2>/dev/null; do
        now_at=$(awk -v packages="${packages:-0}" '
            function at(step, number) {
                if (packages >= number) step = step " " number " of " packages
                return step
            }
            /^Get:/ { text = at("fetching package", ++fetched) }
            /^Unpacking / { text = at("unpacking package", ++unpacked) ", " $2 }
            /^Removing / { text = "removing packages, " $2 }
            /^Setting up / { text = at("configuring package", ++configured) ", " $3 }
            /^(Building |Processing triggers )/ { text = $0 }
            END { print text }' "$log" | cut -c -100 2>/dev/null) # nobody reads at the end
        [ "$now_at" = "$reported" ] || echo "$now_at"
        reported=$now_at
    done
}
apart() {
    mkdir -p "${log%/*}"
    : >"$log"
    code=0
    trap '' HUP PIPE
    report & reporter=$!
    (trap - PIPE; exec setsid --wait sh -c "$1" </dev/null >>"$log" 2>&1) || code=$?
    kill "$reporter" 2>/dev/null || :
    wait "$reporter" 2>/dev/null || :
    if [ "$code" != 0 ]; then
        grep -E '^(E: |dpkg: |Error)' "$log" >&2 || tail -n 20 "$log" >&2
        left=$(unfinished)
        if [ -z "$left" ]; then rm -f "$work"
        else echo "dpkg did not finish with ${left% }: sudo dpkg --configure -a" >&2; fi
        echo "all output is in $log" >&2
        exit "$code"
    fi
    rm -f "$log"
}
"""
_AS_ANNOUNCED: Final = f"""{SIMULATE}
as_announced() {{
    announced=$1; shift
    printed=$(simulate install "$@" 2>&1) || {{ echo "$printed" | grep '^E: ' >&2; exit 1; }}
    would=$(echo "$printed" | grep -E '^(Inst|Remv|Purg) ' | sort)
    if [ "$would" != "$announced" ]; then
        echo "the archive or the packages here changed meanwhile; run this again" >&2
        exit 1
    fi
    left=$(unfinished)
    if [ -n "$left" ]; then # apt would finish it unasked
        echo "meanwhile dpkg did not finish with ${{left% }}: sudo dpkg --configure -a" >&2
        exit 1
    fi
}}
"""
_RUN: Final = "main </dev/null\nexit\n"  # what brings the script may stay open behind it
_FORCE: Final = "--force-confdef --force-confold"
_APT: Final = (
    "apt-get -q -y --no-install-recommends -o APT::Cmd::Pattern-Only=true -o Dpkg::Use-Pty=0"
    " -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold"
)


@dataclass(frozen=True, kw_only=True)
class Installing:
    """`printed`: apt's own lines of what was announced. `record_...`: texts of the record.

    `hold_again`: installing takes the hold off. `work`: a note of all this while it lasts.
    """

    words: tuple[str, ...]
    printed: tuple[str, ...]
    lock_wait_s: int
    unless: tuple[str, str] | None = None
    repairs: bool = False
    downgrades: bool = False
    hold_again: tuple[str, ...] = ()
    changes_held: bool = False
    record_before: str | None = None
    record_after: str | None = None
    work: str = ""


def waiting(lock_wait_s: int) -> str:
    return f"{_HEAD}{_WAIT}\nmain() {{\nwait_for_locks {lock_wait_s}\n}}\n{_RUN}"


def finishing(lock_wait_s: int, words: Sequence[str]) -> str:
    """Work of an interrupted run: apt's own order of it is lost, the pin is not.

    `words`: what that run was to bring. A package that was being unpacked, and whose old version
    apt could have, apt calls repaired and leaves as it is.
    """
    timeout = f"DPkg::Lock::Timeout={max(lock_wait_s, 1)}"
    apt = f"{_APT} -o {timeout} --allow-downgrades --allow-change-held-packages"
    work = (
        f"dpkg --configure -a {_FORCE} || echo 'the rest is left to apt'\n"
        f"{apt} -f install || echo 'the rest is asked for by its names'\n"
        f"if dpkg-query -W -f '{STATUS}\\n' | grep -q -E '{UNFINISHED}'; then\n"
        f"{apt} {shlex.join(('install', *words))} || exit\nfi\n"
        f"rm -f {WORK_RECORD}"
    )
    say = "echo 'apt finishes the work of an interrupted run'"
    return _whole([f"wait_for_locks {lock_wait_s}", say, shlex.join(("apart", work))])


def _whole(lines: Iterable[str]) -> str:
    tools = f"{_HEAD}log={LOG}\nwork={WORK_RECORD}\n{_WAIT}{_APART}{_AS_ANNOUNCED}"
    body = "\n".join(lines)
    return f"{tools}\nmain() {{\n{body}\n}}\n{_RUN}"  # in part, it does nothing


def script(work: Installing) -> str:
    steps = [f"wait_for_locks {work.lock_wait_s}"]
    if work.unless:
        path, why = map(shlex.quote, work.unless)
        steps.append(f"if [ -e {path} ]; then echo {why} >&2; exit 1; fi")
    if work.repairs:
        steps += [
            "echo 'dpkg finishes interrupted work'",
            shlex.join(("apart", f"exec dpkg --configure -a {_FORCE}")),
        ]
    if work.printed:
        steps += [
            shlex.join(("as_announced", "\n".join(work.printed), *work.words)),
            f"packages={sum(line.startswith('Inst ') for line in work.printed)}",
            "echo 'apt is at work'",
            shlex.join(("apart", "\n".join(_acting(work)))),
        ]
    return _whole(steps)


def _acting(work: Installing) -> Iterator[str]:
    """Steps that must not be left half done."""
    yield "set -eu"
    yield SHELL.rstrip()
    yield _put(WORK_RECORD, work.work)
    if work.record_before is not None:
        yield _put(PACKAGES_RECORD, work.record_before)
    allow = ["--allow-downgrades"] if work.downgrades else []
    allow += ["--allow-change-held-packages"] if work.changes_held else []
    timeout = f"DPkg::Lock::Timeout={max(work.lock_wait_s, 1)}"
    yield f"{_APT} {shlex.join((*allow, '-o', timeout, 'install', *work.words))}"
    if work.hold_again:
        yield shlex.join(("apt-mark", "hold", *work.hold_again))
    if work.record_after is not None:
        yield _put(PACKAGES_RECORD, work.record_after)
    yield f"rm -f {WORK_RECORD}"


def _put(record: str, text: str) -> str:
    # Before packages change the record has to be on the disk, and under its name.
    return f"{shell_replace(record, 0o644, text.encode())}\nsync {record.rpartition('/')[0]}"
