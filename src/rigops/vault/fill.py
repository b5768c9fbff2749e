"""The sh script that stores the packages of a host's driver in its vault, and its output. Pure.

The digest of a package is the one in apt's signed lists; for a package that no source has any more,
the one known from before. Files come from the vault itself, from apt's cache, or are downloaded.
Packages that autoremove would remove with the driver came with it, and are stored with it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from rigops.atomic_file import SHELL, SHELL_SETTLE, shell_replace
from rigops.dataclass import dataclass
from rigops.probe.package_names import RUN_FILE, RUN_FILE_ARCHITECTURE
from rigops.probe.script import PATH
from rigops.probe.text import blocks, lines
from rigops.vault.pinned_set import (
    FOLDER,
    POOL,
    RECORD,
    RUN_FILE_PREFIX,
    PinnedPackage,
    PinnedSet,
    document,
    stanzas,
)

MOST_BYTES: Final = 4 * 10**9  # of a driver's packages; real ones have a quarter of that at most
_SPARE: Final = 256 * 1024  # KiB that stay free

_STORED = re.compile(
    r"(?P<name>\S+) (?P<version>\S+) (?P<architecture>\S+) (?P<digest>[0-9a-f]{64}) "
    r"(?P<size>[0-9]{1,15})"
)

_SCRIPT: Final = f"""\
set -eu
PATH={PATH}
export PATH LC_ALL=C DEBIAN_FRONTEND=noninteractive
unset CDPATH
umask 022
would_go() {{
    apt-get -s -q -y --allow-change-held-packages -o Debug::NoLocking=1 "$@" 2>/dev/null |
        sed -n 's/^\\(Remv\\|Purg\\) \\([^ :]*\\)[^ ]* .*/\\2/p' | sort -u
}}
# Packages that only the driver needs.
company() {{
    would_go autoremove >"$work/needless"
    would_go purge --autoremove "$@" >"$work/gone"
    apt-cache -q depends --recurse --installed --no-recommends --no-suggests --no-conflicts \\
        --no-breaks --no-replaces --no-enhances "$@" 2>/dev/null |
        grep '^[a-z0-9][^:]*$' | sort -u >"$work/needed"
    grep -F -x -f "$work/needed" "$work/gone" | grep -v -F -x -f "$work/needless" || :
}}
row() {{
    form='${{db:Status-Status}} ${{Package}} ${{Version}} ${{Architecture}}\n'
    dpkg-query -W -f "$form" "$1" 2>/dev/null | sed -n 's/^installed //p' | head -n 1
}}
digest_of() {{ sha256sum <"$1" | cut -d ' ' -f 1; }}
file_of() {{ # NAME VERSION ARCHITECTURE
    case $1 in
        {RUN_FILE}) echo "{RUN_FILE_PREFIX}$2.run" ;;
        *) echo "$1_${{2#*:}}_$3.deb" ;;
    esac
}}
is_known() {{ grep -q -F -x "$1 $2 $3" "$work/digests"; }} # NAME VERSION DIGEST
taken() {{ # FILE NAME VERSION: where it is one of those that count
    [ -f "$1" ] && [ ! -L "$1" ] && is_known "$2" "$3" "$(digest_of "$1")"
}}
{SHELL_SETTLE}enter() {{ # FILE from elsewhere, and its name in the pool
    cp "$1" "{POOL}/$2.rigops-new"
    settle "{POOL}/$2"
}}
fill() {{
    mkdir -p {POOL}
    chmod 755 {FOLDER} {POOL}
    rm -f {POOL}/*.rigops-new
    rm -rf {FOLDER}/work.??????
    work=$(mktemp -d {FOLDER}/work.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 143' HUP INT TERM
    # shellcheck disable=SC2086  # several names
    for name in $names $(company $names); do row "$name"; done | sort -u >"$work/wanted"
    [ -z "$run_file" ] || echo "{RUN_FILE} $run_file {RUN_FILE_ARCHITECTURE}" >>"$work/wanted"
    # shellcheck disable=SC2046  # several words
    apt-cache show -a $(sed 's/ .*//' "$work/wanted") 2>/dev/null | awk '
        function over() {{ if (sum != "") print name, version, sum, size; sum = "" }}
        /^Package: / {{ over(); name = $2 }}
        /^Version: / {{ version = $2 }}
        /^Size: / {{ size = $2 }}
        /^SHA256: / {{ sum = $2 }}
        END {{ over() }}' >"$work/listed"
    {{ cut -d ' ' -f 1-3 "$work/listed"; printf '%s\\n' "$known"; }} >"$work/digests"
    eval "$(apt-config shell archives Dir::Cache::Archives/d)"
    : >"$work/lacking"
    while read -r name version architecture; do
        file=$(file_of "$name" "$version" "$architecture")
        cached=${{archives%/}}/${{name}}_$(echo "$version" | sed 's/:/%3a/')_$architecture.deb
        if taken "{POOL}/$file" "$name" "$version"; then :
        elif taken "$cached" "$name" "$version"; then enter "$cached" "$file"
        else echo "$name $version $architecture" >>"$work/lacking"; fi
    done <"$work/wanted"
    download
    echo "== stored"
    while read -r name version architecture; do
        file=$(file_of "$name" "$version" "$architecture")
        ! taken "{POOL}/$file" "$name" "$version" ||
            echo "$name $version $architecture $(digest_of "{POOL}/$file")" \\
                "$(stat -c %s "{POOL}/$file")"
    done <"$work/wanted"
    echo "== control"
    while read -r name version architecture; do
        file=$(file_of "$name" "$version" "$architecture")
        [ -f "{POOL}/$file" ] || continue
        case $file in
            *.run) printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' \
                "$name" "$version" "$architecture" ;;
            *) dpkg-deb -f "{POOL}/$file" ;;
        esac
        echo
    done <"$work/wanted"
}}
download() {{
    mkdir "$work/new"
    words=
    need=0
    while read -r name version architecture; do
        size=$(sed -n "s/^$name $version [0-9a-f]* //p" "$work/listed" | head -n 1)
        [ -n "$size" ] || continue
        need=$((need + size / 1024 + 1))
        words="$words $name=$version"
    done <"$work/lacking"
    [ -n "$words" ] || return 0
    free=$(df -kP {POOL} | awk 'NR == 2 {{ print $4 }}')
    if [ "$free" -lt $((2 * need + {_SPARE})) ]; then
        echo "== trouble"
        echo "it needs $((need / 1000)) MB and {FOLDER} has $((free / 1000)) MB free"
        return 0
    fi
    # shellcheck disable=SC2086  # several words
    printed=$(cd "$work/new" && apt-get -q -y download $words 2>&1) || {{
        echo "== trouble"
        echo "$printed" | grep '^E: ' | sed -E 's#(://)[^/@[:space:]]*@#\\1***@#g' | head -n 3
    }}
    for new in "$work"/new/*.deb; do
        [ -f "$new" ] || continue
        set -- "$(dpkg-deb -f "$new" Package)" "$(dpkg-deb -f "$new" Version)" \\
            "$(dpkg-deb -f "$new" Architecture)"
        ! taken "$new" "$1" "$2" || enter "$new" "$1_${{2#*:}}_$3.deb"
    done
}}
"""
_MODE: Final = 0o644
_WRITE: Final = """\
set -eu
umask 022
prune() {
    for file; do
        case "
$stay
" in *"
$file
"*) ;; *) rm -f "$file" ;; esac
    done
}
"""


@dataclass(frozen=True)
class Filled:
    """The stored packages, with their control fields. `trouble`: why packages may be missing."""

    records: tuple[tuple[PinnedPackage, Mapping[str, str]], ...] = ()
    trouble: str = ""

    @property
    def packages(self) -> tuple[PinnedPackage, ...]:
        return tuple(sorted((one for one, _ in self.records), key=lambda one: one.file))


def script(names: Iterable[str], known: Iterable[PinnedPackage], run_file: str = "") -> str:
    """`names`: installed packages to store. `known`: digests that count beside those of apt.

    `run_file`: the version of the .run file that the driver came in, which is in the pool.
    """
    digests = "\n".join(f"{one.name} {one.version} {one.sha256}" for one in known)
    words = " ".join(map(shlex.quote, names))
    return (
        f"{_SCRIPT}names={shlex.quote(words)}\nknown={shlex.quote(digests)}\n"
        f"run_file={shlex.quote(run_file)}\n"
        "fill </dev/null\nexit\n"
    )


def parse(text: str) -> Filled:
    found = blocks(text)
    shapes = filter(None, map(_STORED.fullmatch, lines(found.get("stored", ""))))
    packages = {
        (shape["name"], shape["version"]): PinnedPackage(
            shape["name"], shape["version"], shape["architecture"], shape["digest"],
            int(shape["size"]),
        )
        for shape in shapes
    }  # fmt: skip
    records = {
        (one.get("Package", ""), one.get("Version", "")): one
        for one in stanzas(found.get("control", ""))
    }
    return Filled(
        records=tuple((its, records[key]) for key, its in packages.items() if key in records),
        trouble="; ".join(line for line in lines(found.get("trouble", "")) if line.strip()),
    )


def record_script(sets: Collection[PinnedSet], new: PinnedSet, index: str) -> str:
    """Write the record of these sets, of which one may be new, and remove what is in none.

    `lists` and `*.signatures` are of version 0.1; nothing reads them.
    """
    stay = [
        *(one.index_file for one in sets),
        *(f"{POOL}/{its.file}" for one in sets for its in one.packages),
    ]
    lines_ = (
        shell_replace(new.index_file, _MODE, index.encode()),
        shell_replace(RECORD, _MODE, document(sets).encode()),
        f"stay={shlex.quote(chr(10).join(stay))}",
        f"prune {POOL}/* {FOLDER}/*.packages",
        f"rm -rf {FOLDER}/lists {FOLDER}/*.signatures",
    )
    body = "\n".join(lines_)
    return f"{_WRITE}{SHELL}main() {{\n{body}\n}}\nmain </dev/null\nexit\n"
