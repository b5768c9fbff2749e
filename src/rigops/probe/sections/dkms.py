"""Which modules DKMS has built for which kernels, and for which kernels it could build."""

from __future__ import annotations

import re

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, matches, stripped

_STATUS = "dkms status"
_BUILD = "ls -d /lib/modules/*/build"

# `nvidia/535.54, KERNEL, ARCH: installed`, before DKMS 3 `nvidia, 535.54, KERNEL, ARCH: installed`
_SHAPE = re.compile(
    r"(?P<name>[\w.+-]+)(?:/|, ?)(?P<version>[^,:/\s]+)"
    r"(?:, (?P<kernel>[^,:\s]+), [^,:\s]+)?: ?(?P<state>added|built|installed(?:-weak)?|broken)"
    r"(?P<notes>$|[ (].*)"
)
_ERROR = re.compile(r"Error!|dkms: ERROR|File: .{0,300}does not exist\.", re.IGNORECASE)
_CHATTER = re.compile(r"Deprecated feature:|Manual intervention is required|Warning:|Sign command")
_TREE = re.compile(r"/lib/modules/(?P<kernel>[^/\s]+)/build/?")
_NO_DRIVER = re.compile(r"nvidia[_-](?:fs|peermem|gds)\b")  # what else NVIDIA builds with DKMS


@dataclass(frozen=True, kw_only=True)
class DkmsModule:
    """A module that is only added has no kernel."""

    name: str
    version: str
    state: str  # added, built, installed, installed-weak or broken
    kernel: str | None = None
    notes: str = ""
    line: str = ""

    @property
    def is_nvidia(self) -> bool:
        return self.name.startswith("nvidia") and not _NO_DRIVER.match(self.name)

    @property
    def is_installed(self) -> bool:
        return self.state.startswith("installed") and "ERROR" not in self.notes.upper()

    @property
    def differs(self) -> bool:
        return "Diff between built and installed module" in self.notes


@dataclass(frozen=True, kw_only=True)
class Dkms:
    """`buildable`: kernels whose headers are there; None where that was not collected."""

    modules: tuple[DkmsModule, ...] = ()
    errors: tuple[str, ...] = ()
    buildable: tuple[str, ...] | None = None
    unparsed: tuple[str, ...] = ()

    @property
    def nvidia(self) -> tuple[DkmsModule, ...]:
        return tuple(one for one in self.modules if one.is_nvidia)


def parse(text: str) -> Dkms:
    headed = blocks(text)
    status = headed.get(_STATUS) if headed else text
    modules: list[DkmsModule] = []
    errors: list[str] = []
    unparsed = [head for head in headed if head not in {_STATUS, _BUILD}]
    for line in stripped(status or ""):
        if shape := _SHAPE.fullmatch(line):
            modules.append(
                DkmsModule(
                    name=shape["name"],
                    version=shape["version"],
                    state=shape["state"],
                    kernel=shape["kernel"],
                    notes=shape["notes"].strip(),
                    line=line,
                )
            )
        elif _ERROR.match(line):
            errors.append(line)
        elif not _CHATTER.match(line):
            unparsed.append(line)
    trees, left = matches(_TREE, stripped(headed.get(_BUILD, "")))
    unparsed += [line for line in left if not line.startswith("ls: ")]
    return Dkms(
        modules=tuple(modules),
        errors=tuple(errors),
        buildable=tuple(one["kernel"] for one in trees) if _BUILD in headed else None,
        unparsed=tuple(unparsed),
    )


# Not those whose link leads to headers that are gone.
_SNIPPET = f"""
block "{_BUILD}"
for tree in /lib/modules/*/build; do
    if [ -e "$tree/." ]; then echo "$tree"; fi
done
command -v dkms >/dev/null || return 0
run {_STATUS}
[ "$?" -lt 124 ]  # less: it says itself what is wrong
"""

SECTION = Section(
    name="dkms", snippet=_SNIPPET, parse=parse, timeout_s=15, lane="files", technical=EVERY_WORD
)
