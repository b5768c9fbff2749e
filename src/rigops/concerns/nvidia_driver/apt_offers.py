"""The driver's packages in the host's apt, and their sources: the section, and its parser."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from rigops.concerns.nvidia_driver.resolver.offers import (
    Offer,
    Offers,
    Origin,
    in_order,
    offer_of,
)
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.dataclass import dataclass
from rigops.packages import apt_beside, sources
from rigops.packages.sources import Releases, Source
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines
from rigops.vault.pinned_set import stanzas

NAME: Final = "driver-offers"
_APT_S: Final = 60  # it reads all lists four times, on a slow machine too

# Of modules that were built for kernels beforehand only what leads to them: there is one for each
# kernel that ever was.
_OF_THE_DRIVER: Final = (
    r"^((lib)?nvidia-.*|libcuda1|libcudadebugger1|libnvcuvid1|libnvoptix1|firmware-nvidia-.*"
    r"|xserver-xorg-video-nvidia.*|lib(gl1|egl|gles|gles1|gles2|glx)-nvidia.*|cuda-drivers.*"
    r"|linux-modules-nvidia-[0-9]+(-server)?(-open)?-generic.*)$"
)
_APART: Final = (
    r"^((lib)?nvidia-container.*|nvidia-(docker|cudnn|nsight|visual-profiler|profiler|opencl-dev"
    r"|dcgm|gds|fs|mig)(-.*|[0-9].*)?|nvidia-cuda-(toolkit|dev|doc|gdb|samples).*)$"
)

_ASK: Final = rf"""{apt_beside.BESIDE}
cached() {{
    apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o Acquire::Languages=en "$@" 2>/dev/null
}}
offers() {{
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        block "file $file"; head -c 100000 "$file"; echo
    done
    block trouble; echo "$trouble"
    block lists; find "$lists" -name '*_Packages*' | wc -l
    block releases; cached policy | grep -A 1 ' Packages$'
    known=$(cached pkgnames)
    names=$(echo "$known" | grep -E '{_OF_THE_DRIVER}' | grep -v -E '{_APART}'
        for release; do
            case $release in
                signed:*) echo "$known" | grep '^linux-[a-z]*-nvidia-' |
                    grep -F -e "-${{release#signed:}}" ;;
                *) echo "$known" | grep -F -x "linux-headers-$release" ;;
            esac
        done)
    [ -n "$names" ] || return 0
    # shellcheck disable=SC2086  # several names
    set -- $names
    block places
    cached madison "$@" | awk '$NF == "Packages" {{
        place = index($(NF - 1), "/") ? $(NF - 1) : $(NF - 2)
        row = $1 " " $3 " " place
        sub(/^[^|]*\|[^|]*\| */, "")
        row = row " " $0
        if (!(row in seen)) print row
        seen[row] = 1
    }}'
    block records
    cached show -a "$@" | awk '
        function over() {{
            if (match(description, /tested up to Linux [0-9]+(\.[0-9]+)*/))
                print "Tested: " substr(description, RSTART + 19, RLENGTH - 19)
            print ""
            description = ""
        }}
        /^[ \t]*$/ {{ over(); next }}
        /^[^ \t]/ {{
            is_field = /^(Package|Version|Source|Depends|Pre-Depends|Provides):/
            is_description = /^Description/
        }}
        is_field {{ print }}
        is_description {{
            gsub(/[ \t]+/, " ")
            description = description " " $0
            gsub(/ +/, " ", description)
        }}
        END {{ over() }}'
    return 0
}}
"""

_OF_ALL_KERNELS: Final = """\
set --
for image in /boot/vmlinuz-* /boot/vmlinux-*; do
    [ -e "$image" ] || continue
    release=$(echo "${image##*/vmlinu[xz]-}" | tr '[:upper:]' '[:lower:]')
    set -- "$@" "$release" "signed:$release"
done
offers "$@"
"""

_FILE = "file "
_PRIORITY = re.compile(r"-?[0-9]+ (?P<index>\S.*)")
_RELEASE = re.compile(r"(?:^|,)(?P<key>[a-z])=(?P<value>[^,]*)")
_WORDS_OF_A_PLACE = 3


@dataclass(frozen=True)
class Offered:
    """`trouble`: apt's lines about the source that was tried. No lists: apt was never updated."""

    offers: Offers = field(default_factory=Offers)
    sources: tuple[Source, ...] = ()
    trouble: tuple[str, ...] = ()
    has_lists: bool = True

    @property
    def blocker(self) -> Blocker | None:
        """Why nothing is known of what the sources have."""
        if self.trouble:
            return Blocker("the declared driver_source cannot be used", "; ".join(self.trouble))
        if not self.has_lists:
            return Blocker("apt has no package lists here", "sudo apt-get update")
        return None


