"""A fresh clone on a bare Debian 12: `make demo` and `make test` are all that is needed.

The machine is a Debian tree with python3, pip, make and git, entered with namespaces of its own so
that nothing is left behind. It reaches packages the way this machine does.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiers import BARE_DEBIAN

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
DEMO_SECONDS = 240  # the image of the rigs and their packages included
PACKAGES = "python3,python3-pip,make,git,ca-certificates"

# Where this machine's pip is told how to find packages, and where the bare one's is told.
_PIP_SETTINGS = {
    Path("/etc/pip.conf"): "etc/pip.conf",
    Path.home() / ".config/pip/pip.conf": "etc/xdg/pip/pip.conf",
}

pytestmark = pytest.mark.shard(BARE_DEBIAN)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    tree = tmp_path_factory.mktemp("bare") / "root"
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm",
         str(tree), *_apt_sources()],
        check=True,
    )  # fmt: skip
    for path, place in _PIP_SETTINGS.items():
        if path.is_file():
            (tree / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tree / place)
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        shutil.copy(f"/{name}", tree / name)
    _in(tree, "useradd --create-home someone")
    yield tree
    shutil.rmtree(tree, ignore_errors=True)


def test_without_root_the_tests_pass_and_say_what_could_not_run(bare: Path) -> None:
    _clone(bare, "/home/someone/rigops", owner="someone")

    demo = _in(bare, "su someone -c 'cd ~/rigops && make demo'")
    said = _in(bare, "su someone -c 'cd ~/rigops && make test'")

    assert "The simulated rigs cannot boot here: booting hosts takes root" in demo
    assert "545" in demo
    assert "unit         passed" in said
    assert "lab          could not run here: openssh-server is not installed" in said
    skipped = [line for line in said.splitlines() if line.startswith("SKIPPED")]
    assert all("there is no " in line or "is not installed" in line for line in skipped)


def test_as_root_the_demo_and_the_tests_run_with_no_other_step(bare: Path) -> None:
    _clone(bare, "/root/rigops", owner="root")

    demo = _in(bare, "cd ~/rigops && make demo")
    tests = _in(bare, "cd ~/rigops && RIGOPS_NOTHING_SKIPPED=1 make test")

    assert "threadripper was changed and is as declared" in demo
    took = re.search(r"That took (\d+) s", demo)
    assert took is not None
    assert int(took[1]) < DEMO_SECONDS
    for tier in ("lint", "types", "imports", "unit", "lab"):
        assert f"{tier:<12} passed" in tests


def _clone(tree: Path, where: str, owner: str) -> None:
    target = tree / where.lstrip("/")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    _in(tree, f"chown -R {owner}: {where}")


def _in(tree: Path, command: str) -> str:
    """Run as root inside the tree, with its own /proc, and everything unmounted at the end."""
    enter = """
        mount --bind "$1" "$1"
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount --rbind /sys "$1/sys"
        exec chroot "$1" env -i HOME=/root TERM=dumb LANG=C.UTF-8 "$3" sh -ec "$2"
    """
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private",
         "sh", "-ec", enter, "sh", str(tree), command, path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


def _apt_sources() -> list[str]:
    """The sources of this machine, wherever it keeps them."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    return [str(path) for path in files if path.is_file() and path.stat().st_size]
