"""A snapshot of the root before a change: by rigops' own program, or by snapper where that rules.

The program comes by stdin: a host needs nothing of rigops for it, declared or not.
"""

from __future__ import annotations

import re
from typing import Final

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.btrfs_lines import ProgramAnswer
from rigops.backup.engine import BackupError
from rigops.concerns.preconditions.root import RootSnapshot
from rigops.converge.connector import HostChannel
from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.hostside.packing import pack
from rigops.transport import Result
from rigops.transport.errors import clean

_SEE: Final = "see `sudo btrfs filesystem usage /` and `dmesg`"
_WORDS: Final = "rigops apply"
_DEADLINE_S: Final = 600.0  # btrfs writes all that is pending first
_NUMBER = re.compile(r"[0-9]{1,9}")


class RefusedSnapshotError(RigopsError):
    """There is no way back, so nothing is changed."""

    def __init__(self, what: str, fix: str) -> None:
        self.reason = f"no snapshot of / could be taken: {what}. fix: {fix}"
        super().__init__(Problem(message=self.reason, fix=fix))


@dataclass(frozen=True)
class SnapperPair:
    """`number`: of the snapshot before; snapper shows what changed up to the one after."""

    config: str
    number: str

    def end(self, channel: HostChannel) -> None:
        words = ("snapper", "-c", self.config, "create", "-t", "post", "--pre-number", self.number)
        channel.run([*words, "-d", _WORDS], b"", _DEADLINE_S)


def take_snapshot(channel: HostChannel, wanted: RootSnapshot) -> tuple[str, SnapperPair | None]:
    """Its name."""
    if wanted.by == "snapper":
        pair = _begin_pair(channel, wanted.snapper)
        return f"snapper {pair.config} {pair.number}", pair
    try:
        found = ask_program(channel, "create", "--kind", "apply", "--subvolume", "/")
    except BackupError as error:
        raise RefusedSnapshotError(error.message, error.fix or _SEE) from error
    created = found.get("created")
    names = [one.get("name") for one in created or () if one.get("path") == "/"]
    if not names:
        raise RefusedSnapshotError("the program took none", _SEE)
    return str(names[0]), None


def ask_program(channel: HostChannel, *words: str) -> ProgramResult:
    """Its result, or BackupError."""
    answer = ProgramAnswer(lambda _: None, channel.tell)
    argv = channel.wrap(["python3", "-I", "-", "--json", *words])
    done = channel.run(argv, pack("snapshots").text.encode(), _DEADLINE_S)
    for line in done.stdout.splitlines():
        answer.hear(line)
    found = answer.result_or_raise("", done.stderr or done.stdout)
    for error in found.get("errors", ()):
        raise BackupError("", error["message"] or "", error["fix"] or "")
    return found


def _begin_pair(channel: HostChannel, config: str) -> SnapperPair:
    words = ["snapper", "-c", config, "create", "-t", "pre", "-p", "-d", _WORDS]
    done = channel.run(channel.wrap(words), b"", _DEADLINE_S)
    number = done.stdout.decode(errors="replace").strip()
    if done.exit_code != 0 or not _NUMBER.fullmatch(number):
        raise RefusedSnapshotError(
            f"snapper: {_last_line(done)}", f"see `sudo snapper -c {config} list`"
        )
    return SnapperPair(config, number)


def _last_line(done: Result) -> str:
    output = done.stderr or done.stdout
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return clean(lines[-1]) if lines else "no output"
