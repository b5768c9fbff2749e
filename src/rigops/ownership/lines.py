"""Lines that rigops owns in a file of somebody else's: one block between two marks.

A companion file that holds the same block is what the record knows: it is written, replaced and
undone like every owned file, and its digest says whether the block is still ours. All bytes
outside the block stay as they are; the block goes to the top, so that nothing depends on how the
last line ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER: Final = "/var/lib/rigops/lines"

# Neither has an equals sign: some programs would take that for a setting.
_BEGIN: Final = "# rigops owns the lines from here on"
_BEGIN_NEW: Final = "# rigops made this file and owns the lines from here on"
_END: Final = "# rigops owns the lines up to here"


def companion(path: str) -> str:
    return f"{FOLDER}/{path.strip('/').replace('/', '-')}"


def shown_path(path: str) -> str:
    """What people know an owned file by: a companion is the file with the lines, below /etc."""
    name = path.removeprefix(f"{FOLDER}/etc-")
    return path if name == path else f"/etc/{name}"


@dataclass(frozen=True)
class Parted:
    """The block with its marks, and what is around it. No block: everything is `after`."""

    before: str
    block: str
    after: str

    @property
    def foreign(self) -> str:
        return self.before + self.after

    @property
    def rigops_made_it(self) -> bool:
        return self.block.startswith(_BEGIN_NEW)

    @property
    def digest(self) -> str:
        """As of a block whose last line ends, whatever an editor made of the file's end."""
        block = self.block if self.block.endswith("\n") else f"{self.block}\n"
        return sha256(block.encode()).hexdigest() if self.block else ""

    def put(self, block: str) -> str:
        """The whole text with this block in place of the one that is there."""
        return self.before + block + self.after


def part(text: str) -> Parted | None:
    """None: marks without their counterpart, so that it is unknown what is whose."""
    lines = text.split("\n")
    marks = [line.rstrip("\r") for line in lines]
    begins = [at for at, line in enumerate(marks) if line in {_BEGIN, _BEGIN_NEW}]
    ends = [at for at, line in enumerate(marks) if line == _END]
    if not begins and not ends:
        return Parted("", "", text)
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        return None
    start = sum(len(line) + 1 for line in lines[: begins[0]])
    stop = sum(len(line) + 1 for line in lines[: ends[0] + 1])
    return Parted(text[:start], text[start:stop], text[stop:])


def block(ours: Iterable[str], *, made_file: bool) -> str:
    """Empty where there is nothing to own."""
    lines = list(ours)
    if not lines:
        return ""
    begin = _BEGIN_NEW if made_file else _BEGIN
    return "".join(f"{line}\n" for line in (begin, *lines, _END))
