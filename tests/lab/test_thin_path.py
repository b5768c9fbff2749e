"""The one path through the whole product, against a rig that boots broken: doctor, apply, proof."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import clients, hosts
from tests.lab.laptop import Said

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
NAME = "thin-path"


@dataclass(frozen=True)
class Laptop:
    """Where rigops is run from: a folder, a state directory, and an inventory of one rig."""

    folder: Path
    host: hosts.Host

    def declare(self, data: str) -> None:
        (self.folder / "inventory.py").write_text(
            f"rigs = [({NAME!r}, {{{data}, 'reboot_timeout': 120,"
            f" 'ssh_config_file': {str(clients.config())!r}}})]\n"
        )

    def rigops(self, *arguments: str) -> Said:
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "rigops", *arguments, "-i", "inventory.py"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "XDG_STATE_HOME": str(self.folder / "state")},
        )
        return Said(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def finding(self, check: str) -> dict[str, Any]:
        (host,) = self.rigops("doctor", "--json").json()["hosts"]
        found: dict[str, Any] = next(one for one in host["findings"] if one["id"] == check)
        return found

    def sessions(self) -> int:
        """How many execs sshd has seen, in its own words."""
        log = self.host.run("journalctl -u ssh -o cat --no-pager").stdout
        return sum("Starting session: command" in line for line in log.splitlines())


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        laptop = Laptop(tmp_path_factory.mktemp("laptop"), host)
        laptop.declare("'driver': '535', 'kernel_args': ['iommu=pt']")
        yield laptop


def test_doctor_finds_the_breaking_driver_and_the_translating_iommu(laptop: Laptop) -> None:
    said = laptop.rigops("doctor", "--json")

    assert said.code == 1
    (host,) = said.json()["hosts"]
    failed = {one["id"]: one for one in host["findings"] if one["status"] == "fail"}
    assert set(failed) == {"drv.pin", "iommu.mode", "cmdline.drift"}
    assert any("nccl#1127" in line["line"] for line in failed["drv.pin"]["evidence"])
    assert any("DMA-FQ" in line["line"] for line in failed["iommu.mode"]["evidence"])
    assert failed["iommu.mode"]["remedy"]["concern"] == "kernel_args"


def test_what_a_host_cannot_do_is_listed_and_is_no_success(laptop: Laptop) -> None:
    laptop.declare("'borg': {'repository': '/b', 'paths': ['/home']}")

    said = laptop.rigops("apply", "--yes", "--reboot", "never", "--json")

    assert said.code == 1
    (host,) = said.json()["hosts"]
    assert host["outcome"] == "refused"
    (blocked,) = (one for one in host["blocked"] if "passphrase_command" in one["reason"])
    assert (blocked["concern"], blocked["keys"]) == ("borg", ["borg"])


def test_without_consent_nothing_is_touched(laptop: Laptop) -> None:
    laptop.declare("'kernel_args': ['iommu=pt']")

    said = laptop.rigops("apply")

    assert said.code == 130
    assert "--yes" in said.err
    assert laptop.host.run("ls /etc/default/grub.d/99-rigops.cfg").returncode != 0


def test_a_reboot_that_was_not_agreed_to_stays_visible_as_a_debt(laptop: Laptop) -> None:
    said = laptop.rigops("apply", "--yes", "--preflight", "never", "--json")

    (host,) = said.json()["hosts"]
    assert said.code == 0
    assert host["outcome"] == "reboot_owed"
    assert [change["after"] for change in host["changes"]] == ["iommu=pt"]
    assert laptop.finding("cmdline.drift")["status"] == "warn"
    # Until a boot has tried it, nothing that a bootloader's tools read has it.
    assert laptop.host.run("grep -r iommu=pt /boot/grub /etc/default /etc/grub.d").stdout == ""
    assert "iommu=pt" not in laptop.host.run("cat /proc/cmdline").stdout


def test_apply_pays_the_debt_and_the_iommu_is_out_of_the_way(laptop: Laptop) -> None:
    said = laptop.rigops("apply", "--yes", "--reboot", "auto", "--preflight", "never", "--json")

    (host,) = said.json()["hosts"]
    assert said.code == 0, said.err
    assert host["outcome"] == "changed"
    assert any("was tried and works" in line for line in host["story"])
    assert "iommu=pt" in laptop.host.run("cat /proc/cmdline").stdout
    assert "iommu=pt" in laptop.host.run("cat /boot/grub/grub.cfg").stdout
    assert laptop.host.run("ls /boot/grub/custom.cfg").returncode != 0
    assert laptop.finding("cmdline.drift")["status"] == "ok"
    assert laptop.finding("iommu.mode")["status"] == "ok"
    assert laptop.finding("drv.pin")["status"] == "fail"


def test_a_converged_host_costs_one_exec(laptop: Laptop) -> None:
    laptop.host.run(
        "echo 'LogLevel VERBOSE' >/etc/ssh/sshd_config.d/verbose.conf && systemctl reload ssh"
    )
    before = laptop.sessions()
    said = laptop.rigops("apply", "--yes", "--preflight", "never", "--json")
    between = laptop.sessions()

    (host,) = said.json()["hosts"]
    assert said.code == 0
    assert host["outcome"] == "converged"
    assert host["changes"] == []
    # The two looks into the log are sessions of their own; the first is in `before` or not.
    assert between - before - 1 == 1


def test_apply_ends_with_the_proof_and_says_that_copies_hang(laptop: Laptop) -> None:
    said = laptop.rigops("apply", "--yes", "--json")

    (host,) = said.json()["hosts"]
    assert said.code == 1
    assert host["outcome"] == "converged"
    assert host["preflight"]["status"] == "fail"
    assert "hang" in {pair["verdict"] for pair in host["preflight"]["pairs"]}
    assert said.seconds < 180  # a pair that hangs is given 20 s


def test_every_apply_is_in_the_journal(laptop: Laptop) -> None:
    journal = (laptop.folder / "state/rigops/journal.jsonl").read_text().splitlines()

    outcomes = [json.loads(line)["outcome"] for line in journal]
    assert outcomes[-3:] == ["changed", "converged", "converged"]


def test_an_empty_declaration_brings_the_host_back_to_what_it_was(laptop: Laptop) -> None:
    laptop.declare("'kernel_args': []")

    said = laptop.rigops("apply", "--yes", "--reboot", "auto", "--preflight", "never", "--json")

    assert said.code == 0, said.err
    assert "iommu=pt" not in laptop.host.run("cat /proc/cmdline").stdout
    assert "99-rigops" not in laptop.host.run("ls /etc/default/grub.d").stdout
    assert "DMA-FQ" in laptop.host.run("cat /sys/kernel/iommu_groups/*/type").stdout


def test_the_same_deploy_runs_under_plain_pyinfra(laptop: Laptop) -> None:
    known_hosts = clients.config().with_name("known_hosts")
    wanted = f"'kernel_args': ['pci=realloc'], 'ssh_known_hosts_file': {str(known_hosts)!r}"

    def pyinfra() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("pyinfra"), "inventory.py",
             ROOT / "deploys/kernel_args.py", "-y"],
            cwd=laptop.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip

    laptop.declare(wanted)
    refused = pyinfra()
    laptop.declare(f"{wanted}, 'kernel_trial': 'off'")
    done = pyinfra()

    assert refused.returncode != 0
    assert '"kernel_trial": "off"' in refused.stderr
    assert done.returncode == 0, done.stderr
    assert "pci=realloc" in laptop.host.run("cat /boot/grub/grub.cfg").stdout
    assert "99-rigops.cfg" in laptop.host.run("cat /var/lib/rigops/owned.json").stdout


def test_an_interrupted_apply_says_where_the_host_stands_and_the_next_one_finishes(
    laptop: Laptop,
) -> None:
    apply = ["apply", "--yes", "--reboot", "auto", "--preflight", "never", "--json"]
    running = subprocess.Popen(
        [sys.executable, "-m", "rigops", *apply, "-i", "inventory.py"],
        cwd=laptop.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_STATE_HOME": str(laptop.folder / "state")},
    )  # fmt: skip
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith(f"{NAME}: reboot"):
            running.send_signal(signal.SIGINT)
            break
    out, _ = running.communicate(timeout=180)

    assert running.returncode == 130
    assert json.loads(out)["hosts"][0]["outcome"] == "interrupted"
    # The reboot was ordered before the interrupt: the host may be away for a moment.
    finished = laptop.rigops(*apply)
    for _ in range(2):
        if finished.code != 0:
            finished = laptop.rigops(*apply)
    assert finished.code == 0, finished.err
    assert "pci=realloc" in laptop.host.run("cat /proc/cmdline").stdout
