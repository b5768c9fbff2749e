"""What a host reports of the snapshot before a change, and what refuses the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from rigops.concerns.preconditions.root import RootSnapshot
from rigops.converge.root_snapshot import RefusedSnapshotError, SnapperPair, take_snapshot
from rigops.transport import Result

BY_RIGOPS = RootSnapshot(by="rigops")
BY_SNAPPER = RootSnapshot(by="snapper", snapper="root")


class Channel:
    def __init__(self, code: int, stdout: str, stderr: str = "") -> None:
        self.result = Result(exit_code=code, stdout=stdout.encode(), stderr=stderr.encode())
        self.heard: list[str] = []
        self.tell = self.heard.append
        self.asked: list[tuple[list[str], bytes]] = []

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def run(self, argv: Sequence[str], stdin: bytes, _: float) -> Result:
        self.asked.append((list(argv), stdin))
        return self.result


def taken(channel: Channel, wanted: RootSnapshot = BY_RIGOPS) -> tuple[str, SnapperPair | None]:
    return take_snapshot(cast("Any", channel), wanted)


def test_the_packed_program_takes_it_without_being_installed() -> None:
    created = '{"result": {"created": [{"path": "/", "name": "20261125T060001Z-apply"}]}}'
    channel = Channel(0, f'{{"notice": "pruned one"}}\n{created}\n')

    assert taken(channel) == ("20261125T060001Z-apply", None)
    ((argv, stdin),) = channel.asked
    assert argv == ["python3", "-I", "-", "--json", "create", "--kind", "apply", "--subvolume", "/"]
    assert stdin.startswith(b"#!/usr/bin/python3 -I")


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        (
            Channel(1, '{"error": {"message": "/: the file system is full", "fix": "free some"}}'),
            "no snapshot of / could be taken: /: the file system is full. fix: free some",
        ),
        (
            Channel(1, "", "Traceback\nOSError: gone\n"),
            "result: OSError: gone. fix: ",
        ),
        (Channel(0, "noise\n[1]\n"), "ended without a result: [1]. fix: "),
        (
            Channel(0, '{"result": {"created": [{"path": "/a", "name": "x"}]}}'),
            "the program took none. fix: ",
        ),
        (Channel(137, ""), "ended without a result: no output. fix: "),
    ],
)
def test_whatever_is_no_snapshot_refuses_the_change_with_a_fix(
    channel: Channel, reason: str
) -> None:
    with pytest.raises(RefusedSnapshotError) as refused:
        taken(channel)

    assert reason in refused.value.reason


def test_where_snapper_manages_the_root_it_takes_a_pair() -> None:
    channel = Channel(0, "12\n")

    name, pair = taken(channel, BY_SNAPPER)
    assert (name, pair) == ("snapper root 12", SnapperPair("root", "12"))
    assert pair is not None
    pair.end(cast("Any", channel))
    before, after = (" ".join(argv) for argv, _ in channel.asked)
    assert before == "snapper -c root create -t pre -p -d rigops apply"
    assert after == "snapper -c root create -t post --pre-number 12 -d rigops apply"


def test_a_snapper_that_fails_refuses_the_change() -> None:
    with pytest.raises(RefusedSnapshotError, match="IO Error"):
        taken(Channel(1, "", "IO Error (open failed).\n"), BY_SNAPPER)
