"""A host that only remembers what it was told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rigops.concerns.preconditions.root import RootFacts
from rigops.converge.lock import Holder
from rigops.converge.request import RunOptions, Selection
from rigops.converge.snapshot import RunSnapshot
from rigops.transport import Connection, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rigops.transport import Privilege
    from rigops.transport.connection import Execution


@dataclass(frozen=True)
class Sent:
    words: tuple[str, ...]
    stdin: str


@dataclass
class FakeHost(Connection):
    """Says yes to everything, or `exit_code` and `stderr`."""

    exit_code: int = 0
    stderr: bytes = b""
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__("rig", "root@rig:22")

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        privilege: Privilege | None = None,
        deadline_s: float,
        max_output: int = 0,
    ) -> Result:
        text = stdin if isinstance(stdin, bytes) else b"".join(stdin)
        self.sent.append(Sent(tuple(argv), text.decode(errors="replace")))
        return Result(exit_code=self.exit_code, stdout=b"", stderr=self.stderr)

    def _execute(self, execution: Execution, deadline_s: float) -> int:
        raise AssertionError

    def close(self) -> None:
        pass


NOTHING_COLLECTED = RunSnapshot(
    boot=None, command_line=None, driver=None, silicon=None, state=None,
    root=RootFacts(file_system="ext4"), system=None, uname=None, known=(), paths=(), files={},
)  # fmt: skip


def run_options(deploys: Sequence[Path] = ()) -> RunOptions:
    return RunOptions(
        selection=Selection(),
        deploys=deploys,
        holder=Holder("me@here", "run", "2026-11-21T10:00:00Z"),
    )
