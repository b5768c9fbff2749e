"""Packages as dpkg has them, and what apt would do: asked without a change of the host."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase

from rigops.facts.sections import section_command, section_value
from rigops.packages import apt_simulated, dpkg
from rigops.packages.apt_beside import BESIDE, LONGEST_S, beside
from rigops.packages.apt_simulated import Simulated
from rigops.packages.dpkg import DpkgState
from rigops.packages.records import PACKAGES_RECORD
from rigops.probe.script import PATH
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines

# The first holder of a lock that installing takes, or that means that the lists are being renewed.
# The list moves while locks come and go, so it is read before anything is done about a line.
# Numbers of devices differ between /proc/locks and stat, so open files tell two inodes apart.
HOLDER: Final = r"""
holder() {
    locks=$(cat /proc/locks)
    for lock in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock \
        /var/cache/apt/archives/lock /var/lib/apt/lists/lock; do
        inode=$(stat -c %i "$lock" 2>/dev/null) || continue
        while read -r _ kind _ mode pid place _; do
            [ "$kind $mode ${place##*:}" = "POSIX WRITE $inode" ] || continue
            files=$(ls -l "/proc/$pid/fd" 2>/dev/null) || files=$lock
            case $files in *"$lock"*) echo "$pid $(program "$pid")"; return ;; esac
        done <<LOCKS
$locks
LOCKS
    done
    return 1
}
program() {
    tr '\0' '\n' 2>/dev/null <"/proc/$1/cmdline" | head -n 2 | {
        read -r first; read -r second
        case ${first##*/}:$second in
            python*:/* | perl*:/* | sh:/* | bash:/* | dash:/*) echo "${second##*/}" ;;
            *) echo "${first##*/}" ;;
        esac
    }
}
"""
# Names that no package has are not taken for patterns.
SIMULATE: Final = """
simulate() {
    apt-get -s -q -y --no-install-recommends --allow-downgrades --allow-change-held-packages \\
        -o Debug::NoLocking=1 -o APT::Cmd::Pattern-Only=true \\
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= "$@"
}
"""
STATUS: Final = "${db:Status-Abbrev}"
_ROW: Final = rf"{STATUS}\t${{Package}}\t${{Architecture}}\t${{Version}}\t${{Config-Version}}\n"
UNFINISHED: Final = r"^.([HUFWt]|.R)"

_APT_S: Final = 60  # it reads all lists again, twice, on a slow machine too

_STATE: Final = f"""{HOLDER}
state() {{
    block manager
    if [ -s /var/lib/dpkg/status ] && command -v apt-get >/dev/null; then
        echo apt-get
    else
        for one in dnf zypper pacman; do ! command -v "$one" >/dev/null || echo "$one"; done
        return 0
    fi
    block architecture; dpkg --print-architecture
    block packages; dpkg-query -W -f '{_ROW}' "$@" 2>/dev/null
    block unfinished; dpkg-query -W -f '{_ROW}' | grep -E '{UNFINISHED}'
    block updates; find /var/lib/dpkg/updates -name '[0-9]*'
    block holder; holder
    if [ -e {PACKAGES_RECORD} ]; then
        block owned
        [ ! -f {PACKAGES_RECORD} ] || cat {PACKAGES_RECORD}
    fi
    return 0
}}
"""
_ASK_APT: Final = f"""{BESIDE}{SIMULATE}
ask_apt() {{
    names=$1; shift
    block lists; find "$lists" -name '*_Packages*' | wc -l
    block age; date +%s
    stat -c %Y /var/lib/apt/periodic/update-success-stamp /var/lib/apt/lists \\
        /var/lib/apt/lists/partial 2>/dev/null
    block simulated; printed=$(simulate install "$@" 2>&1); code=$?; echo "$printed"
    [ "$code" = 0 ] || [ -z "$trouble" ] || echo "$trouble"
    block code; echo "$code"
    if [ "$code" != 0 ]; then
        block versions
        # shellcheck disable=SC2086  # several names
        apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= madison $names 2>/dev/null
    fi
    case $printed in *"
Inst "*) weigh "$@" ;; esac
    return 0
}}
weigh() {{
    # Not simulated, since a simulation does not weigh: it ends before it would do anything.
    block sizes
    apt-get -q -y --print-uris --no-install-recommends --allow-downgrades \\
        --allow-change-held-packages -o Debug::NoLocking=1 -o APT::Cmd::Pattern-Only=true \\
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= install "$@" 2>/dev/null
    block room
    eval "$(apt-config shell archives Dir::Cache::Archives/d)"
    room archives "${{archives:-/var/cache/apt/archives}}"
    room dpkg /var/lib/dpkg
    room usr /usr
    [ ! -d /boot ] || room boot /boot
    block boot
    stat -c '%s %n' /boot/initrd* /boot/initramfs* /boot/vmlinuz* 2>/dev/null
}}
room() {{ echo "$1 $(df -kP "$2" | tail -n 1)"; }}
"""
Uris = dict[str, tuple[str, ...]]  # by suite

_SNAPSHOT_S: Final = 60
_URI_ROW = re.compile(r"(?P<uri>\S+) (?P<suite>\S+)")

# Which service has snapshots of a suite, apt knows from the suite's own Release file, from its
# configuration, or since it was built. Without ReleaseInfo it names what it never fetched too.
_RESOLVE: Final = r"""
resolve() {
    scratch=$(mktemp -d /tmp/rigops-apt.XXXXXX) || return 0
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 143' HUP INT TERM
    number=0
    for stanza; do
        number=$((number + 1))
        printf '%s\n' "$stanza" >"$scratch/$number.sources"
        block "$number"
        # shellcheck disable=SC2016  # these are apt's
        apt-get -q -o Dir::Etc::sourcelist="$scratch/$number.sources" \
            -o Dir::Etc::sourceparts=/dev/null -o Debug::NoLocking=1 \
            -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
            -o APT::Get::IndexTargets::ReleaseInfo=0 \
            indextargets --format '$(REPO_URI) $(RELEASE)' 2>/dev/null | sort -u
    done
    return 0
}
"""


def packages_section(names: Iterable[str]) -> Section[DpkgState]:
    """What `Dpkg` asks, as a section that one probe can have beside others."""
    snippet = f"{_STATE}{shlex.join(('state', *sorted(names)))}"
    return Section(name="packages-of", snippet=snippet, parse=dpkg.parse, wants_root=True)


def simulated_section(words: Sequence[str], number: int, source: str = "") -> Section[Simulated]:
    """What `AptWould` asks, likewise. `number` distinguishes several in one probe."""
    return Section(
        name=f"apt-would-{number}",
        snippet=f"{_ASK_APT}{_asking(words, source)}",
        parse=apt_simulated.parse,
        timeout_s=_APT_S + (LONGEST_S if source else 0),
        wants_root=True,
    )


class Dpkg(FactBase[DpkgState]):
    """These packages in dpkg's own view."""

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, names: tuple[str, ...]
    ) -> StringCommand:
        return _shell(f"{_STATE}{shlex.join(('state', *names))}")

    def process(self, output: list[str]) -> DpkgState:
        return dpkg.parse("\n".join(output))

    @staticmethod
    def default() -> DpkgState:
        return DpkgState()


