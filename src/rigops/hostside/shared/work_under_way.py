"""Whether rigops itself works on this host now, by its own notes there. Python 3.8."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LONGEST_S = 45 * 60.0  # a run that lasts longer no longer counts


def read_json(path: Path) -> dict[str, Any]:
    """Empty where there is none, or none that can be read."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        if isinstance(found, dict):
            return found
    return {}


def work_under_way(system: Path) -> str:
    """Its present work, or nothing. `system`: / but for tests."""
    records = system / "var/lib/rigops"
    lock = records / "lock.json"
    pid = read_json(lock).get("pid")
    if isinstance(pid, int) and _is_young(lock) and (system / f"proc/{pid}").is_dir():
        return "a run of rigops changes the host"
    proof = records / "failed_proof.json"
    pairs = read_json(proof).get("pairs")
    begun = [
        one
        for one in (pairs if isinstance(pairs, list) else ())
        if isinstance(one, dict) and one.get("verdict") == "begun"
    ]
    return "a preflight is under way" if begun and _is_young(proof) else ""


def _is_young(path: Path) -> bool:
    """Of a file from the future nothing is known: the clock was set."""
    with suppress(OSError):
        return 0 <= time.time() - path.stat().st_mtime + 1 < LONGEST_S
    return False
