"""The packed preflight program on this machine, against a simulated CUDA driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rigops.hostside.packing import pack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DRIVER = "535.261.03"
ADDRESSES = ("0000:0a:00.0", "0000:0b:00.0", "0000:41:00.0", "0000:61:00.0")
SMALL = (4 << 10, 1 << 20)
TOPOLOGY = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n"


@dataclass(frozen=True)
class Run:
    events: list[dict[str, Any]]
    seconds: float
    left_behind: frozenset[str]  # in the home of the login

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.events[-1]["result"]
        return found

    def pair(self, one: int, other: int) -> dict[str, Any]:
        wanted = (ADDRESSES[one], ADDRESSES[other])
        return next(p for p in self.result["pairs"] if (p["from"], p["to"]) == wanted)

    def verdicts(self) -> list[str]:
        return [pair["verdict"] for pair in self.result["pairs"]]


@dataclass(frozen=True)
class Rig:
    folder: Path
    library: Path | None

    def write(
        self,
        gpus: int = 2,
        *,
        copy: str = "ok",
        granted: bool = True,
        refused: frozenset[tuple[int, int]] = frozenset(),
        lost: int | None = None,
        corrupt: int | None = None,
        copies: Mapping[tuple[int, int], str] = MappingProxyType({}),
        driver: str = DRIVER,
        rate: float = 12.9,
        more: str = "",
    ) -> None:
        lines = [f"driver {driver}"]
        lines += [
            f"gpu {i} {ADDRESSES[i]} GPU-{i:08d}-0000-0000-0000-000000000000 8.6 25769803776 "
            f"{'lost' if i == lost else 'corrupt' if i == corrupt else 'ok'} GeForce RTX 3090"
            for i in range(gpus)
        ]
        lines += [
            f"pair {i} {j} granted={int(granted and (i, j) not in refused)} "
            f"copy={copies.get((i, j), copy)} "
            f"rate={rate} both=24.1 latency=1.1 staged=9.8 link=pcie"
            for i in range(gpus)
            for j in range(gpus)
            if i != j
        ]
        (self.folder / "cuda.conf").write_text("\n".join([*lines, *filter(None, [more]), ""]))

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "RIGSIM_CUDA_CONF": str(self.folder / "cuda.conf"),
            "LD_LIBRARY_PATH": str(self.library.parent if self.library else self.folder),
            "HOME": str(self.folder),
            "CUDA_VISIBLE_DEVICES": "1",  # what a login shell may have set must not count
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }

    def run(
        self,
        *,
        level: str = "p2p",
        python: str = sys.executable,
        init_s: float = 60,
        pair_s: float = 60,
        all_s: float = 300,
        dead_s: float = 60,
        text: str | None = None,
        pairs: tuple[str, ...] = (),
        more: tuple[str, ...] = (),
        changes: Mapping[str, str] = MappingProxyType({}),
    ) -> Run:
        words = ["--level", level, "--passes", "3", "--sizes", *map(str, SMALL)]
        words += ["--init-s", str(init_s), "--pair-s", str(pair_s), "--all-s", str(all_s)]
        words += ["--dead-s", str(dead_s), "--system", str(self.folder / "sys")]
        words += [*more, *(["--pairs", *pairs] if pairs else [])]
        program = text or pack("preflight").text
        for now, then in changes.items():
            assert program.count(now) == 1
            program = program.replace(now, then)
        before = set(self.folder.iterdir())
        start = time.monotonic()
        done = subprocess.run(
            [python, "-I", "-", *words],
            input=program,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env=self.environment(),
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, "")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        new = set(self.folder.iterdir()) - before
        return Run(events, time.monotonic() - start, frozenset(path.name for path in new))

    def programs(self) -> None:
        """Those that the program asks, as on a machine where a login may not read the log."""
        self.program("nvidia-smi", f"printf '{TOPOLOGY}'")
        for log in ("journalctl", "dmesg"):
            self.program(log, "echo not permitted >&2; exit 1")

    def put_on_bus(self, *addresses: str, driver: str = "nvidia") -> None:
        (self.folder / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        for address in addresses:
            device = self.folder / "sys/bus/pci/devices" / address
            device.mkdir(parents=True)
            (device / "vendor").write_text("0x10de\n")
            (device / "class").write_text("0x030000\n")
            (device / "driver").symlink_to(self.folder / "sys/bus/pci/drivers" / driver)

    def program(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
