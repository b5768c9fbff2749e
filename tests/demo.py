"""A demonstration in chapters, each with a command as a person would type it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab.requirements import lacks

ROOT = Path(__file__).resolve().parents[1]
RIGS = ("threadripper-3x3090=threadripper", "t180-4xv100=t180")

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


ON_RIGS = (
    Chapter(
        "Two rigs: what is wrong with them? (One has the driver and the IOMMU that break P2P.)",
        "rigops doctor -i inventory/demo.py",
        exit_code=1,
    ),
    Chapter(
        "Do copies between the cards arrive? On 545 the driver says so, and they hang",
        "rigops preflight -i inventory/demo.py --yes",
        exit_code=1,
    ),
    Chapter(
        "What would change? Nothing is touched",
        "rigops plan inventory/demo.py --limit threadripper",
    ),
    Chapter(
        "The pinned driver, the kernel argument and ACS, with one reboot, and the proof",
        "rigops apply inventory/demo.py --limit threadripper --yes --reboot auto",
    ),
    Chapter("What is left?", "rigops doctor threadripper -i inventory/demo.py"),
    Chapter("What was done, and when", "rigops history threadripper -i inventory/demo.py"),
)

WITHOUT_RIGS = (
    Chapter("Which driver for three RTX 3090, and who says so?", "rigops drivers --gpu 3090"),
    Chapter(
        "Both rigs by name: for ssh, rsync and VS Code Remote",
        "rigops ssh-config -i inventory/demo.py",
    ),
    Chapter(
        "An inventory with the mistakes people make: all shown at once, each with a fix",
        "rigops ssh-config -i {mistakes}",
        exit_code=2,
    ),
)


def main() -> int:
    began = time.monotonic()
    missing = lacks()
    if missing:
        print(f"The simulated rigs cannot boot here: {missing}. Other chapters follow.")
        chapters: tuple[Chapter, ...] = WITHOUT_RIGS
    else:
        print(f"Booting two simulated rigs: {' '.join(RIGS)}", flush=True)
        _lab("up", *RIGS)
        chapters = ON_RIGS + WITHOUT_RIGS
    try:
        wrong = _tell(chapters)
    finally:
        if not missing:
            _lab("down", "threadripper", "t180")
    print(f"\n\nThat took {time.monotonic() - began:.0f} s.")
    return wrong


def _tell(chapters: tuple[Chapter, ...]) -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        # Removes what rigops writes beside an inventory and at home.
        shutil.copytree(ROOT / "inventory", Path(folder) / "inventory")
        environment = {**os.environ, "XDG_DATA_HOME": folder, "XDG_STATE_HOME": folder}
        mistakes = Path(folder) / "mistakes.py"
        mistakes.write_text(MISTAKES)
        for number, chapter in enumerate(chapters, 1):
            command = chapter.command.format(mistakes=mistakes)
            print(f"\n\n{number}. {chapter.title}\n\n$ {command}\n", flush=True)
            arguments = [sys.executable, "-m", *shlex.split(command)]
            done = subprocess.run(
                arguments, cwd=folder, env=environment, stderr=subprocess.STDOUT, check=False
            )
            if done.returncode != chapter.exit_code:
                print(f"\nexit code {done.returncode} where {chapter.exit_code} was expected")
                wrong = 1
    return wrong


def _lab(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "tests.lab", *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
