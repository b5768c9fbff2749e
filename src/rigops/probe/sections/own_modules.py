"""Kernel modules of the owner's own: which set this boot chose, what is loaded, what is built."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, lines, matches, stripped

FOLDER: Final = "/var/lib/rigops/driver-modules"
MODPROBE_FILE: Final = "/etc/modprobe.d/00-rigops-nvidia-modules.conf"
RECORD: Final = "/run/rigops/nvidia-modules"
ARGUMENT: Final = "rigops.nvidia=own"

_LOADED: Final = "od -An -tx1 /sys/module/nvidia*/notes/.note.gnu.build-id"
_THERE: Final = "ls OWN MODULES"
_SET = re.compile(rf"{FOLDER}/(?P<kernel>[A-Za-z0-9][A-Za-z0-9._+~-]*)/set")
_TREE = re.compile(rf"{FOLDER}/(?P<digest>[0-9a-f]{{64}})\.tar\.gz")
_CHOICE = re.compile(r"(?P<set>own) (?P<digest>[0-9a-f]{64})|stock (?P<reason>[a-z-]{1,40})")
_NOTE = re.compile(r"(?P<module>nvidia[a-z_]{0,20})(?P<bytes>(?: +[0-9a-f]{2}){17,80})")
_LINE = re.compile(
    r"digest (?P<digest>[0-9a-f]{64})|version (?P<version>[0-9]{1,6}(?:\.[0-9]{1,6}){1,3})"
    r"|build-id (?P<module>nvidia[a-z-]{0,20}) (?P<id>[0-9a-f]{8,128})|(?:sha256|depends) .*"
)
_HEAD_BYTES: Final = 16  # of the note: three numbers, and the name GNU


@dataclass(frozen=True)
class BuiltSet:
    """`build_ids`: by module, as modprobe names it."""

    digest: str
    version: str
    build_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OwnModules:
    """`chosen`: own or stock; None: nothing of it ran in this boot. `reason`: why stock.

    `loaded`: build IDs by module, as modprobe names it; of stock modules, too. `trees`: digests.
    """

    chosen: str | None = None
    digest: str = ""  # of the own set that was chosen
    reason: str = ""
    loaded: Mapping[str, str] = field(default_factory=dict)
    built: Mapping[str, BuiltSet] = field(default_factory=dict)  # by kernel
    trees: tuple[str, ...] = ()
    has_modprobe_file: bool = False
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> OwnModules:
    found = blocks(text)
    there = stripped(found.pop(_THERE, ""))
    choices, unparsed = matches(_CHOICE, stripped(found.pop(RECORD, "")))
    notes, left = matches(_NOTE, stripped(found.pop(_LOADED, "")))
    unparsed += left
    built: dict[str, BuiltSet] = {}
    for head, body in found.items():
        shape = _SET.fullmatch(head)
        if not shape:
            unparsed.append(head)
            continue
        entries, left = matches(_LINE, lines(body))
        unparsed += left
        built[shape["kernel"]] = BuiltSet(
            digest=next((one["digest"] for one in entries if one["digest"]), ""),
            version=next((one["version"] for one in entries if one["version"]), ""),
            build_ids={one["module"]: one["id"] for one in entries if one["module"]},
        )
    trees = (_TREE.fullmatch(line) for line in there)
    choice = choices[-1] if choices else None
    return OwnModules(
        chosen=(choice["set"] or "stock") if choice else None,
        digest=(choice["digest"] or "") if choice else "",
        reason=(choice["reason"] or "") if choice else "",
        loaded={
            one["module"].replace("_", "-"): "".join(one["bytes"].split()[_HEAD_BYTES:])
            for one in notes
        },
        built=built,
        trees=tuple(one["digest"] for one in trees if one),
        has_modprobe_file=MODPROBE_FILE in there,
        unparsed=tuple(unparsed),
    )


# Build IDs of the stock set, too: they tell whether another set than the recorded one is loaded.
_SNIPPET: Final = f"""
[ -e {FOLDER} ] || [ -e {MODPROBE_FILE} ] || [ -e {RECORD} ] || return 0
block "{_THERE}"
for file in {MODPROBE_FILE} {FOLDER}/*.tar.gz; do
    [ ! -e "$file" ] || say "$file"
done
show_kernel {RECORD} {FOLDER}/*/set
block "{_LOADED}"
for note in /sys/module/nvidia*/notes/.note.gnu.build-id; do
    [ -r "$note" ] || continue
    module=${{note#/sys/module/}}
    # shellcheck disable=SC2046  # a byte a word
    set -- $(od -An -v -tx1 "$note")
    say "${{module%%/*}} $*"
done
return 0
"""

SECTION: Final = Section(
    name="own-modules", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD
)
