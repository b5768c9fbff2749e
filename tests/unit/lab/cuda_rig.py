"""A cuda.conf, a folder for device memory, and programs that run against both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
VERSION = "535.261.03"
CARD = 25769803776


@dataclass
class Rig:
    folder: Path
    libcuda: Path
    libnccl: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def shm(self) -> Path:
        path = self.folder / "shm"
        path.mkdir(exist_ok=True)
        return path

    @property
    def conf(self) -> Path:
        return self.folder / "cuda.conf"

    def configure(
        self,
        *extra: str,
        cards: int = 2,
        driver: str = VERSION,
        lost: frozenset[int] = frozenset(),
        pairs: dict[tuple[int, int], dict[str, Any]] | None = None,
        **every_pair: Any,
    ) -> None:
        """Whole and at once, as the lab writes it."""
        lines = [f"driver {driver}", *extra]
        for card in range(cards):
            state = "lost" if card in lost else "ok"
            address = f"0000:{10 + card:02x}:00.0"
            lines.append(f"gpu {card} {address} {uuid(card)} 8.6 {CARD} {state} GeForce RTX 3090")
        for pair in ((a, b) for a in range(cards) for b in range(cards) if a != b):
            facts = {**PAIR, **every_pair, **(pairs or {}).get(pair, {})}
            words = " ".join(f"{key}={value}" for key, value in facts.items())
            lines.append(f"pair {pair[0]} {pair[1]} {words}")
        self.write("\n".join(lines) + "\n")

    def write(self, text: str) -> None:
        new = self.conf.with_suffix(".new")
        new.write_text(text)
        new.replace(self.conf)

    def run(self, *arguments: str, program: str = "cuda_program", timeout: float = 60) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", f"tests.unit.lab.{program}", *arguments],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=timeout,
        )
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def start(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [sys.executable, "-m", "tests.unit.lab.cuda_program", *arguments],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _environment(self) -> dict[str, str]:
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("CUDA_")},
            "RIGSIM_CUDA_CONF": str(self.conf),
            "RIGSIM_SHM": str(self.shm),
            "LIBCUDA": str(self.libcuda),
            "LIBNCCL": str(self.libnccl),
            **self.environment,
        }


PAIR = {
    "granted": 1,
    "copy": "ok",
    "rate": 12.9,
    "both": 24.1,
    "latency": 1.1,
    "staged": 9.8,
    "link": "pcie",
}


def uuid(card: int) -> str:
    return f"GPU-{card:08x}-1111-2222-3333-444444444444"


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> Any:
    """Tells the program to go on, and returns what it saw."""
    output, _ = process.communicate("\n", timeout=60)
    return json.loads(output.splitlines()[-1])


def still_runs(process: subprocess.Popen[str], seconds: float = 0.5) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return True
    return False
