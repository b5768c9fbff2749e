"""The tests of real cards, on a card whose driver is simulated: right ones pass, bad ones fail.

Without what doctor reads: a probe runs only the nvidia-smi that is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.silicon.cuda.build import build
from tests.shards import REAL_CUDA, SILICON
from tests.silicon.requirements import is_of_kernel
from tests.tiers import NOTHING_SKIPPED, ROOT
from tests.unit.lab.rigsim_tree import SILICON as SIMULATED
from tests.unit.lab.rigsim_tree import booted

if TYPE_CHECKING:
    from tests.unit.lab.rigsim_tree import Tree

pytestmark = pytest.mark.shard(REAL_CUDA)

DRIVER = "535.261.03"
ONE_CARD = "desktop-5090"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libraries")
    for soname, path in build(folder / "built", DRIVER).items():
        (folder / soname).symlink_to(path)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-smi").symlink_to(SIMULATED / "bin/nvidia-smi")
    return booted(tmp_path / "root", ONE_CARD, DRIVER)


def run(tree: Tree, libraries: Path, only: str) -> subprocess.CompletedProcess[str]:
    simulated = {
        "RIGSIM_ROOT": str(tree.root),
        "RIGSIM_CUDA_CONF": str(tree.root / "run/rigsim/cuda.conf"),
        "LD_LIBRARY_PATH": str(libraries),
        "PATH": f"{tree.root.parent / 'bin'}:{os.environ['PATH']}",
    }
    own = {name: value for name, value in os.environ.items() if name != NOTHING_SKIPPED}
    words = ["-q", "-p", "no:cacheprovider", "--shard", SILICON, "-k", only, "tests/silicon"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        env={**own, **simulated},
        check=False,
        capture_output=True,
        text=True,
    )


def test_they_pass_on_a_right_card_and_show_what_was_seen(tree: Tree, libraries: Path) -> None:
    done = run(tree, libraries, "not doctor")

    assert done.returncode == 0, done.stdout
    seen = done.stdout.partition("for docs/reference/verified-on.md")[2]
    assert "**NOT A REAL CARD (no NVIDIA card" in seen
    assert f"1 NVIDIA GeForce RTX 5090 (32607 MiB), driver {DRIVER}" in seen
    assert seen.count("- one card taken for two, L1 to L5: copies ") == 2
    assert "- left out: pairs of real cards: there is one card" in seen


def test_they_fail_on_one_that_brings_wrong_bytes(tree: Tree, libraries: Path) -> None:
    conf = tree.root / "run/rigsim/cuda.conf"
    conf.write_text(conf.read_text().replace(" ok ", " corrupt "))

    done = run(tree, libraries, "test_one_card or test_sums")

    assert done.returncode == 1, done.stdout
    assert "\n2 failed, " in done.stdout
    assert done.stdout.count("- FAILED: tests/silicon/") == 2


def test_a_simulated_card_is_not_taken_for_one_of_the_kernel(tree: Tree) -> None:
    (card,) = (tree.root / "proc/driver/nvidia/gpus").iterdir()

    assert not is_of_kernel(card)
    assert is_of_kernel(Path("/proc/self"))
