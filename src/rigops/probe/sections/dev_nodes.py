"""The device nodes through which programs reach the driver, and their modes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, matches, stripped

_DEVICES = "/proc/devices"
_NODES = "ls -lnd /dev/nvidia* /dev/dri/render*"
_HELPER = "ls -ln nvidia-modprobe"

_MAJOR = re.compile(r"(?P<number>[0-9]{1,6}) (?P<name>\S+)")
_NODE = re.compile(
    r"(?P<kind>[bcdlps-])(?P<mode>[rwxsStT-]{9})[.+@]?\s+[0-9]+\s+(?P<uid>[0-9]{1,10})\s+"
    r"(?P<gid>[0-9]{1,10})\s+(?:(?P<major>[0-9]{1,6}),\s*(?P<minor>[0-9]{1,8})|[0-9]+)\s"
    r".*?(?P<path>/\S+)(?: -> \S+)?"
)
_CARD = re.compile(r"/dev/nvidia(?P<minor>[0-9]{1,4})")
_NOISE = re.compile(r"ls: .*No such file or directory|total [0-9]+")


@dataclass(frozen=True, kw_only=True)
class DevNode:
    path: str
    mode: str  # as ls prints it, without the letter of the kind: rw-rw-rw-
    uid: int
    gid: int
    is_character: bool
    major: int | None
    line: str

    @property
    def is_card(self) -> bool:
        return self.is_character and bool(_CARD.fullmatch(self.path))

    @property
    def is_for_all(self) -> bool:
        return self.mode[6:8] == "rw"

    @property
    def is_for_its_group(self) -> bool:
        return self.mode[3:5] == "rw" and self.gid != 0


@dataclass(frozen=True)
class DevNodes:
    """`majors`: NVIDIA's in /proc/devices. `helper`: nvidia-modprobe, which makes nodes for all."""

    nodes: tuple[DevNode, ...] = ()
    majors: Mapping[str, int] = field(default_factory=dict)
    helper: DevNode | None = None
    unparsed: tuple[str, ...] = ()

    def node(self, path: str) -> DevNode | None:
        return next((node for node in self.nodes if node.path == path), None)

    @property
    def cards(self) -> tuple[DevNode, ...]:
        return tuple(node for node in self.nodes if node.is_card)

    @property
    def makes_nodes_itself(self) -> bool:
        """Whether CUDA can have a missing node made: the helper is setuid root."""
        return self.helper is not None and "s" in self.helper.mode[:3] and self.helper.uid == 0


def parse(text: str) -> DevNodes:
    headed = blocks(text)
    unparsed = [head for head in headed if head not in {_DEVICES, _NODES, _HELPER}]
    helper = _nodes(headed.get(_HELPER, ""), unparsed)
    return DevNodes(
        nodes=_nodes(headed.get(_NODES, "") if headed else text, unparsed),
        majors={
            one["name"]: int(one["number"])
            for one in matches(_MAJOR, stripped(headed.get(_DEVICES, "")))[0]
            if "nvidia" in one["name"]
        },
        helper=helper[0] if helper else None,
        unparsed=tuple(unparsed),
    )


def _nodes(body: str, unparsed: list[str]) -> tuple[DevNode, ...]:
    found, left = matches(_NODE, (line[:400] for line in stripped(body)))
    unparsed += [line for line in left if not _NOISE.fullmatch(line)]
    return tuple(
        DevNode(
            path=one["path"],
            mode=one["mode"],
            uid=int(one["uid"]),
            gid=int(one["gid"]),
            is_character=one["kind"] == "c",
            major=int(one["major"]) if one["major"] else None,
            line=one.string,
        )
        for one in found
    )


_SNIPPET = f"""
[ -e /dev/null ] || return
block "{_DEVICES}"
while IFS= read -r line; do
    case $line in *nvidia*) say "$line" ;; esac
done <{_DEVICES}
if command -v nvidia-modprobe >/dev/null; then
    block "{_HELPER}"
    ls -Lln "$(command -v nvidia-modprobe)"
fi
block "{_NODES}"
set --
for node in /dev/nvidia* /dev/dri/render*; do
    if [ -e "$node" ]; then set -- "$@" "$node"; fi
done
[ $# = 0 ] || ls -lnd "$@"
return 0
"""

SECTION = Section(
    name="dev-nodes", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD
)
