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
    from collections.abc import Iterator, Sequence

SUITE = "bookworm"

_APT = Path("/etc/apt")
_RELEASES = ("bookworm", "trixie", "forky", "bullseye", "sid")


def make(what: str, tree: Path, packages: Sequence[str], *hooks: str, suite: str = SUITE) -> None:
    """`hooks`: options of mmdebstrap that say what runs in between."""
    command = [
        "mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}",
        "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
        *hooks, suite, str(tree), *_sources(suite),
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


def archive(*, security: bool = False) -> str:
    """The URI of the Debian archive that this machine's own apt uses, of whichever release."""
    suffix = "-security" if security else ""
    for release in _RELEASES:
        for uri, suites in _stanzas():
            if f"{release}{suffix}" in suites:
                return uri
    if security:
        return f"{archive().rstrip('/')}-security"  # beside it, as on every mirror
    raise LabError(f"no apt source of {' or '.join(_RELEASES)} is configured on this machine")


def _sources(suite: str) -> list[str]:
    """The machine's own files of apt sources of this suite, or else lines for the same archive."""
    files = [str(path) for path in _files() if _names(path, suite)]
    return files or [
        f"deb {archive()} {suite} main",
        f"deb {archive()} {suite}-updates main",
        f"deb {archive(security=True)} {suite}-security main",
    ]


def _names(path: Path, suite: str) -> bool:
    return any(suite in suites for _, suites in _read(path))


def _stanzas() -> Iterator[tuple[str, list[str]]]:
    for path in _files():
        yield from _read(path)


def _files() -> list[Path]:
    folder = _APT / "sources.list.d"
    files = [
        _APT / "sources.list",
        *sorted(folder.glob("*.sources")),
        *sorted(folder.glob("*.list")),
    ]
    return [path for path in files if path.is_file()]


def _read(path: Path) -> Iterator[tuple[str, list[str]]]:
    """URI and suites of each source with Debian's component, in either of apt's two forms."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    for line in lines:
        if one := re.match(r"deb\s+(?:\[.*?\]\s+)?(\S+)\s+(\S+)\s.*\bmain\b", line):
            yield one[1], [one[2]]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields = dict(re.findall(r"(?m)^(URIs|Suites|Components):\s*(.*)$", stanza))
        if "URIs" in fields and "main" in fields.get("Components", "").split():
            yield fields["URIs"].split()[0], fields["Suites"].split()
