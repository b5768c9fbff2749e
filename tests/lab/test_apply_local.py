"""A machine that is its own host: rigops runs on the rig, through its reboot and back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops.concerns.kernel_args.trial_boot.parts import PROGRAM
from tests.lab import machine
from tests.lab.applying import is_set_up, left_of_a_trial
from tests.lab.sshd import until
from tests.shards import LAB_APPLY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_APPLY)

CHECKOUT = Path(__file__).resolve().parents[2]
AT = "opt/rigops"
APPLY = "apply --yes --reboot auto --preflight never"
INVENTORY = "rigs = [('@local', {'kernel_args': ['iommu=pt'], 'limits': {'shm': '1G'}})]\n"


class OwnHost:
    def __init__(self, host: Host) -> None:
        self.host = host
        _install(host)
        host.run("mkdir rigs; cat >rigs/inventory.py", given=INVENTORY)

    def rigops(self, words: str, code: int = 0) -> str:
        path = f"/{AT}/src:/{AT}/packages"
        done = self.host.run(f"cd rigs; PYTHONPATH={path} python3 -m rigops {words}")
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def boot_id(self) -> str:
        return self.host.run("cat /proc/sys/kernel/random/boot_id").stdout

    def runs(self) -> list[Mapping[str, Any]]:
        """From the last to the first."""
        found: list[Mapping[str, Any]] = json.loads(self.rigops("history --json"))["runs"]
        return found


@pytest.fixture(scope="module")
def own_host(module_lab: Lab) -> OwnHost:
    return OwnHost(module_lab.one("threadripper-3x3090"))


def test_it_changes_itself_says_what_to_run_and_reboots(own_host: OwnHost) -> None:
    before = own_host.boot_id()

    said = own_host.rigops(APPLY)

    (line,) = (line for line in said.splitlines() if "reboots now" in line)
    assert "to try iommu=pt: run the same command within 15 minutes, or it goes back" in line
    assert own_host.boot_id() == before  # rigops has come to its end before that
    until(lambda: own_host.boot_id() not in {before, ""}, "another boot")
    assert "iommu=pt" in own_host.host.run("cat /proc/cmdline").stdout
    assert PROGRAM in left_of_a_trial(own_host.host)


def test_the_same_command_finds_the_reboot_done_and_makes_permanent_what_was_tried(
    own_host: OwnHost,
) -> None:
    before = own_host.boot_id()

    (found,) = json.loads(own_host.rigops(f"{APPLY} --json"))["hosts"]

    assert (found["outcome"], found["reboot"]) == ("changed", False)
    assert own_host.boot_id() == before
    assert is_set_up(own_host.host, "iommu=pt")
    assert left_of_a_trial(own_host.host) == ""


def test_after_that_nothing_is_left_to_do(own_host: OwnHost) -> None:
    (found,) = json.loads(own_host.rigops(f"{APPLY} --json"))["hosts"]

    assert (found["outcome"], found["changes"], found["reboot"]) == ("converged", [], False)
    assert [run["outcome"] for run in own_host.runs()] == ["converged", "changed", "reboot_owed"]
    assert not list(own_host.host.root.rglob("*.rigops-new"))
    assert not (own_host.host.root / "var/lib/rigops/lock.json").exists()


def _install(host: Host) -> None:
    """As from a checkout, with packages for the Python that is there."""
    place = Path(f"/proc/{machine.leader(host.record)}/root") / AT
    for folder in ("src", "deploys", "templates"):
        shutil.copytree(CHECKOUT / folder, place / folder)
    version = host.run("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").stdout
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-compile",
         f"--python-version={version.strip()}", f"--target={place / 'packages'}",
         *(metadata.requires("rigops") or ())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