class AptWould(FactBase[Simulated]):
    """The plan of apt for words such as `name`, `name=version` and `name-`.

    `source`: the text of a file of sources, as if it were there already.
    """

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, words: tuple[str, ...], source: str = ""
    ) -> StringCommand:
        return _shell(f"{_ASK_APT}{_asking(words, source)}")

    def process(self, output: list[str]) -> Simulated:
        return apt_simulated.parse("\n".join(output))

    @staticmethod
    def default() -> Simulated:
        return Simulated()


def _asking(words: Sequence[str], source: str) -> str:
    names = " ".join(word.partition("=")[0].removesuffix("-") for word in words)
    return "\n".join((beside(source), shlex.join(("ask_apt", names, *words))))


def _shell(text: str) -> StringCommand:
    whole = (
        f"PATH={PATH}; export PATH LC_ALL=C DEBIAN_FRONTEND=noninteractive\nunset CDPATH\n"
        f"block() {{ printf '\\n== %s\\n' \"$*\"; }}\n{text}"
    )
    return StringCommand("sh", "-c", QuoteString(whole))


def snapshot_section(stanzas: Sequence[str]) -> Section[tuple[Uris, ...]]:
    asked = shlex.join(("resolve", *stanzas))
    return Section(
        name="apt-snapshot",
        snippet=f"{_RESOLVE}if command -v apt-get >/dev/null; then\n{asked}\nfi\nexit 0\n",
        parse=parse_uris,
        timeout_s=_SNAPSHOT_S,
        wants_root=True,
    )


def parse_uris(text: str) -> tuple[Uris, ...]:
    return tuple(map(_of_stanza, blocks(text).values()))


def _of_stanza(text: str) -> Uris:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines(text):
        if row := _URI_ROW.fullmatch(line.strip()):
            found[row["suite"]][row["uri"]] = None
    return {suite: tuple(uris) for suite, uris in found.items()}


class AptSnapshot(FactBase[tuple[Uris, ...]]):
    """For each of these stanzas the URIs that apt takes its suites from."""

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, stanzas: tuple[str, ...]
    ) -> StringCommand:
        return section_command(snapshot_section(stanzas))

    def process(self, output: list[str]) -> tuple[Uris, ...]:
        return section_value(snapshot_section(()), output)

    @staticmethod
    def default() -> tuple[Uris, ...]:
        return ()
