"""borgmatic: its commands, by version, and what they print."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from rigops.concerns.borg.host.saved_states import (
    DIRECTORY,
    FILE,
    SavedItem,
    SavedState,
    SavedStates,
    is_of_this_machine,
    without_login,
)
from rigops.concerns.borg.host.tool_run import ToolError, ToolRun
from rigops.concerns.snapshots.host.btrfs import HostError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.concerns.borg.host.tool_unit import ToolUnit

# The word that lists a repository, by the version from which on it is used.
_LIST_WORDS = (((2, 0), "repo-list"), ((1, 7), "rlist"))
# Its own log goes to neither the journal nor the answer, whatever its settings say.
_QUIET = ("--verbosity", "0", "--syslog-verbosity", "-1")
_KEPT_OPTIONS = ("-c", "--config", "--override")
_MARK = "rigops-item "
_ITEM = re.compile(r"(?P<type>\S) (?P<size>[0-9]+) (?P<path>.+)", re.DOTALL)
_KIND_OF = {"d": DIRECTORY, "-": FILE}


class Borgmatic(SavedStates):
    kind = "archive"

    def __init__(self, unit: ToolUnit) -> None:
        self._run = ToolRun(unit, (*kept_options(unit.words[1:]), *_QUIET))
        self._version_run = ToolRun(unit, ())
        self._is_single = False

    def states(self) -> list[SavedState]:
        """A repository that does not answer hides nothing of the others."""
        word = list_word(self._version_run.demand("--version"))
        answer = self._run.ask(word, "--json", "--format", "{hostname}")
        found = read_repositories(answer.text)
        if answer.code != 0 and not any(found.values()):
            raise ToolError(self._run.unit.tool, self._run.unit.service, answer.errors)
        self._is_single = answer.code == 0 and len(found) == 1
        return sorted(state for states in found.values() for state in states)

    def repository_of(self, state: SavedState) -> str:
        return without_login(state.place)

    def items(self, state: SavedState, inside: str = "") -> Iterator[SavedItem]:
        where = self._where(state)
        path = ("--path", f"pp:{inside}") if inside else ()
        form = _MARK + "{type} {size} {path}{NL}"
        for line in self._run.lines("list", *where, *path, "--format", form):
            item = read_item(line)
            if item:
                yield item

    def extract(self, state: SavedState, paths: Sequence[str], folder: str) -> None:
        """One pattern for all: how several are given differs between versions."""
        if list(paths) == [""]:
            wanted = []
        elif len(paths) == 1:
            wanted = ["--path", f"pp:{paths[0]}"]
        else:
            wanted = ["--path", f"re:^({'|'.join(map(re.escape, paths))})$"]
        self._run.demand("extract", *self._where(state), *wanted, "--destination", folder)

    def _where(self, state: SavedState) -> tuple[str, ...]:
        """Borg's name of a repository may be another one than that of the settings."""
        repository = () if self._is_single else ("--repository", state.place)
        return (*repository, "--archive", state.name)


def list_word(version: str) -> str:
    shape = re.search(r"\b([0-9]{1,4})\.([0-9]{1,4})", version)
    found = (int(shape[1]), int(shape[2])) if shape else (0, 0)
    word = next((word for since, word in _LIST_WORDS if found >= since), "")
    if not word:
        raise HostError(
            f"borgmatic is {version.strip() or 'of an unknown version'}, and its commands are "
            "known from 1.7 on",
            "use borgmatic itself on the host",
        )
    return word


def kept_options(words: Sequence[str]) -> list[str]:
    """Which configuration it is. An option of 1.7 takes several values. Pure."""
    kept: list[str] = []
    is_kept = False
    for word in words:
        if word.startswith("-"):
            is_kept = word.partition("=")[0] in _KEPT_OPTIONS
        elif is_kept and not re.search(r"[/.=]", word):
            is_kept = False  # the name of an action ends the values
        if is_kept:
            kept.append(word)
    return kept


def read_repositories(text: str) -> dict[str, list[SavedState]]:
    """By place; empty where it is no answer."""
    try:
        repositories = json.loads(text)
    except ValueError:
        return {}
    found: dict[str, list[SavedState]] = {}
    for one in repositories:
        place = str(one["repository"]["location"])
        states = [_state_of(archive, place) for archive in one.get("archives", ())]
        found[place] = [state for state in states if state]
    return found


def _state_of(archive: dict[str, Any], place: str) -> SavedState | None:
    """Borg has times in the zone of the machine, without saying so."""
    name = str(archive.get("archive") or archive.get("name"))
    hostname = str(archive.get("hostname") or "")
    if ".checkpoint" in name or (hostname and not is_of_this_machine(hostname)):
        return None
    at = datetime.fromisoformat(str(archive.get("start") or archive.get("time")))
    return SavedState(at.astimezone(timezone.utc).replace(microsecond=0), name, name, place)


def read_item(line: str) -> SavedItem | None:
    shape = _ITEM.fullmatch(line.partition(_MARK)[2])
    if shape is None:
        return None
    return SavedItem(shape["path"], _KIND_OF.get(shape["type"], ""), int(shape["size"]))
