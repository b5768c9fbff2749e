"""A small Debian in a folder, as mmdebstrap makes it from this machine's own apt sources."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import namespace
from tests.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

SUITE = "bookworm"


def make(what: str, tree: Path, packages: Sequence[str], *hooks: str) -> None:
    """`hooks`: options of mmdebstrap that say what runs in between."""
    command = [
        "mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}",
        "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
        *hooks, SUITE, str(tree), *_sources(),
    ]  # fmt: skip
    done = subprocess.run(
        namespace.enter(["exec " + shlex.join(command)]),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise LabError(f"mmdebstrap could not make {what}:\n{done.stdout[-4000:]}")


def _sources() -> list[str]:
    """The machine's own apt sources of this suite; none leaves the choice to mmdebstrap."""
    apt = Path("/etc/apt")
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.sources"))]
    files += sorted((apt / "sources.list.d").glob("*.list"))
    return [str(path) for path in files if path.is_file() and _is_debian(path.read_text())]


def _is_debian(text: str) -> bool:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return bool(re.search(rf"(?m)^(deb\s.*|Suites:.*)\s{SUITE}(\s|$)", "\n".join(lines)))


def archive(*, security: bool = False) -> str:
    """The URI of the Debian archive that this machine's own apt uses for this suite."""
    suite = f"{SUITE}-security" if security else SUITE
    for path in map(Path, _sources()):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"(?m)^(URIs|Suites):\s*(.*)$", stanza))
            if suite in fields.get("Suites", "").split():
                return str(fields["URIs"].split()[0])
            if line := re.search(rf"(?m)^deb\s+(?:\[.*?\]\s+)?(\S+)\s+{suite}\s", stanza):
                return line[1]
    raise LabError(f"this machine's apt has no source of {suite}")
