from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.check_timer import judge_timer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("active", "enabled", "why"),
    [
        ("active", "enabled", ""),
        ("inactive", "", ""),
        ("", "enabled", ""),
        ("inactive", "enabled", "the timer is inactive"),
        ("inactive", "masked", "the timer is masked"),
        ("active", "disabled", "the timer is disabled, so no boot starts it"),
    ],
)
def test_a_timer_that_does_not_run_fails_whatever_the_age_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: str, enabled: str, why: str
) -> None:
    said = f"ActiveState={active}\\nUnitFileState={enabled}\\n"
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\n[ \"$4\" = rigops-borg.timer ] && printf '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    found = [
        (state.subject, state.status, state.text)
        for state in judge_timer("borg.age", "rigops-borg")
    ]

    assert found == ([("rigops-borg.timer", "failing", why)] if why else [])


def test_without_an_answer_of_systemd_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert judge_timer("borg.age", "rigops-borg") == []
