"""A fleet in which some hosts fail, each in its own way: the others never notice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.applying import DROP_IN, QUIETLY, by_host, half_written, is_set_up, outcomes
from tests.lab.laptop import Laptop
from tests.shards import LAB_FLEET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_FLEET)

ROOT = Path(__file__).resolve().parents[2]
SIZE = 24
ARGUMENT = "fleet=1"

# As `rigops apply --yes --reboot never --preflight never`, with deploys of the test's own.
CONTROLLER = """
import rigops.converge.early
import json, sys
from pathlib import Path
from rigops.cli.apply_common import host_requests
from rigops.cli.options import read_inventory
from rigops.converge.request import Selection
from rigops.converge.result import exit_code
from rigops.converge.fleet_run import FleetRun
from rigops.converge.request import RunOptions
from rigops.report.apply import outcome_lines
from rigops.report.plan import plan_lines
from rigops.report.terminal import rendered

inventory = read_inventory(Path("inventory.py"))
run = RunOptions(
    selection=Selection(), deploys=[Path(word) for word in sys.argv[1:]],
    inventory_digest=inventory.digest, preflight="never",
)
apply = FleetRun(host_requests(inventory, ()), run)
try:
    apply.plan()
    plan = rendered("\\n".join(plan_lines(apply.results, 100)), color=False)
    apply.confirm(removals=False, no_trial=False)
    apply.carry_out(())
finally:
    apply.close()
hosts = [result.as_json() for result in apply.results]
text = rendered("\\n".join(outcome_lines(apply.results)), color=False)
print(json.dumps({"hosts": hosts, "plan": plan, "text": text}))
sys.exit(exit_code(apply.results))
"""
RAISES = """
from pyinfra.context import host

if host.name == {name!r}:
    raise ZeroDivisionError("this deploy does not fit its host")
