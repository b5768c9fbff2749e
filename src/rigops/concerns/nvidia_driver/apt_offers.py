"""What the host's apt has of the driver, and from where: the section that asks, and its parser."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops.concerns.nvidia_driver.resolver.offers import (
    Offer,
    Offers,
    Origin,
    in_order,
    relations,
)
from rigops.concerns.nvidia_driver.resolver.request import Refusal
from rigops.packages import facts, sources
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rigops.packages.sources import Release, Releases, Source

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

_ASK: Final = rf"""{facts.BESIDE}
asked() {{
    apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o Acquire::Languages=en "$@" 2>/dev/null
}}
offers() {{
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        echo "== file $file"; head -c 100000 "$file" | hide; echo
    done
    echo "== trouble"; echo "$trouble"
    echo "== lists"; find "$lists" -name '*_Packages*' | wc -l
    echo "== releases"; asked policy | grep -A 1 ' Packages$' | hide
    known=$(asked pkgnames)
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
    echo "== places"
    asked madison "$@" | hide | awk '$NF == "Packages" {{
        place = index($(NF - 1), "/") ? $(NF - 1) : $(NF - 2)
        row = $1 " " $3 " " place
        sub(/^[^|]*\|[^|]*\| */, "")
        row = row " " $0
        if (!(row in seen)) print row
        seen[row] = 1
    }}'
    echo "== records"
    asked show -a "$@" | awk '
        function over() {{
            if (match(said, /tested up to Linux [0-9]+(\.[0-9]+)*/))
                print "Tested: " substr(said, RSTART + 19, RLENGTH - 19)
            print ""
            said = ""
        }}
        /^[ \t]*$/ {{ over(); next }}
        /^[^ \t]/ {{
            kept = /^(Package|Version|Source|Depends|Pre-Depends|Provides):/
            told = /^Description/
        }}
        kept {{ print }}
        told {{ gsub(/[ \t]+/, " "); said = said " " $0; gsub(/ +/, " ", said) }}
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
_FIELD = re.compile(r"(?P<name>[A-Za-z-]+): ?(?P<value>.*)")
_PRIORITY = re.compile(r"-?[0-9]+ (?P<index>\S.*)")
_INDEX = re.compile(r"(?P<uri>\S.*?)/* (?P<suite>\S+)/[^/\s]+(?: \S+)? Packages")
_FLAT = re.compile(r"(?P<uri>\S+?)/* (?P<suite>\S*?)/* Packages")  # all of it is one suite
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
    def refusal(self) -> Refusal | None:
        """Why nothing is known of what the sources have."""
        if self.trouble:
            return Refusal("the declared driver_source cannot be used", "; ".join(self.trouble))
        if not self.has_lists:
            return Refusal("apt has no package lists here", "sudo apt-get update")
        return None


def parse(text: str) -> Offered:
    found = blocks(text)
    files = {
        head.removeprefix(_FILE): body for head, body in found.items() if head.startswith(_FILE)
    }
    releases = _releases(found.get("releases", ""))
    places = _places(found.get("places", ""), releases)
    return Offered(
        offers=_offers(found.get("records", ""), places, sources.unparsed(files)),
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
        if shape := _index("".join(words[_WORDS_OF_A_PLACE:]).rstrip()):
            release = releases.get((shape["uri"], shape["suite"]))
            where.origins[Origin(shape["uri"], release.origin if release else "")] = None
    return found


def _offers(
    text: str, places: Mapping[tuple[str, str], _Where], unparsed: tuple[str, ...]
) -> Offers:
    """What is installed and in no source any more has no place, and is no offer."""
    found: dict[tuple[str, str], Offer] = {}
    others: list[str] = []
    for record in _records(text):
        key = (record.get("Package", ""), record.get("Version", ""))
        if not all(key):
            others.append(str(record))
        elif key in places:
            found.setdefault(key, _offer(record, places[key]))
    return in_order(found.values(), (*unparsed, *others))


def _offer(record: Mapping[str, str], where: _Where) -> Offer:
    needs = (record.get("Pre-Depends", ""), record.get("Depends", ""))
    return Offer(
        name=record["Package"],
        version=record["Version"],
        source=(record.get("Source", "").split() or [record["Package"]])[0],
        depends=tuple(one for field in needs for one in relations(field)),
        provides=tuple(one[0] for one in relations(record.get("Provides", ""))),
        newest_kernel=record.get("Tested", ""),
        places=tuple(where.places),
        origins=tuple(where.origins),
    )


def _records(text: str) -> Iterator[Mapping[str, str]]:
    for stanza in re.split(r"\n{2,}", "\n".join(lines(text)).strip("\n")):
        record: dict[str, str] = {}
        name = ""
        for line in stanza.split("\n"):
            shape = _FIELD.fullmatch(line)
            if shape:
                name = shape["name"]
                record[name] = shape["value"].strip()
            elif name:
                record[name] += f" {line.strip()}"
        if record:
            yield record


def _releases(text: str) -> Releases:
    """Who made which suite, from what `apt-cache policy` says of all."""
    found: Releases = {}
    at: tuple[str, str] | None = None
    for line in lines(text):
        named = _PRIORITY.fullmatch(line.strip())
        if named and (index := _index(named["index"])):
            at = (index["uri"], index["suite"])
        elif at and line.strip().startswith("release "):
            release = _release(line.strip().removeprefix("release "))
            if release:
                found[at] = release
            at = None
    return found


def _index(text: str) -> re.Match[str] | None:
    """A list of packages is called the same wherever apt speaks of it."""
    return _INDEX.fullmatch(text) or _FLAT.fullmatch(text)


def _release(text: str) -> Release | None:
    said = {one["key"]: one["value"].strip() for one in _RELEASE.finditer(text)}
    return sources.Release(said["o"], said.get("n", "")) if said.get("o") else None


def offers_section(
    source: str = "", headers: Sequence[str] | None = (), signed: Sequence[str] = ()
) -> Section[Offered]:
    """`source`: the text of a file of sources, tried as if it were there already.

    `headers`: of these kernels; None: of every kernel that is in /boot. `signed`: the kernels whose
    modules the distribution may have built.
    """
    asks = _OF_ALL_KERNELS
    if headers is not None:
        asks = shlex.join(("offers", *headers, *(f"signed:{one}" for one in signed)))
    call = "\n".join((facts.beside(source), asks))
    snippet = (
        f"{_ASK}if [ -s /var/lib/dpkg/status ] && command -v apt-cache >/dev/null; then\n"
        f"{call}\nfi\nexit 0\n"
    )
    return Section(
        name=NAME,
        snippet=snippet,
        parse=parse,
        timeout_s=_APT_S + (facts.LONGEST_S if source else 0),
        wants_root=True,
    )
