"""restic: its commands, and what they print."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from rigops.concerns.borg.host.saved_states import (
    SavedItem,
    SavedState,
    SavedStates,
    is_of_this_machine,
    without_login,
)
from rigops.concerns.borg.host.tool_run import ToolRun
from rigops.concerns.snapshots.host.btrfs import HostError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.concerns.borg.host.tool_unit import ToolUnit

# It reads alone: no lock is written into the repository, and no cache to the disk.
_READING = ("--no-lock", "--no-cache")
_REPOSITORY_FLAGS = ("--insecure-tls",)
_REPOSITORY_OPTIONS = (
    "-r", "--repo", "--repository-file", "-p", "--password-file", "--password-command",
    "--key-hint", "-o", "--option", "--cacert", "--tls-client-cert",
)  # fmt: skip
_URL_OPTIONS = ("-r", "--repo")
_FILE_OPTIONS = ("--repository-file",)
# Of what the unit is given by systemd, this one thing is printed.
_PRINT_REPOSITORY = """\
file=${2:-${RESTIC_REPOSITORY_FILE-}}
if [ -n "$file" ]; then cat -- "$file"; else printf %s "${1:-${RESTIC_REPOSITORY-}}"; fi
"""
_HOST_OPTIONS = ("-H", "--host", "--hostname")
_GLOB = re.compile(r"([\\*?\[\]])")
_TIME_SHAPE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?P<zone>Z|[+-]\d\d:\d\d)",
    re.ASCII,
)


class Restic(SavedStates):
    kind = "snapshot"

    def __init__(self, unit: ToolUnit) -> None:
        options = unit.words[1:]
        self._run = ToolRun(unit, (*_READING, *global_options(options)))
        url, file = (last_option(options, names) for names in (_URL_OPTIONS, _FILE_OPTIONS))
        script = _PRINT_REPOSITORY.replace("$", "$$")  # systemd replaces what is in the options
        self._printing = ToolRun(unit._replace(words=("sh",)), ("-c", script, "sh", url, file))
        self._unit = unit.name
        self._hostname = last_option(options, _HOST_OPTIONS)

    def states(self) -> list[SavedState]:
        text = self._run.demand("snapshots", "--json")
        return sorted(read_snapshot_list(text, self._unit, self._hostname))

    def repository_of(self, state: SavedState) -> str:  # noqa: ARG002 - a unit has one
        return read_repository(self._printing.ask().text)

    def items(self, state: SavedState, inside: str = "") -> Iterator[SavedItem]:
        below = ("--recursive", f"/{inside}") if inside else ()
        for line in self._run.lines("ls", "--json", state.identity, *below):
            item = read_node(line)
            if item and _is_in(item.path, inside):
                yield item

    def extract(self, state: SavedState, paths: Sequence[str], folder: str) -> None:
        wanted = [word for one in paths if one for word in ("--include", pattern_of(one))]
        self._run.demand("restore", state.identity, "--target", folder, *wanted)


def global_options(words: Sequence[str]) -> list[str]:
    """Which repository it is, and how it is reached. Pure."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if word in _REPOSITORY_FLAGS or (name in _REPOSITORY_OPTIONS and value):
            found.append(word)
        elif word in _REPOSITORY_OPTIONS:
            found += [word, next(rest, "")]
    return found


def last_option(words: Sequence[str], names: Sequence[str]) -> str:
    """Its value; empty where it is not given. Pure."""
    found = ""
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if name in names:
            found = value or next(rest, "")
    return found


def read_repository(text: str) -> str:
    """As the unit has it. A path in the folder that it works in is not looked for. Pure."""
    found = without_login(text.strip())
    path = re.sub("^local:", "", found)
    is_known = path.startswith("/") or (found == path and re.match(r"[a-z0-9]+:", path))
    return path if is_known else ""


def pattern_of(path: str) -> str:
    """That matches this path alone."""
    escaped = _GLOB.sub(r"\\\1", path)
    return f"/{escaped}"


def read_snapshot_list(text: str, place: str, hostname: str = "") -> Iterator[SavedState]:
    try:
        found = json.loads(text) or []
    except ValueError:
        raise HostError("restic gave no answer that can be read", "see `restic version`") from None
    for one in found:
        name = str(one.get("hostname") or "")
        if name == hostname if hostname else is_of_this_machine(name):
            yield _state_from(one, place)


def _state_from(found: dict[str, Any], place: str) -> SavedState:
    identity = str(found["id"])
    shape = _TIME_SHAPE.fullmatch(str(found["time"]))
    if shape is None:
        raise HostError(f"restic has a time of an unknown form: {found['time']}")
    at = datetime.fromisoformat(shape["at"] + shape["zone"].replace("Z", "+00:00"))
    paths = tuple(map(str, found.get("paths") or ()))
    name = str(found.get("short_id") or identity[:8])
    return SavedState(at.astimezone(timezone.utc), name, identity, place, paths)


def read_node(line: str) -> SavedItem | None:
    """None: the line about the snapshot itself."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or "path" not in found or "type" not in found:
        return None
    kind = {"dir": "directory", "file": "file"}.get(str(found["type"]), "")
    return SavedItem(str(found["path"]).lstrip("/"), kind, int(found.get("size") or 0))


def _is_in(path: str, inside: str) -> bool:
    return not inside or path == inside or path.startswith(f"{inside}/")