"""


@dataclass(frozen=True)
class Fleet:
    """The last hosts are the bad ones; the dead one was never there."""

    hosts: list[Host]
    laptop: Laptop

    @property
    def well(self) -> list[Host]:
        return self.hosts[:-3]

    @property
    def wrong_key(self) -> Host:
        return self.hosts[-3]

    @property
    def midway(self) -> Host:
        return self.hosts[-2]

    @property
    def raises(self) -> Host:
        return self.hosts[-1]

    def declare(self, **more: object) -> None:
        declared = {"kernel_args": [ARGUMENT], "kernel_trial": "off", **more}
        entries: dict[str, dict[str, object]] = {one.name: dict(declared) for one in self.hosts}
        entries[self.wrong_key.name]["ssh_known_hosts_file"] = str(self._another_key())
        entries["dead"] = {**declared, "ssh_hostname": "127.0.0.1", "ssh_port": 1}
        self.laptop.declare(entries)

    def _another_key(self) -> Path:
        file = self.laptop.folder / "another_key"
        record = self.wrong_key.record
        key = self.midway.record.host_key
        file.write_text(f"[{record.address}]:{self.wrong_key.port} {key}\n")
        return file


@pytest.fixture(scope="module")
def fleet(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    hosts = module_lab.up(*["t180-4xv100"] * (SIZE - 1))
    fleet = Fleet(hosts, Laptop(tmp_path_factory.mktemp("laptop")))
    # A menu that cannot be replaced: the drop-in is written by then, and the record of it.
    done = fleet.midway.run(
        "mkdir -p /boot/grub; mount --bind /boot/grub/grub.cfg /boot/grub/grub.cfg"
    )
    assert done.returncode == 0, done.stderr
    fleet.declare()
    return fleet


@pytest.fixture(scope="module")
def applied(fleet: Fleet) -> tuple[int, Mapping[str, Any]]:
    own = fleet.laptop.folder / "own.py"
    own.write_text(RAISES.format(name=fleet.raises.name))
    done = subprocess.run(
        [sys.executable, "-c", CONTROLLER, str(own), str(ROOT / "deploys/kernel_args.py")],
        cwd=fleet.laptop.folder,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=300,
        env=fleet.laptop.environment(),
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_twenty_of_twenty_four_hosts_converge(
    fleet: Fleet, applied: tuple[int, Mapping[str, Any]]
) -> None:
    code, document = applied

    assert code == 1
    found = {host["host"]: host["outcome"] for host in document["hosts"]}
    assert found == {
        **{one.name: "reboot_owed" for one in fleet.well},
        fleet.wrong_key.name: "unreachable",
        fleet.midway.name: "failed",
        fleet.raises.name: "failed",
        "dead": "unreachable",
    }
    assert len(fleet.well) == SIZE - 4
    assert all(is_set_up(one, ARGUMENT) for one in fleet.well)


def test_the_report_names_the_four_and_why(
    fleet: Fleet, applied: tuple[int, Mapping[str, Any]]
) -> None:
    _, document = applied
    told = document["text"]
    for name, said, why in (
        ("dead", "not reached", "Connection refused"),
        (fleet.wrong_key.name, "not reached", "HOST KEY CHANGED"),
        (fleet.midway.name, "FAILED", "grub.cfg"),
        (fleet.raises.name, "FAILED", "ZeroDivisionError: this deploy does not fit its host"),
    ):
        of_host = re.search(rf"^{name} {said}.*\n(?:    .*\n?)+", told, re.MULTILINE)
        assert of_host
        assert why in of_host[0]
    assert f"{fleet.well[0].name}, " in document["plan"]
    plan = " ".join(document["plan"].split())
    assert f"(same on {SIZE - 3} hosts)" in plan  # the one that fails half-way is planned for


def test_the_one_that_failed_half_way_has_only_whole_files_and_the_next_run_finishes_it(
    fleet: Fleet, applied: tuple[int, Mapping[str, Any]]
) -> None:
    assert applied[0] == 1
    host = fleet.midway
    assert ARGUMENT in host.run(f"cat {DROP_IN}").stdout
    assert ARGUMENT not in host.run("cat /boot/grub/grub.cfg").stdout
    host.run("umount /boot/grub/grub.cfg")

    said = fleet.laptop.rigops("apply", "--reboot", "never", "--json", *QUIETLY)

    assert said.code == 3
    found = outcomes(said)
    assert set(found.values()) == {"reboot_owed", "unreachable"}
    changed = {name for name, one in by_host(said).items() if one["changes"]}
    assert changed - {"dead", fleet.wrong_key.name} == {host.name, fleet.raises.name}
    assert is_set_up(host, ARGUMENT)
    assert is_set_up(fleet.raises, ARGUMENT)
    assert half_written(host) == []


def test_a_first_host_that_never_comes_back_ends_at_its_deadline_and_keeps_the_others_up(
    fleet: Fleet,
) -> None:
    first, *rest = fleet.well[:3]
    boot = "cat /proc/sys/kernel/random/boot_id"
    before = [one.run(boot).stdout for one in rest]
    declared = {"kernel_args": [ARGUMENT], "kernel_trial": "off", "reboot_timeout": 30}
    fleet.laptop.declare({one.name: declared for one in (first, *rest)})
    first.run("systemctl disable ssh")

    said = fleet.laptop.rigops("apply", "--reboot", "auto", "--json", *QUIETLY)

    assert said.code == 1
    assert 30 <= said.seconds < 30 + 60
    found = by_host(said)
    error = found[first.name]["error"]
    assert "it did not come back within 30 s of its reboot" in error["message"]
    assert "reboot_timeout" in error["cure"]
    for one in rest:
        assert found[one.name]["outcome"] == "reboot_owed"
        (line,) = found[one.name]["story"]
        assert line == f"not rebooted, since {first.name} did not come through its own"
    assert [one.run(boot).stdout for one in rest] == before
