"""Packages as dpkg has them, and what apt would do about a wish: asked without touching anything.

apt is asked without its locks and without its cache of the lists, which it would write.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase

from rigops.facts import apt_beside, apt_simulated, dpkg_state
from rigops.facts.apt_simulated import Simulated
from rigops.facts.dpkg_state import DpkgState
from rigops.owned.packages import RECORD
from rigops.probe.script import PATH
from rigops.probe.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The first who holds a lock that installing takes, or that means that the lists are being renewed.
# Numbers of devices differ between /proc/locks and stat, so open files tell two inodes apart.
HOLDER: Final = r"""
holder() {
    for lock in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock \
        /var/cache/apt/archives/lock /var/lib/apt/lists/lock; do
        inode=$(stat -c %i "$lock" 2>/dev/null) || continue
        while read -r _ kind _ mode pid place _; do
            [ "$kind $mode ${place##*:}" = "POSIX WRITE $inode" ] || continue
            files=$(ls -l "/proc/$pid/fd" 2>/dev/null) || files=$lock
            case $files in *"$lock"*) echo "$pid $(program "$pid")"; return ;; esac
        done </proc/locks
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
_ROW: Final = rf"{STATUS}\t${{Package}}\t${{Architecture}}\t${{Version}}\n"
UNFINISHED: Final = r"^.([HUFWt]|.R)"

_APT_S: Final = 60  # it reads all lists anew, twice, on a slow machine too

_STATE: Final = f"""{HOLDER}
state() {{
    echo "== manager"
    if [ -s /var/lib/dpkg/status ] && command -v apt-get >/dev/null; then
        echo apt-get
    else
        for one in dnf zypper pacman; do ! command -v "$one" >/dev/null || echo "$one"; done
        return 0
    fi
    echo "== architecture"; dpkg --print-architecture
    echo "== packages"; dpkg-query -W -f '{_ROW}' "$@" 2>/dev/null
    echo "== unfinished"; dpkg-query -W -f '{_ROW}' | grep -E '{UNFINISHED}'
    echo "== updates"; find /var/lib/dpkg/updates -name '[0-9]*'
    echo "== holder"; holder
    if [ -f {RECORD} ]; then echo "== owned"; cat {RECORD}; fi
    return 0
}}
"""
_ASK_APT: Final = f"""{apt_beside.BESIDE}{SIMULATE}
ask_apt() {{
    names=$1; shift
    echo "== lists"; find "$lists" -name '*_Packages*' | wc -l
    echo "== age"; date +%s
    stat -c %Y /var/lib/apt/periodic/update-success-stamp /var/lib/apt/lists \\
        /var/lib/apt/lists/partial 2>/dev/null
    echo "== simulated"; said=$(simulate install "$@" 2>&1); code=$?; echo "$said"
    [ "$code" = 0 ] || [ -z "$trouble" ] || echo "$trouble"
    echo "== code"; echo "$code"
    if [ "$code" != 0 ]; then
        echo "== versions"
        # shellcheck disable=SC2086  # several names
        apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= madison $names 2>/dev/null
    fi
    case $said in *"
Inst "*) weigh "$@" ;; esac
    return 0
}}
weigh() {{
    # Not simulated, since a simulation does not weigh: it ends before it would do anything.
    echo "== sizes"
    apt-get -q -y --print-uris --no-install-recommends --allow-downgrades \\
        --allow-change-held-packages -o Debug::NoLocking=1 -o APT::Cmd::Pattern-Only=true \\
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= install "$@" 2>/dev/null
    echo "== room"
    eval "$(apt-config shell archives Dir::Cache::Archives/d)"
    room archives "${{archives:-/var/cache/apt/archives}}"
    room dpkg /var/lib/dpkg
    room usr /usr
    [ ! -d /boot ] || room boot /boot
    echo "== boot"
    stat -c '%s %n' /boot/initrd* /boot/initramfs* /boot/vmlinuz* 2>/dev/null
}}
room() {{ echo "$1 $(df -kP "$2" | tail -n 1)"; }}
"""


def packages_section(names: Iterable[str]) -> Section[DpkgState]:
    """As one section of a probe, for those who want to ask together with other things."""
    snippet = f"{_STATE}{shlex.join(('state', *sorted(names)))}"
    return Section(name="packages-of", snippet=snippet, parse=dpkg_state.parse, wants_root=True)


def simulated_section(words: Sequence[str], number: int, source: str = "") -> Section[Simulated]:
    """What apt would do, likewise. The number tells several of them apart."""
    return Section(
        name=f"apt-would-{number}",
        snippet=f"{_ASK_APT}{_asking(words, source)}",
        parse=apt_simulated.parse,
        timeout_s=_APT_S + (apt_beside.LONGEST_S if source else 0),
        wants_root=True,
    )


class Dpkg(FactBase[DpkgState]):
    """These packages in dpkg's own view."""

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, names: tuple[str, ...]
    ) -> StringCommand:
        return _shell(f"{_STATE}{shlex.join(('state', *names))}")

    def process(self, output: list[str]) -> DpkgState:
        return dpkg_state.parse("\n".join(output))

    @staticmethod
    def default() -> DpkgState:
        return DpkgState()


class AptWould(FactBase[Simulated]):
    """What apt would do for these words, such as `name`, `name=version` and `name-`.

    With a source, which is the text of a file of them, as if that were there already.
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
    return "\n".join((apt_beside.beside(source), shlex.join(("ask_apt", names, *words))))


def _shell(text: str) -> StringCommand:
    whole = (
        f"PATH={PATH}; export PATH LC_ALL=C DEBIAN_FRONTEND=noninteractive\nunset CDPATH\n{text}"
    )
    return StringCommand("sh", "-c", QuoteString(whole))
