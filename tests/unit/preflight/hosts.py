"""Hosts that answer what a test wants them to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rigops.preflight.payload import SCHEMA
from rigops.transport import Result, ScriptResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self  # from Python 3.11 on in typing

A, B, C = "0000:0a:00.0", "0000:0b:00.0", "0000:41:00.0"


def pair(one: str, other: str, verdict: str, **more: Any) -> dict[str, Any]:
    passed = {"ok": "L5", "slower_than_staged": "L5"}
    level = passed.get(verdict) or ("L1" if verdict in {"hang", "wrong_data"} else "L0")
    return {"from": one, "to": other, "verdict": verdict, "level": level, "evidence": [], **more}


def collectives(verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "cause": "",
        "evidence": [],
        "library": "/usr/lib/libnccl.so.2",
        "version": "2.18.5",
        "p2p_gb_per_s": None,
        "control_gb_per_s": 9.8,
        **more,
    }


def said(*pairs: dict[str, Any], boot_id: str = "boot-1", **more: Any) -> ScriptResult:
    result = {
        "schema": SCHEMA,
        "boot_id": boot_id,
        "at": 1769882400,
        "processor": "AuthenticAMD",
        "machine": {"board": "ASUS X399", "kernel": "6.1.0-31-amd64", "driver": "535.261.03"},
        "gpus": [{"address": A, "name": "RTX 3090"}, {"address": B, "name": "RTX 3090"}],
        "on_bus": [],
        "jobs": [],
        "topology": "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n",
        "pairs": list(pairs),
        "troubles": [],
        "needs_reboot": False,
        **more,
    }
    lines = [{"event": "step", "step": "cuInit"}, {"event": "result", "result": result}]
    return answer("\n".join(map(json.dumps, lines)))


def answer(out: str, *, code: int = 0, err: str = "", started: bool = True) -> ScriptResult:
    return ScriptResult(
        exit_code=code,
        stdout=out.encode(),
        stderr=err.encode(),
        started=started,
        complete=True,
        login_noise=b"" if started else b"This account is not available.",
        login_seconds=0.0,
    )


GRANTED = said(pair(A, B, "skipped"), pair(B, A, "skipped"))
PROVEN = said(pair(A, B, "ok", gb_per_s=12.9), pair(B, A, "ok", gb_per_s=12.8))
REFUSED_PAIRS = pair(A, B, "not_granted"), pair(B, A, "not_granted")
REFUSED = said(*REFUSED_PAIRS)


class CutError(Exception):
    """Events arrive, and then the connection is lost with this error."""

    def __init__(self, error: Exception, *events: dict[str, Any]) -> None:
        super().__init__(str(error))
        self.error = error
        self.lines = [json.dumps(event).encode() for event in events]


@dataclass
class FakeHost:
    """Gives its answers one after the other, or raises them."""

    answers: list[ScriptResult | Exception]
    asked: list[list[str]] = field(default_factory=list)
    recorded: list[list[str]] = field(default_factory=list)
    records_with: Result = field(
        default_factory=lambda: Result(exit_code=0, stdout=b"", stderr=b"")
    )
    closed: bool = False

    def run_script(
        self,
        script: str,
        *,
        argv: Sequence[str] = (),
        deadline_s: float,
        on_line: Callable[[bytes], None] | None = None,
        **of_a_probe: object,
    ) -> ScriptResult:
        """It runs no probe."""
        del script, deadline_s
        if of_a_probe:
            return answer("")
        self.asked.append(list(argv))
        now = self.answers.pop(0)
        if isinstance(now, CutError):
            for line in now.lines:
                if on_line:
                    on_line(line)
            raise now.error
        if isinstance(now, Exception):
            raise now
        if on_line:
            for line in now.stdout.splitlines():
                on_line(line)
        return now

    def run(self, argv: Sequence[str], *, deadline_s: float) -> Result:
        del deadline_s
        self.recorded.append(list(argv))
        return self.records_with

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
