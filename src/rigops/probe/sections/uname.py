from __future__ import annotations

import re

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import single

_SHAPE = re.compile(r"(?P<system>\S+) (?P<node>\S+) (?P<release>\S+) (?P<rest>.*)")
_RELEASE = re.compile(r"[1-9][0-9]{0,2}\.[0-9]{1,3}[\w.+~-]{0,80}")  # of `uname -r`
_MACHINE = re.compile(r"\b(x86_64|amd64|aarch64|arm64|i[3-6]86|armv\w+|ppc64le|riscv64)\b")


@dataclass(frozen=True)
class Uname:
    release: str | None = None
    machine: str | None = None
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Uname:
    for line in single(text):
        if shape := _SHAPE.fullmatch(line):
            machines = _MACHINE.findall(shape["rest"])
            return Uname(shape["release"], machines[-1] if machines else None)
        if _RELEASE.fullmatch(line):
            return Uname(line)
    return Uname(unparsed=(text[:200],))


SECTION = Section(name="uname", snippet="uname -a", parse=parse, lane="files", technical=EVERY_WORD)
