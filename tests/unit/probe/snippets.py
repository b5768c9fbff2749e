"""One section's snippet, run by a shell on a tree of files of our own."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rigops.probe.reading import with_heads
from rigops.probe.script import _TOOLS
from tests.unit.programs import needed
from tests.unit.programs import shell as command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.probe.section import Section

TOOLS = f"export mark=mark\n{_TOOLS}"


@contextmanager
def entered_by_everybody() -> Iterator[Path]:
    """A folder in which other users can get to what is theirs, which pytest's own are not."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)
        yield folder


def tree(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def run(
    section: Section[Any], shell: str, root: Path, *places: str, commands: str = ""
) -> tuple[int, str]:
    """`places` are looked for below `root`; `commands` are shell functions that stand in."""
    tools, snippet = TOOLS, section.snippet
    for place in places:
        tools, snippet = (one.replace(place, f"{root}{place}") for one in (tools, snippet))
    done = subprocess.run(
        [*command(shell), "-c", f"{tools}\n{commands}\n{hidden(snippet)}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == "", done.stderr
    return done.returncode, as_collected(done.stdout).replace(str(root), "")


def awk_that_gives_up(folder: Path, times: int) -> str:
    """For `commands`: so often, as mawk does where a process ends while it is read."""
    awk = folder / "bin/awk"
    awk.parent.mkdir()
    awk.write_text(
        f'#!/bin/sh\ncd {folder}\n[ "$(cat gave-up 2>/dev/null | wc -c)" -ge {times} ] ||'
        f' {{ printf . >>gave-up; exit 2; }}\ncd "$OLDPWD"; exec {needed("awk")} "$@"\n'
    )
    awk.chmod(0o755)
    return f"PATH={awk.parent}:$PATH"


def called(snippet: str) -> str:
    return f"section() {{\n{snippet}\n}}\nsection"


def hidden(snippet: str) -> str:
    """As a lane has it: what it says passes through the filter of secrets."""
    piped = "code=$( { { section >&8; echo $? >&7; } 8>&1 | hide >&9; } 7>&1 )"
    return f"section() {{\n{snippet}\n}}\n{{ {piped}; }} 9>&1\nexit $code"


def as_collected(output: str) -> str:
    return with_heads(output, "mark")
