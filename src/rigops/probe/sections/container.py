"""Container runtimes, and whether what they know of the NVIDIA driver is that of today."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import Stamp, blocks, matches, stamps, stripped

COMMANDS: Final = (
    "command -v docker podman containerd nvidia-ctk nvidia-container-runtime "
    "nvidia-container-runtime-hook"
)
TOOLKIT: Final = "nvidia-ctk --version"
DOCKER: Final = "docker info runtimes"
DAEMON: Final = "/etc/docker/daemon.json"
SPECS: Final = "stat cdi"
NAMED: Final = "grep libcuda cdi"
REFRESH: Final = "ls nvidia-cdi-refresh"
LIBRARIES: Final = "stat libcuda"

_VERSION = re.compile(r"version (?P<version>[0-9]{1,4}(?:\.[0-9]{1,4}){1,3})", re.IGNORECASE)
_RUNTIME = re.compile(r'"(?P<name>nvidia[a-z-]*)"\s*:\s*\{')
_NAMED = re.compile(
    r"(?P<path>/[^:]+):.*libcuda\.so\.(?P<version>[1-9][0-9]{1,3}(?:\.[0-9]{1,3}){1,2})(?![0-9.])"
)
_SCHEMA = re.compile(
    r"(?P<path>/[^:]+):cdiVersion\"?: *\"?(?P<version>[0-9]{1,3}(?:\.[0-9]{1,3}){1,2})"
)
_NODE = re.compile(r"(?P<path>/[^:]+):(?P<node>/dev/\S{1,80}) major (?P<major>[0-9]{1,6})")
_ENGINES = frozenset({"docker", "podman", "containerd"})
HOOK: Final = "nvidia-container-runtime-hook"  # all that Docker's --gpus needs
_TOOLS = frozenset({"nvidia-ctk", "nvidia-container-runtime", HOOK})


@dataclass(frozen=True)
class NamedDriver:
    """A CDI specification names the driver's libraries, and so a version."""

    spec: str
    version: str
    line: str


@dataclass(frozen=True)
class Schema:
    """The version of the CDI schema that a specification is written in."""

    spec: str
    version: tuple[int, ...]
    line: str


@dataclass(frozen=True)
class SpecNode:
    """A device node of a specification, with the major that it had when this was written."""

    spec: str
    node: str
    major: int
    line: str


@dataclass(frozen=True, kw_only=True)
class Container:
    """None: not reported."""

    engines: frozenset[str] | None = None  # docker, podman, containerd
    tools: frozenset[str] = frozenset()  # those of the NVIDIA container toolkit
    toolkit: str | None = None  # its version
    nvidia_runtimes: frozenset[str] | None = None  # that Docker knows
    cdi: tuple[Stamp, ...] | None = None  # when each specification was written
    named: tuple[NamedDriver, ...] = ()
    schemas: tuple[Schema, ...] = ()
    nodes: tuple[SpecNode, ...] = ()
    refresh: tuple[str, ...] = ()  # links that have nvidia-cdi-refresh started at the boot
    libraries: tuple[Stamp, ...] = ()  # when each libcuda came to this disk
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Container:
    found = blocks(text)
    known = {COMMANDS, TOOLKIT, DOCKER, DAEMON, SPECS, NAMED, REFRESH, LIBRARIES}
    commands = {line.rpartition("/")[2] for line in stripped(found.get(COMMANDS, ""))}
    version = _VERSION.search(found.get(TOOLKIT, ""))
    specs, strange_specs = stamps(found.get(SPECS, ""))
    libraries, strange_libraries = stamps(found.get(LIBRARIES, ""))
    in_specs = stripped(found.get(NAMED, ""))
    strange = [head for head in found if head not in known]
    return Container(
        engines=frozenset(commands & _ENGINES) if COMMANDS in found else None,
        tools=frozenset(commands & _TOOLS),
        toolkit=version["version"] if version else None,
        nvidia_runtimes=_runtimes(found),
        cdi=tuple(specs) if SPECS in found else None,
        named=tuple(
            NamedDriver(one["path"], one["version"], one.string)
            for one in matches(_NAMED, in_specs)[0]
        ),
        schemas=tuple(
            Schema(one["path"], tuple(map(int, one["version"].split("."))), one.string)
            for one in matches(_SCHEMA, in_specs)[0]
        ),
        nodes=tuple(
            SpecNode(one["path"], one["node"], int(one["major"]), one.string)
            for one in matches(_NODE, in_specs)[0]
        ),
        refresh=tuple(stripped(found.get(REFRESH, ""))),
        libraries=tuple(libraries),
        unparsed=(*strange, *strange_specs, *strange_libraries),
    )


