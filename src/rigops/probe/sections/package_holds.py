"""Holds of packages, and their possible changes: holds, pins, upgrades, origins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, lines, matches, stripped

Origin = Literal["distribution", "nvidia", "ppa", "local"]

HOLDS: Final = "apt-mark showhold"  # in older bundles, and in what people collect by hand
HELD: Final = "dpkg-query -W held"
UNATTENDED: Final = "apt-config dump Unattended-Upgrade"
PERIODIC: Final = "apt-config dump APT::Periodic"
_TIMER: Final = "systemctl show apt-daily-upgrade.timer"  # once here, and now among the units
POLICY: Final = "apt-cache policy"
RUN_FILE: Final = "ls /usr/bin/nvidia-uninstall"
ELSEWHERE: Final = "grep versionlock IgnorePkg exclude"

_SETTING = re.compile(r'(?P<name>[\w:/-]+?)(?P<list>::)? "(?P<value>.*)";')
_BLACKLIST = "unattended-upgrade::package-blacklist"
_DAILY = "apt::periodic::unattended-upgrade"
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(:\w+)?")
_RUN_FILES = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
_OF_THE_DRIVER = "^(nvidia-|libnvidia-|libcuda1$|cuda-drivers|linux-modules-nvidia-)"
_OFF = frozenset({"", "0", "disable"})
_POLICY_OF = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]*)(?::\w+)?:")
_CHOICE = re.compile(r"  (?P<kind>Installed|Candidate): (?P<version>\S+)")
_OFFER = re.compile(r" (?:   |\*\*\*) (?P<version>\S+) (?P<priority>-?[0-9]{1,6})(?: .*)?")
_SOURCE = re.compile(r"       +-?[0-9]{1,6} (?P<place>\S.*)")
_STATUS = "/var/lib/dpkg/status"


@dataclass(frozen=True)
class Pin:
    file: str
    package: str
    pin: str
    priority: int


@dataclass(frozen=True)
class Offer:
    """One version and where it can be had; nowhere if only dpkg still knows it."""

    version: str
    lines: tuple[str, ...]
    origins: frozenset[Origin]


@dataclass(frozen=True)
class AptPolicy:
    package: str
    installed: str | None
    candidate: str | None
    offers: tuple[Offer, ...]

    def offer(self, version: str | None) -> Offer | None:
        return next((one for one in self.offers if one.version == version), None)


@dataclass
class _Open:
    package: str
    chosen: dict[str, str] = field(default_factory=dict)
    offers: list[tuple[str, list[str]]] = field(default_factory=list)

    def closed(self) -> AptPolicy:
        return AptPolicy(
            package=self.package,
            installed=_known(self.chosen.get("Installed")),
            candidate=_known(self.chosen.get("Candidate")),
            offers=tuple(
                Offer(version, tuple(output), frozenset(filter(None, map(_origin, output[1:]))))
                for version, output in self.offers
            ),
        )


@dataclass(frozen=True)
class PackageHolds:
    """None: not collected, or not reported."""

    held: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()
    unattended_blacklist: tuple[str, ...] = ()
    unparsed: tuple[str, ...] = ()
    asks_apt: bool = False  # holds were asked for, and so `held` and `pins` are an answer
    has_unattended_settings: bool | None = None
    unattended_runs: bool | None = None  # apt's daily run is to upgrade packages
    unattended_lines: tuple[str, ...] = ()
    policies: tuple[AptPolicy, ...] | None = None
    run_files: tuple[str, ...] | None = None  # what NVIDIA's own installer leaves behind
    elsewhere: tuple[str, ...] = ()  # IgnorePkg, versionlock and exclude lines of pacman and dnf


def parse(text: str) -> PackageHolds:
    found = blocks(text) or _bare(text)
    pins: list[Pin] = []
    unparsed: list[str] = []
    for head, body in found.items():
        if head.startswith("/etc/apt/preferences"):
            pins += _pins(head, body)
        elif head not in {HOLDS, HELD, UNATTENDED, PERIODIC, _TIMER, POLICY, RUN_FILE, ELSEWHERE}:
            unparsed.append(head)
    held, left = matches(_PACKAGE, stripped(found.get(HELD, found.get(HOLDS, ""))))
    settings = stripped(found.get(UNATTENDED, ""))
    policies, strange = _policies(found.get(POLICY, ""))
    run_files = stripped(found.get(RUN_FILE, ""))
    return PackageHolds(
        held=tuple(one[0] for one in held),
        pins=tuple(pins),
        unattended_blacklist=tuple(
            value for name, is_list, value in _settings(settings) if name == _BLACKLIST and is_list
        ),
        unparsed=(*unparsed, *left, *strange),
        asks_apt=HOLDS in found or HELD in found,
        has_unattended_settings=bool(settings) if UNATTENDED in found else None,
        unattended_runs=_runs(found),
        unattended_lines=tuple(line for line in settings if _BLACKLIST in line.lower()),
        policies=policies if POLICY in found else None,
        run_files=tuple(one for one in run_files if one in _RUN_FILES)
        if RUN_FILE in found
        else None,
        elsewhere=tuple(stripped(found.get(ELSEWHERE, ""))),
    )


def _bare(text: str) -> Mapping[str, str]:
    """A saved output of `apt-mark showhold` alone."""
    output = stripped(text)
    is_list = bool(output) and all(_PACKAGE.fullmatch(line) for line in output)
    return {HOLDS: text} if is_list else dict.fromkeys(output[:1], "")


def _settings(output: list[str]) -> list[tuple[str, bool, str]]:
    shapes, _ = matches(_SETTING, output)
    return [(one["name"].lower(), bool(one["list"]), one["value"]) for one in shapes]


def _runs(found: Mapping[str, str]) -> bool | None:
    if PERIODIC not in found:
        return None
    daily = [value for name, _, value in _settings(stripped(found[PERIODIC])) if name == _DAILY]
    return bool(daily) and daily[-1].lower() not in _OFF


def _pins(file: str, body: str) -> list[Pin]:
    found: list[Pin] = []
    for stanza in re.split(r"\n[ \t]*\n", "\n".join(lines(body))):
        fields: dict[str, str] = {}
        for line in stanza.split("\n"):
            name, colon, value = line.partition(":")
            if colon and not name.startswith(("#", " ", "\t")):
                fields[name.strip().lower()] = value.strip()
        priority = fields.get("pin-priority", "")
        if re.fullmatch(r"-?[0-9]{1,6}", priority) and "package" in fields:
            found.append(Pin(file, fields["package"], fields.get("pin", ""), int(priority)))
    return found


def _policies(text: str) -> tuple[tuple[AptPolicy, ...], tuple[str, ...]]:
    """The packages, and the lines that could not be parsed."""
    found: list[_Open] = []
    unparsed: list[str] = []
    for line in lines(text):
        if name := _POLICY_OF.fullmatch(line):
            found.append(_Open(name["name"]))
        elif not found:
            unparsed += [line] if line.strip() else []
        elif choice := _CHOICE.fullmatch(line):
            found[-1].chosen[choice["kind"]] = choice["version"]
        elif version := _OFFER.fullmatch(line):
            found[-1].offers.append((version["version"], [line]))
        elif found[-1].offers and _SOURCE.fullmatch(line):
            found[-1].offers[-1][1].append(line)
        elif line.strip() and not line.startswith(("  Version table:", "  Package pin:")):
            unparsed.append(line)
    return tuple(one.closed() for one in found), tuple(unparsed)


def _known(version: str | None) -> str | None:
    return None if version == "(none)" else version


def _origin(line: str) -> Origin | None:
    if _STATUS in line:
        return None
    place = line.lower()
    if "/compute/cuda/" in place or "nvidia.com" in place or "nvidia.github.io" in place:
        return "nvidia"
    if "/graphics-drivers/" in place or "/ppa/" in place:
        return "ppa"
    return "local" if " file:" in place or " copy:" in place else "distribution"


# The driver's packages, of which apt is asked what it would install; a repository of NVIDIA's
# offers dozens of versions of each, so not of all.
_SNIPPET = rf"""
names=
if [ -s /var/lib/dpkg/status ]; then
    # Not apt-mark: it builds the whole cache of apt where a login may not write it.
    said=$(awk '
        function ends() {{
            if (name == "dpkg") native = architecture
            if (wanted == "hold") {{ held[++holds] = name; of[holds] = architecture }}
            if (state == "installed" && name ~ /{_OF_THE_DRIVER}/ && name !~ /container|-cuda-/) {{
                if (!seen[name]++ && n++ < 40) names = names " " name
            }}
            name = architecture = wanted = state = ""
        }}
        /^Package: / {{ name = $2 }}
        /^Architecture: / {{ architecture = $2 }}
        /^Status: / {{ wanted = $2; state = $4 }}
        /^$/ {{ ends() }}
        END {{
            ends()
            print native names
            for (at = 1; at <= holds; at++)
                print held[at] (of[at] == native || of[at] == "all" ? "" : ":" of[at])
        }}' /var/lib/dpkg/status)
    names=${{said%%"
"*}}
    block "{HELD}"
    say "${{said#"$names"}}"
    show /etc/apt/preferences /etc/apt/preferences.d/*
    # Else apt asks dpkg for them, by a process each time.
    native=${{names%%" "*}} names=${{names#"${{names%%" "*}}"}}
    set --
    [ -z "$native" ] || set -- -o "APT::Architectures::=$native"
    while read -r other; do
        [ -z "$native" ] || [ "$other" = "$native" ] || set -- "$@" -o "APT::Architectures::=$other"
    done 2>/dev/null </var/lib/dpkg/arch
    [ -z "$names" ] || apt-config dump "$@" 2>&1 | awk '
        tolower($1) ~ /^unattended-upgrade(::|$)/ {{ unattended = unattended $0 "\n" }}
        tolower($1) ~ /^apt::periodic(::|$)/ {{ periodic = periodic $0 "\n" }}
        END {{
            mark = "\n" ENVIRON["mark"] " == "
            printf "%s", mark "{UNATTENDED}\n" unattended mark "{PERIODIC}\n" periodic
        }}'
fi
block "{ELSEWHERE}"
for file in /etc/pacman.conf /etc/dnf/dnf.conf /etc/yum.conf; do
    [ -r "$file" ] || continue
    grep -E '^[[:space:]]*(IgnorePkg|IgnoreGroup|exclude|excludepkgs)[[:space:]]*=' "$file"
done
for file in /etc/dnf/plugins/versionlock.list /etc/yum/pluginconf.d/versionlock.list; do
    [ -r "$file" ] && grep -v '^[[:space:]]*\(#\|$\)' "$file" | head -n 100
done
block "{RUN_FILE}"
for file in {" ".join(sorted(_RUN_FILES))}; do if there "$file"; then echo "$file"; fi; done
if [ "$names" ] && command -v apt-cache >/dev/null; then
    block "{POLICY}"
    # shellcheck disable=SC2086  # several names
    {POLICY} "$@" $names 2>/dev/null
fi
return 0
"""

SECTION = Section(
    name="package-holds",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=15,
    lane="files",
    technical=EVERY_WORD,
)
