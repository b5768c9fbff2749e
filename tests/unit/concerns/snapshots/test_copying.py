"""Copies of trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rigops.backup.host.errors import HostError
from rigops.concerns.snapshots.host import copying

if TYPE_CHECKING:
    from pathlib import Path


class Meter:
    done = 0
    output: Any = None

    def count(self, _: int) -> None:
        """Nobody looks."""


def test_a_cp_that_hangs_is_given_up_and_one_that_works_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "SILENCE_S", 1.0)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    cp, meter = tmp_path / "cp", Meter()
    cp.write_text("#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8; do sleep 0.3; done\n")
    cp.chmod(0o755)

    copying.copy_tree("/a", "/b", meter)  # type: ignore[arg-type]  # what it needs of one

    cp.write_text("#!/bin/sh\nexec sleep 1000\n")
    with pytest.raises(HostError, match="copying /a: cp did nothing for 1 s") as refused:
        copying.copy_tree("/a", "/b", meter)  # type: ignore[arg-type]  # what it needs of one
    assert "dmesg" in refused.value.fix
