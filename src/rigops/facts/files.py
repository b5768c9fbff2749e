"""What is at a path now, to show in a plan what changes, and to know whose it is."""

from __future__ import annotations

import re
import shlex
from base64 import b64decode
from binascii import Error
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase

from rigops.probe.section import Section
from rigops.probe.sections.rigops_state import Present
from rigops.probe.text import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST_SHOWN = 64 * 1024
_LINE = re.compile(
    r"(?P<mode>[0-7]{3,4}) (?P<digest>[0-9a-f]{64}) (?P<content>[A-Za-z0-9+/=]*) (?P<path>/.*)"
)
_LOOK = f"""
look() {{
    [ -f "$1" ] || return 0
    digest=$(sha256sum <"$1") && content=$(head -c {_MOST_SHOWN} "$1" | base64 -w 0) &&
        echo "$(stat -c %a "$1") ${{digest%% *}} $content $1"
}}
"""


@dataclass(frozen=True)
class FileFound:
    digest: str
    mode: int
    text: str  # the beginning of it

    @property
    def present(self) -> Present:
        return Present(self.digest, self.mode)


def files_section(paths: Iterable[str]) -> Section[Mapping[str, FileFound]]:
    """Many files as one section of a probe. A path that is not in the answer is not there."""
    looks = "\n".join(shlex.join(("look", path)) for path in paths)
    return Section(name="files-at", snippet=f"{_LOOK}{looks}", parse=parse, wants_root=True)


def parse(text: str) -> Mapping[str, FileFound]:
    found: dict[str, FileFound] = {}
    for shape in matches(_LINE, text.splitlines())[0]:
        with suppress(Error):
            content = b64decode(shape["content"], validate=True).decode("utf-8", "replace")
            found[shape["path"]] = FileFound(shape["digest"], int(shape["mode"], 8), content)
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