def parse(text: str) -> Offered:
    found = blocks(text)
    files = {
        head.removeprefix(_FILE): body for head, body in found.items() if head.startswith(_FILE)
    }
    releases = _releases(found.get("releases", ""))
    places = _places(found.get("places", ""), releases)
    offers: dict[tuple[str, str], Offer] = {}
    for record in stanzas("\n".join(lines(found.get("records", "")))):
        key = (record.get("Package", ""), record.get("Version", ""))
        # A version without a place is installed, and in no source any more.
        if (where := places.get(key)) and key not in offers:
            newest_kernel = record.get("Tested", "")
            offers[key] = offer_of(record, newest_kernel, tuple(where.places), tuple(where.origins))
    return Offered(
        offers=in_order(offers.values()),
        sources=sources.parse(files, releases),
        trouble=tuple(line for line in lines(found.get("trouble", "")) if line.strip()),
        has_lists=found.get("lists", "1").strip() != "0",
    )


@dataclass(frozen=True)
class _Where:
    places: dict[str, None] = field(default_factory=dict)
    origins: dict[Origin, None] = field(default_factory=dict)


def _places(text: str, releases: Releases) -> Mapping[tuple[str, str], _Where]:
    found: dict[tuple[str, str], _Where] = defaultdict(_Where)
    for line in lines(text):
        words = line.split(maxsplit=_WORDS_OF_A_PLACE)
        if len(words) < _WORDS_OF_A_PLACE:
            continue
        where = found[words[0], words[1]]
        where.places[words[2]] = None
        if index := _index("".join(words[_WORDS_OF_A_PLACE:]).rstrip()):
            release = releases.get(index)
            where.origins[Origin(index[0], release.origin if release else "")] = None
    return found


def _releases(text: str) -> Releases:
    """The makers of the suites, by `apt-cache policy`."""
    found: Releases = {}
    at: tuple[str, str] | None = None
    for line in lines(text):
        named = _PRIORITY.fullmatch(line.strip())
        if named and (index := _index(named["index"])):
            at = index
        elif at and line.strip().startswith("release "):
            fields = _RELEASE.finditer(line.strip().removeprefix("release "))
            release = {one["key"]: one["value"].strip() for one in fields}
            if release.get("o"):
                found[at] = sources.Release(release["o"], release.get("n", ""))
            at = None
    return found


def _index(text: str) -> tuple[str, str] | None:
    """URI and suite. A list of packages is called the same wherever apt speaks of it."""
    place = text.removesuffix(" Packages")
    if place == text:
        return None
    for count in (2, 1):  # URI SUITE/COMPONENT ARCHITECTURE, the last of which may be missing
        uri, *words = place.rsplit(" ", count)
        suite, _, component = "".join(words[:1]).rpartition("/")
        if len(words) == count and uri and suite and component:
            return uri.rstrip("/"), suite
    uri, space, suite = place.partition(" ")  # flat: all of it is one suite
    return (uri.rstrip("/"), suite.rstrip("/")) if uri and space and " " not in suite else None


def offers_section(
    source: str = "", headers: Sequence[str] | None = (), signed: Sequence[str] = ()
) -> Section[Offered]:
    """`source`: the text of a file of sources, as if it were there already.

    `headers`: of these kernels; None: of all in /boot. `signed`: with modules of the distribution.
    """
    asks = _OF_ALL_KERNELS
    if headers is not None:
        asks = shlex.join(("offers", *headers, *(f"signed:{one}" for one in signed)))
    call = "\n".join((apt_beside.beside(source), asks))
    snippet = (
        f"{_ASK}if [ -s /var/lib/dpkg/status ] && command -v apt-cache >/dev/null; then\n"
        f"{call}\nfi\nreturn 0\n"
    )
    return Section(
        name=NAME,
        snippet=snippet,
        parse=parse,
        timeout_s=_APT_S + (apt_beside.LONGEST_S if source else 0),
        wants_root=True,
    )
