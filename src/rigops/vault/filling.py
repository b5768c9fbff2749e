"""The sh script that has a host keep the packages of its driver, and what it tells. Pure.

apt says by its signed lists which digest a package has; what apt still has of its own downloads is
taken from there. For a package that no source has any more, the digest known from before counts.
What would go with the driver as needless came with it, and is kept with it.
"""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops.driver.run_file import ARCHITECTURE
from rigops.probe.package_names import RUN_FILE
from rigops.probe.script import PATH
from rigops.probe.text import blocks, lines
from rigops.vault.index import stanzas
from rigops.vault.kept import CALLED, FOLDER, POOL, RECORD, KeptPackage, document
from rigops.vault.signatures import LISTS, Signatures, read
from rigops.vault.signatures import document as signatures_document

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rigops.vault.kept import KeptSet

_ROOM: Final = 256 * 1024  # KiB that stay free
_SIGNATURES: Final = ".signatures"

_KEPT = re.compile(
    r"(?P<name>\S+) (?P<version>\S+) (?P<architecture>\S+) (?P<digest>[0-9a-f]{64}) (?P<size>\d+)"
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
# What the driver needs and nothing else does.
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
        {RUN_FILE}) echo "{CALLED}$2.run" ;;
        *) echo "$1_${{2#*:}}_$3.deb" ;;
    esac
}}
is_known() {{ grep -q -F -x "$1 $2 $3" "$work/digests"; }} # NAME VERSION DIGEST
taken() {{ # FILE NAME VERSION: where it is one of those that count
    [ -f "$1" ] && [ ! -L "$1" ] && is_known "$2" "$3" "$(digest_of "$1")"
}}
entered() {{ # FILE from elsewhere, and its name in the pool
    cp "$1" "{POOL}/$2.rigops-new"
    sync "{POOL}/$2.rigops-new"
    mv -f "{POOL}/$2.rigops-new" "{POOL}/$2"
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
    [ -z "$run_file" ] || echo "{RUN_FILE} $run_file {ARCHITECTURE}" >>"$work/wanted"
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
        elif taken "$cached" "$name" "$version"; then entered "$cached" "$file"
        else echo "$name $version $architecture" >>"$work/lacking"; fi
    done <"$work/wanted"
    download
    echo "== kept"
    while read -r name version architecture; do
        file=$(file_of "$name" "$version" "$architecture")
        if taken "{POOL}/$file" "$name" "$version"; then
            echo "$name $version $architecture $(digest_of "{POOL}/$file")" \\
                "$(stat -c %s "{POOL}/$file")"
        else
            echo "$name $version" >>"$work/lost"
        fi
    done <"$work/wanted"
    echo "== lost"
    [ ! -f "$work/lost" ] || cat "$work/lost"
    echo "== lists"
    for file in {LISTS}/*; do
        [ ! -f "$file" ] || [ "$(digest_of "$file")" != "${{file##*/}}" ] || echo "${{file##*/}}"
    done
    for file in {FOLDER}/*.signatures; do
        [ ! -f "$file" ] || {{ echo "== $file"; cat "$file"; }}
    done
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
    if [ "$free" -lt $((2 * need + {_ROOM})) ]; then
        echo "== trouble"
        echo "it needs $((need / 1000)) MB and {FOLDER} has $((free / 1000)) MB free"
        return 0
    fi
    # shellcheck disable=SC2086  # several words
    said=$(cd "$work/new" && apt-get -q -y download $words 2>&1) || {{
        echo "== trouble"
        echo "$said" | grep '^E: ' | sed -E 's#(://)[^/@[:space:]]*@#\\1***@#g' | head -n 3
    }}
    for new in "$work"/new/*.deb; do
        [ -f "$new" ] || continue
        set -- "$(dpkg-deb -f "$new" Package)" "$(dpkg-deb -f "$new" Version)" \\
            "$(dpkg-deb -f "$new" Architecture)"
        ! taken "$new" "$1" "$2" || entered "$new" "$1_${{2#*:}}_$3.deb"
    done
}}
"""
_WRITE: Final = """\
set -eu
umask 022
put() {
    base64 -d >"$1.rigops-new"
    sync "$1.rigops-new"
    mv -f "$1.rigops-new" "$1"
}
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
    """`lost`: packages that are nowhere to be had any more, with their versions.

    `signatures` are those that were kept before, by their files; `lists` the files that they name.
    """

    records: tuple[tuple[KeptPackage, Mapping[str, str]], ...] = ()
    lost: tuple[str, ...] = ()
    trouble: str = ""
    signatures: Mapping[str, Signatures] = field(default_factory=dict)
    lists: frozenset[str] = frozenset()

    @property
    def packages(self) -> tuple[KeptPackage, ...]:
        return tuple(sorted((one for one, _ in self.records), key=lambda one: one.file))


def script(names: Iterable[str], known: Iterable[KeptPackage], run_file: str = "") -> str:
    """`names`: the packages to keep, as they are installed. `known`: digests that count as well.

    `run_file`: the version of that which the driver came in; the pool has it since then.
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
    shapes = filter(None, map(_KEPT.fullmatch, lines(found.get("kept", ""))))
    packages = {
        (shape["name"], shape["version"]): KeptPackage(
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
        lost=tuple(line for line in lines(found.get("lost", "")) if line.strip()),
        trouble="; ".join(line for line in lines(found.get("trouble", "")) if line.strip()),
        signatures={head: read(body) for head, body in found.items() if head.endswith(_SIGNATURES)},
        lists=frozenset(lines(found.get("lists", ""))),
    )


def writing(
    sets: Collection[KeptSet], new: KeptSet, index: str, signatures: Mapping[str, Signatures]
) -> str:
    """The record of these sets, of which one may be new; what none of them has goes.

    `signatures`: who signed their packages, by their files.
    """
    stay = [
        *(file for one in sets for file in (one.index_file, one.signatures_file)),
        *(f"{POOL}/{its.file}" for one in sets for its in one.packages),
        *(
            f"{LISTS}/{file}"
            for one in sets
            for file in signatures.get(one.signatures_file, Signatures()).files
        ),
    ]
    signed = signatures.get(new.signatures_file, Signatures())
    lines_ = (
        _put(new.index_file, index),
        _put(new.signatures_file, signatures_document(signed, new.packages)),
        _put(RECORD, document(sets)),
        f"stay={shlex.quote(chr(10).join(stay))}",
        f"prune {POOL}/* {LISTS}/* {FOLDER}/*.packages {FOLDER}/*.signatures",
    )
    body = "\n".join(lines_)
    return f"{_WRITE}main() {{\n{body}\n}}\nmain </dev/null\nexit\n"


def _put(path: str, text: str) -> str:
    # base64 has no character that ends the here-document or means something to the shell.
    return f"put {path} <<'RIGOPS_END'\n{b64encode(text.encode()).decode()}\nRIGOPS_END"
