"""What rigops does today, chapter by chapter, each command as a person would type it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

MISTAKES = """\
DRIVERS = ["535", "545"]
rigs = [
    ("threadripper", {"driver": "latest", "gpu_power_limt": 285, "kernel_args": "iommu=pt"}),
]
"""


@dataclass(frozen=True)
class Chapter:
    title: str
    command: str
    exit_code: int = 0


CHAPTERS = (
    Chapter("Which driver for three RTX 3090, and who says so?", "rigops drivers --gpu 3090"),
    Chapter(
        "Two rigs by name: for ssh, rsync and VS Code Remote",
        "rigops ssh-config -i inventory/demo.py",
    ),
    Chapter(
        "An inventory with the mistakes people make: everything at once, with the cure",
        "rigops ssh-config -i {mistakes}",
        exit_code=2,
    ),
)


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        mistakes = Path(folder) / "mistakes.py"
        mistakes.write_text(MISTAKES)
        for number, chapter in enumerate(CHAPTERS, 1):
            command = chapter.command.format(mistakes=mistakes)
            print(f"\n\n{number}. {chapter.title}\n\n$ {command}\n", flush=True)
            arguments = [sys.executable, "-m", *shlex.split(command)]
            code = subprocess.run(arguments, cwd=ROOT, stderr=subprocess.STDOUT, check=False)
            if code.returncode != chapter.exit_code:
                print(f"\nexit code {code.returncode} where {chapter.exit_code} was expected")
                wrong += 1
    print("\n\nThis version knows drivers and inventories. Looking at hosts comes next.")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
