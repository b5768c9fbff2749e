"""Where in a host-side program something stands that cannot be packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.errors import Problem, RigopsError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Place:
    program: str
    module: str
    file: Path
    line: int

    def refusal(self, why: str) -> RigopsError:
        return RigopsError(
            Problem(
                message=f"{self.program} cannot be packed: {self.module}, line {self.line}: {why}",
                file=str(self.file),
                line=self.line,
            ),
        )
