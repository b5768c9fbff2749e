"""The real cards: how CUDA and nvidia-smi list them, and jobs in children that may hang."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from rigops.hostside.p2p.census import take_census
from rigops.hostside.p2p.watched import Ended, Patience, watch

if TYPE_CHECKING:
    from rigops.hostside.p2p.watched import Job

READY_S, DONE_S = 60.0, 60.0


def run(job: Job, done_s: float = DONE_S) -> Ended:
    """In a fork of this process, which never loads CUDA itself."""
    return watch(job, Patience(READY_S, done_s), lambda *_: None)


def census() -> Any:
    ended = run(take_census)
    answer = ended.last("answer")
    assert answer is not None, f"{ended.step}: {ended.how or 'no answer'}\n{ended.text}"
    assert "trouble" not in answer, str(answer)
    return answer


def query(*fields: str) -> list[dict[str, str]]:
    """What nvidia-smi reports of each card, by its own names."""
    words = [f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    text = subprocess.run(
        ["nvidia-smi", *words], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    rows = ([word.strip() for word in line.split(",")] for line in text.splitlines())
    return [dict(zip(fields, row, strict=True)) for row in rows]


def number(word: str) -> float | None:
    """None: nvidia-smi says [N/A], in one of its spellings."""
    return None if word.startswith("[") or word == "N/A" else float(word)
