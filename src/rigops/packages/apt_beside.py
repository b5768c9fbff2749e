"""The answers of apt with one more file of sources, without a change of the host.

apt is asked without its locks and without its cache of the lists, which it would write. The
question with one more file of sources is asked beside the host's own configuration:
everything that apt would write goes to a folder that lives as long as the question. Its lists are
links to the host's, and its configuration is the host's without what runs after an update. apt
learns of packages of the vault that are not on the host yet by the text of a `Packages` file.
"""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from typing import Final

from rigops.packages.sources import FILE
from rigops.vault.pinned_set import SOURCE as VAULT

LONGEST_S: Final = 120  # of fetching the lists of the one source

_INDEX: Final = "# rigops: the Packages file of the vault"

# The caller finds the lists in $lists, and errors of the source in $trouble.
# A configuration that is named in APT_CONFIG is read before the host's, hence the second one.
# apt puts a new file in the place of a link, and never writes through one.
BESIDE: Final = rf"""
lists=/var/lib/apt/lists trouble=
beside() {{
    umask 022
    scratch=$(mktemp -d /tmp/rigops-apt.XXXXXX) || {{ trouble="E: no folder in /tmp"; return 0; }}
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 143' HUP INT TERM
    chmod 755 "$scratch"
    main=/etc/apt/apt.conf one=/etc/apt/sources.list many=/etc/apt/sources.list.d
    eval "$(apt-config shell main Dir::Etc::main/f one Dir::Etc::sourcelist/f \
        many Dir::Etc::sourceparts/d lists Dir::State::lists/d)"
    mkdir -p "$scratch/lists/partial" "$scratch/sources.list.d"
    : >"$scratch/sources.list"
    part before "$1" >"$scratch/new.sources"
    [ ! -s "$scratch/new.sources" ] ||
        mv "$scratch/new.sources" "$scratch/sources.list.d/{PurePosixPath(FILE).name}"
    case $1 in *"{_INDEX}"*)
        mkdir "$scratch/vault"
        part behind "$1" >"$scratch/vault/Packages"
        echo "deb [trusted=yes] file:$scratch/vault ./" \
            >"$scratch/sources.list.d/{PurePosixPath(VAULT).name}"
    esac
    link "$scratch/lists/" "${{lists%/}}"/*_*
    configuration >"$scratch/apt.conf"
    echo "Dir::Etc::main \"$scratch/apt.conf\";" >"$scratch/first.conf"
    lists=$scratch/lists
    export APT_CONFIG="$scratch/first.conf"
    printed=$(timeout -k 5 {LONGEST_S} apt-get -q update 2>&1 </dev/null); code=$?
    [ "$code" != 124 ] || printed="$printed
E: this took more than {LONGEST_S} s"
    trouble=$(echo "$printed" | grep '^[EW]: ' |
        sed -E -e 's#(://)[^/@[:space:]]*@#\1***@#g' -e "s#$scratch/#/etc/apt/#g")
    rm "$scratch/sources.list"
    link "$scratch/sources.list" "$one"
    link "$scratch/sources.list.d/" "${{many%/}}"/*
    return 0
}}
part() {{
    printf '%s\n' "$2" | awk -v wanted="$1" -v mark="{_INDEX}" '
        $0 == mark {{ behind = 1; next }}
        behind == (wanted == "behind")'
}}
link() {{
    to=$1; shift
    for file; do
        [ -f "$file" ] || continue
        # Where there is one, the new one is in its place.
        [ -e "$scratch/sources.list.d/${{file##*/}}" ] || ln -s "$file" "$to"
    done
}}
configuration() {{
    [ ! -f "$main" ] || echo "#include \"$main\";"
    for hook in Pre-Invoke Post-Invoke Post-Invoke-Success; do
        echo "#clear APT::Update::$hook;"
    done
    echo "Dir::Etc::sourcelist \"$scratch/sources.list\";"
    echo "Dir::Etc::sourceparts \"$scratch/sources.list.d\";"
    echo "Dir::State::lists \"$scratch/lists\";"
    cat <<'END'
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Get::List-Cleanup "0";
Debug::NoLocking "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
Acquire::ftp::Timeout "20";
Acquire::Retries "1";
Acquire::PDiffs "0";
Acquire::Languages "en";
END
    # Lists that only other programs want, and whose names they chose.
    apt-config dump Acquire::IndexTargets::deb | sed -n 's/^\([^ ]*\)::MetaKey .*/\1/p' |
        grep -v -e '::Packages$' -e '::Translations$' |
        sed 's/$/::DefaultEnabled "0";/'
}}
"""


def with_index(source: str, index: str) -> str:
    """A text of sources, and the Packages file of the vault's set behind it."""
    return f"{source.rstrip()}\n{_INDEX}\n{index}".lstrip("\n") if index else source


def beside(source: str) -> str:
    """The call for this text of a file of sources; without one, apt is asked as it is."""
    return shlex.join(("beside", source)) if source else ""