def _runtimes(found: Mapping[str, str]) -> frozenset[str] | None:
    """Of the daemon that runs, and of its file, which it may not have read yet."""
    if DOCKER not in found and DAEMON not in found:
        return frozenset() if COMMANDS in found else None
    output = [body for head in (DOCKER, DAEMON) if (body := found.get(head, "").strip())]
    if not any(body.startswith("{") for body in output):
        return None  # it could not be asked
    return frozenset(one["name"] for body in output for one in _RUNTIME.finditer(body))


# Docker is asked only where its daemon runs: asking would start it. A file's mtime is the day it
# was built; when it came to this disk is its ctime.
_SNIPPET = rf"""
shown=
block "{COMMANDS}"
for tool in {COMMANDS.removeprefix("command -v ")}; do command -v "$tool"; done
if command -v nvidia-ctk >/dev/null; then run {TOOLKIT} | head -n 7; fi
show {DAEMON}
block "{SPECS}"
for file in /etc/cdi/*nvidia* /var/run/cdi/*nvidia* /etc/cdi/nvidia.*; do
    [ -f "$file" ] || continue
    case $shown in *" $file "*) continue ;; esac
    shown="$shown $file "
    stat -c '%Y %n' "$file"
done
if [ -n "$shown" ]; then
    block "{NAMED}"
    # The same for each device of a card: once is enough.
    awk '
        function tell(text) {{ if (!printed[file text]++ && lines++ < 100) print file ":" text }}
        function ends() {{
            if (node != "" && major != "") tell(node " major " major)
            node = major = ""
        }}
        FNR == 1 {{ ends(); file = FILENAME }}
        /^ *- / {{ ends() }}
        match($0, /libcuda\.so\.[1-9][0-9]*\.[0-9.]*[0-9]/) {{ tell(substr($0, RSTART, RLENGTH)) }}
        match($0, /cdiVersion"?: *"?[0-9.]+/) {{ tell(substr($0, RSTART, RLENGTH)) }}
        match($0, / path: \/dev\/nvidia[a-z0-9\/-]+/) {{
            node = substr($0, RSTART + 7, RLENGTH - 7)
        }}
        match($0, / major: [0-9]+/) {{ major = substr($0, RSTART + 8, RLENGTH - 8) }}
        END {{ ends() }}
    ' $shown 2>/dev/null
fi
block "{REFRESH}"
for link in /etc/systemd/system/*.wants/nvidia-cdi-refresh.*; do
    if there "$link"; then say "$link"; fi
done
block "{LIBRARIES}"
set --
for folder in /usr/lib/*-linux-gnu /usr/lib64 /usr/lib /usr/lib/*-linux-gnu/nvidia/current; do
    for file in "$folder"/libcuda.so.[1-9][0-9]*; do
        if [ -f "$file" ]; then set -- "$@" "$file"; fi
    done
done
[ $# = 0 ] || stat -c '%Z %n' "$@"
if [ -e /run/docker.pid ] && command -v docker >/dev/null; then
    block "{DOCKER}"
    docker info --format '{{{{json .Runtimes}}}}' 2>&1 | head -c 20000
fi
return 0
"""

_TECHNICAL = (
    f"{COMMANDS} {TOOLKIT} {DOCKER} {DAEMON} {SPECS} {NAMED} {REFRESH} {LIBRARIES} nvidia-cdi "
    "libcuda.so cdiVersion nvidia-uvm nvidia-caps major wants"
)

SECTION = Section(
    name="container",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    lane="machine",
    technical=_TECHNICAL,
)
