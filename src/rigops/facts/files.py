"""The file at a path, to show its change in a plan, and to know whether it is owned."""

from __future__ import annotations

import re
import shlex
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Mapping
from contextlib import suppress

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.sections.rigops_state import Present
from rigops.probe.text import matches

_MOST_SHOWN = 64 * 1024
_LINE = re.compile(
    r"(?P<status>[0-9a-f]{4} [0-9]{1,10}:[0-9]{1,10}) (?P<digest>[0-9a-f]{64}|-) "
    r"(?P<content>[A-Za-z0-9+/=]*) (?P<path>/.*)"
)
_LOOK = f"""
look() {{
    [ -e "$1" ] || [ -L "$1" ] || return 0
    digest=- content=
    if [ -f "$1" ]; then
        digest=$(sha256sum <"$1") && content=$(head -c {_MOST_SHOWN} "$1" | base64 -w 0) || return 0
    fi
    echo "$(stat -c '%f %u:%g' "$1") ${{digest%% *}} $content $1"
}}
"""


@dataclass(frozen=True)
class FileFound:
    """Of a link to a file, digest and text are the file's."""

    present: Present
    text: str  # the beginning of it

    @property
    def digest(self) -> str:
        return self.present.digest


def files_section(paths: Iterable[str]) -> Section[Mapping[str, FileFound]]:
    """Many files as one section of a probe. A path that is not in the answer is not there."""
    looks = "\n".join(shlex.join(("look", path)) for path in paths)
    return Section(
        name="files-at",
        snippet=f"{_LOOK}{looks}",
        parse=parse,
        wants_root=True,
        is_exact=True,
    )


def parse(text: str) -> Mapping[str, FileFound]:
    found: dict[str, FileFound] = {}
    for shape in matches(_LINE, text.splitlines())[0]:
        with suppress(Error):
            content = b64decode(shape["content"], validate=True).decode("utf-8", "replace")
            there = Present.from_stat(shape["status"], shape["digest"])
            found[shape["path"]] = FileFound(there, content)
    return found


class FileAt(FactBase[FileFound | None]):
    """None: there is no such file."""

    def command(self, *, path: str) -> StringCommand:  # type: ignore[mutable-override]  # as all of pyinfra's do
        return StringCommand("sh", "-c", QuoteString(f"{_LOOK}{shlex.join(('look', path))}"))

    def process(self, output: list[str]) -> FileFound | None:
        return next(iter(parse("\n".join(output)).values()), None)

    @staticmethod
    def default() -> FileFound | None:
        return None
