"""The sh script that has a host keep what signed its driver's packages, and what it tells. Pure.

apt has the lists of its sources: which index has a package by its digest, and the release that has
that index. Who signed the release is asked of gpgv, with the keyrings that apt would take.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from rigops.probe.script import PATH
from rigops.probe.text import blocks, lines
from rigops.vault.chain import LARGEST
from rigops.vault.kept import FOLDER
from rigops.vault.signatures import LISTS, Signatures, SignedIndex, SignedRelease

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rigops.vault.kept import KeptPackage

_RELEASE: Final = "release "
_INDEX: Final = "index "
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_SAID: Final = 8  # lines of gpgv
_PAIR: Final = 2

_SCRIPT: Final = f"""\
set -eu
PATH={PATH}
export PATH LC_ALL=C
unset CDPATH
umask 022
hide() {{ sed -E 's#(://)[^/@[:space:]]*@#\\1***@#g'; }}
digest_of() {{ sha256sum <"$1" | cut -d ' ' -f 1; }}
kept() {{ # FILE: it is kept under its digest, which is told
    as=$(digest_of "$1")
    if [ ! -f "{LISTS}/$as" ] || [ "$(digest_of "{LISTS}/$as")" != "$as" ]; then
        cp "$1" "{LISTS}/$as.rigops-new"
        sync "{LISTS}/$as.rigops-new"
        mv -f "{LISTS}/$as.rigops-new" "{LISTS}/$as"
    fi
    echo "$as"
}}
# What gpgv can read, and whose that is: a line for each keyring that a source or apt itself names.
keyrings() {{
    one=/etc/apt/sources.list many=/etc/apt/sources.list.d
    own=/etc/apt/trusted.gpg parts=/etc/apt/trusted.gpg.d
    eval "$(apt-config shell one Dir::Etc::sourcelist/f many Dir::Etc::sourceparts/d \\
        own Dir::Etc::trusted/f parts Dir::Etc::trustedparts/d)"
    for file in "$one" "${{many%/}}"/*.list "${{many%/}}"/*.sources; do
        [ ! -f "$file" ] || grep -v '^[[:space:]]*#' "$file" || :
    done >"$work/sources"
    {{
        tr -s '],=[[:space:]' '\\n' <"$work/sources" | grep '^/' || :
        for file in "$own" "${{parts%/}}"/*.gpg "${{parts%/}}"/*.asc; do echo "$file"; done
    }} | awk '!seen[$0]++' >"$work/names"
    mkdir "$work/keys"
    number=0
    while read -r file; do
        [ -f "$file" ] || continue
        number=$((number + 1))
        if grep -q -e '-----BEGIN PGP PUBLIC KEY BLOCK-----' "$file"; then
            bared "$file" "$number" "$file"
        else
            echo "$file|$file"
        fi
    done <"$work/names"
    bared "$work/sources" 0 "a key in the sources"
}}
bared() {{ # FILE NUMBER NAME: keys that are written as text
    awk -v base="$work/keys/$2" '
        /-----BEGIN PGP PUBLIC KEY BLOCK-----/ {{ part++; state = 1; next }}
        /-----END PGP/ {{ state = 0 }}
        state == 1 && /^[ \\t]*[.]?[ \\t\\r]*$/ {{ state = 2; next }}
        state == 2 && /^[ \\t]*=/ {{ state = 0 }}
        state == 2 {{ gsub(/[ \\t\\r]/, ""); print >(base "." part ".text") }}' "$1"
    for text in "$work/keys/$2".*.text; do
        [ -f "$text" ] || continue
        ! base64 -d <"$text" >"${{text%.text}}" 2>/dev/null || echo "${{text%.text}}|$3"
    done
}}
# As apt has it: one good signature is enough, a bad one too much, and old digests are none.
signer() {{ # FILE...: as gpgv takes them
    command -v gpgv >/dev/null || {{ echo "said there is no gpgv"; return 0; }}
    : >"$work/said"
    while IFS='|' read -r ring name; do
        gpgv --homedir "$work" --status-fd 1 --keyring "$ring" "$@" \\
            >"$work/status" 2>"$work/told" </dev/null || :
        awk '
            $1 != "[GNUPG:]" {{ next }}
            $2 == "BADSIG" {{ bad = 1 }}
            $2 ~ /^(GOOD|EXP|EXPKEY|REVKEY|BAD|ERR)SIG$/ {{ good = $2 == "GOODSIG" }}
            $2 == "VALIDSIG" && good && $10 >= 8 {{ keys = keys "key " ($12 ? $12 : $3) "\\n" }}
            END {{ if (!bad) printf "%s", keys }}' "$work/status" >"$work/good"
        [ -s "$work/said" ] || sed 's/^gpgv: */said /' "$work/told" >"$work/said"
        if [ -s "$work/good" ]; then
            echo "keyring $name"
            cat "$work/good"
            sed 's/^gpgv: */said /' "$work/told" >"$work/said"
            break
        fi
    done <"$work/rings"
    head -n {_MOST_SAID} "$work/said"
}}
looked_at() {{ # PREFIX AT: the release, once; AT.how says what it is worth
    [ ! -f "$2.how" ] || return 0
    echo unsigned >"$2.how"
    if [ -f "$1InRelease" ] && grep -q '^-----BEGIN PGP SIGNATURE-----' "$1InRelease"; then
        cp "$1InRelease" "$2.text"
        signer "$2.text" >"$2.told"
    elif [ -f "$1Release" ] && [ -f "$1Release.gpg" ]; then
        cp "$1Release" "$2.text"
        cp "$1Release.gpg" "$2.signature"
        signer "$2.signature" "$2.text" >"$2.told"
    else
        return 0
    fi
    echo unknown >"$2.how"
    ! grep -q '^keyring ' "$2.told" || echo known >"$2.how"
}}
told() {{ # AT SOURCE: the release, once; its digest is left in $release
    release=$(kept "$1.text")
    [ ! -f "$1.is-told" ] || return 0
    : >"$1.is-told"
    echo "== {_RELEASE}$release"
    [ ! -f "$1.signature" ] || echo "signature $(kept "$1.signature")"
    echo "source $2"
    cat "$1.told"
}}
sought() {{ # known|unknown: in the indexes of such releases
    while IFS='|' read -r file path source; do
        [ -s "$work/lacking" ] || return 0
        prefix=${{file%"$(echo "$path" | tr / _)"*}}
        [ "$prefix" != "$file" ] || continue
        at=$work/releases/$(echo "$prefix" | sha256sum | cut -c 1-16)
        looked_at "$prefix" "$at"
        [ "$(cat "$at.how")" = "$1" ] || continue
        /usr/lib/apt/apt-helper cat-file "$file" 2>/dev/null | head -c {LARGEST + 1} >"$work/index"
        if [ "$(stat -c %s "$work/index")" -gt {LARGEST} ]; then
            echo "== trouble"
            echo "$path of $source is larger than {LARGEST // 2**20} MB"
            continue
        fi
        awk 'NR == FNR {{ wanted[$1] = 1; next }}
            /^SHA256: / && ($2 in wanted) {{ print $2 }}' \\
            "$work/lacking" "$work/index" >"$work/here"
        [ -s "$work/here" ] || continue
        gzip -n <"$work/index" >"$work/packed"
        told "$at" "$source"
        packed=$(kept "$work/packed")
        echo "== {_INDEX}$packed"
        echo "path $path"
        echo "sha256 $(digest_of "$work/index")"
        echo "size $(stat -c %s "$work/index")"
        echo "release $release"
        echo "== packages"
        sed "s/\\$/ $packed/" "$work/here"
        grep -v -F -x -f "$work/here" "$work/lacking" >"$work/left" || :
        mv "$work/left" "$work/lacking"
    done <"$work/targets"
}}
sign() {{
    mkdir -p {LISTS}
    chmod 755 {LISTS}
    rm -f {LISTS}/*.rigops-new
    work=$(mktemp -d {FOLDER}/work.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 143' HUP INT TERM
    mkdir "$work/releases"
    echo "$wanted" >"$work/lacking"
    keyrings >"$work/rings"
    apt-get -q indextargets --format '$(FILENAME)|$(METAKEY)|$(REPO_URI) $(RELEASE)' \\
        'Created-By: Packages' 2>/dev/null | hide >"$work/targets"
    sought known
    sought unknown
}}
"""


def script(packages: Iterable[KeptPackage]) -> str:
    digests = "\n".join(dict.fromkeys(one.sha256 for one in packages))
    return f"{_SCRIPT}wanted={shlex.quote(digests)}\nsign </dev/null\nexit\n"


def parse(text: str) -> tuple[Signatures, tuple[str, ...]]:
    """What signed which package, and what could not be looked at."""
    found = blocks(text)
    rows = (line.split() for line in lines(found.get("packages", "")))
    signatures = Signatures(
        tuple(_releases(found)),
        tuple(_indexes(found)),
        {row[0]: row[1] for row in rows if len(row) == _PAIR and all(map(_is_digest, row))},
    )
    return signatures, tuple(line for line in lines(found.get("trouble", "")) if line.strip())


def _releases(found: Mapping[str, str]) -> Iterable[SignedRelease]:
    for head, body in found.items():
        said = _words(body)
        text = head.removeprefix(_RELEASE) if head.startswith(_RELEASE) else ""
        signature = said["signature"][0] if said["signature"] else ""
        if _is_digest(text) and (not signature or _is_digest(signature)):
            yield SignedRelease(
                text=text,
                signature=signature,
                source=" ".join(said["source"]),
                keyring=" ".join(said["keyring"]),
                keys=tuple(dict.fromkeys(said["key"])),
                said=tuple(said["said"]),
            )


def _indexes(found: Mapping[str, str]) -> Iterable[SignedIndex]:
    for head, body in found.items():
        said = {name: " ".join(values) for name, values in _words(body).items()}
        digests = (head.removeprefix(_INDEX), said.get("sha256", ""), said.get("release", ""))
        size = said.get("size", "")
        if head.startswith(_INDEX) and all(map(_is_digest, digests)) and size.isdecimal():
            yield SignedIndex(
                file=digests[0],
                path=said.get("path", ""),
                sha256=digests[1],
                size=int(size),
                release=digests[2],
            )


def _words(body: str) -> defaultdict[str, list[str]]:
    """A name and what follows it, a line each. Text of the host is without control characters."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines(body):
        name, _, value = line.partition(" ")
        found[name].append("".join(filter(str.isprintable, value)).strip())
    return found


def _is_digest(word: str) -> bool:
    return _DIGEST.fullmatch(word) is not None
