"""Whether the timer of an engine runs: of one that does not, no age tells for days."""

from __future__ import annotations

import subprocess

from rigops.concerns.state import FAILING, State
from rigops.unit_state import unit_in_words, unit_runs

_ANSWER_S = 10


def judge_timer(check: str, unit: str) -> list[State]:
    """Nothing where it runs, where it has no file (rigops.files says so), and without systemd."""
    words = ["systemctl", "show", "-p", "ActiveState,UnitFileState", f"{unit}.timer"]
    try:
        said = subprocess.run(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_ANSWER_S,
            check=True,
            text=True,
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    active, enabled = found.get("ActiveState", ""), found.get("UnitFileState", "")
    if not active or not enabled or unit_runs(active, enabled):
        return []
    why = f"the timer {unit_in_words(active, enabled)}"
    return [State(check, f"{unit}.timer", "", "", "", FAILING, why)]
