"""What a rig said, kept, redacted and judged again; and the inventory that init writes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab import clients
from tests.lab import hosts as lab_hosts
from tests.lab.laptop import Laptop, Said, Seen
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_DOCTOR)

RIGS = ("threadripper-3x3090", "t180-4xv100", "epyc-8x4090")
MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b")


@dataclass(frozen=True)
class Kept:
    """Doctor's verdicts on live rigs, and what the same runs have saved."""

    laptop: Laptop
    hosts: Mapping[str, Host]
    live: Mapping[str, Said]

    def again(self, rig: str, kind: str) -> Said:
        return self.laptop.doctor("--from", str(self.laptop.folder / f"{rig}-{kind}"))

    def text(self, rig: str, kind: str) -> str:
        """Every file of it, and their names."""
        with tarfile.open(self.laptop.folder / f"{rig}-{kind}") as tar:
            members = [member for member in tar.getmembers() if member.isfile()]
            parts = [(one.name, tar.extractfile(one)) for one in members]
            return "\n".join(
                f"{name}\n{file.read().decode('utf-8', 'replace')}" for name, file in parts if file
            )


@pytest.fixture(scope="module")
def kept(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    hosts = dict(zip(RIGS, module_lab.up(*RIGS), strict=True))
    hosts["t180-4xv100"].set("load=step")
    hosts["epyc-8x4090"].set("remap=0000:41:00.0")
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    live = {}
    for rig, host in hosts.items():
        laptop.declare({host.name: {"ssh_user": "rig"}})
        words = ("-i", "inventory.py", "--save")
        live[rig] = laptop.doctor(*words, f"{rig}-redacted.tar.gz")
        laptop.doctor(*words, f"{rig}-raw.tar.gz", "--raw")
    (laptop.folder / "inventory.py").unlink()
    return Kept(laptop, hosts, live)


def _verdicts(seen: Seen) -> set[tuple[str, str, str]]:
    return set(seen.verdicts())


@pytest.mark.parametrize("rig", RIGS)
@pytest.mark.parametrize("kind", ["redacted.tar.gz", "raw.tar.gz"])
def test_what_was_kept_is_judged_as_the_host_was(kept: Kept, rig: str, kind: str) -> None:
    again = kept.again(rig, kind)

    assert again.code == kept.live[rig].code
    assert _verdicts(again.seen()) == _verdicts(kept.live[rig].seen())
    assert again.seen().host["source"] == "bundle"
    assert again.seen().host["unread"] == kept.live[rig].seen().host["unread"]


def _identities(host: Host) -> dict[str, str]:
    """All that tells whose rig it is."""
    rig = host.rig()
    found = {
        "name": host.name,
        "address": host.record.address,
        "machine": host.run("cat /etc/machine-id").stdout.strip(),
        "board": host.run("cat /sys/class/dmi/id/product_uuid").stdout.strip(),
    }
    found |= {f"uuid of {gpu.address}": gpu.uuid for gpu in rig.gpus}
    found |= {f"serial of {gpu.address}": gpu.serial for gpu in rig.gpus}
    macs = host.run("cat /sys/class/net/*/address").stdout.split()
    return found | {f"mac {mac}": mac for mac in set(macs) - {"00:00:00:00:00:00"}}


@pytest.mark.parametrize("rig", RIGS)
def test_a_bundle_does_not_tell_whose_rig_it_is(kept: Kept, rig: str) -> None:
    text = kept.text(rig, "redacted.tar.gz")

    told = {what for what, value in _identities(kept.hosts[rig]).items() if value in text}
    assert told == set()
    assert all(
        mac.startswith(("00:00:00:00:00:00", "02:00:00:00:00:")) for mac in MAC.findall(text)
    )
    assert not re.search(r"(/home/|ssh_|user[= ])rig\b", text)
    assert re.search(r"0000:[0-9a-f]{2}:00\.0", text)


@pytest.mark.parametrize("rig", RIGS)
def test_a_raw_bundle_keeps_names_and_numbers(kept: Kept, rig: str) -> None:
    text = kept.text(rig, "raw.tar.gz")

    identities = _identities(kept.hosts[rig])
    lost = rig == "t180-4xv100"  # nvidia-smi tells of no card where one is lost
    cards = set() if lost else {key for key in identities if key.startswith("uuid")}
    assert {"name", *cards} <= {what for what, value in identities.items() if value in text}


def test_the_printed_probe_run_by_hand_is_judged_the_same(kept: Kept) -> None:
    rig = "threadripper-3x3090"
    probe = kept.laptop.rigops("doctor", "--print-probe")
    answer = kept.laptop.folder / "by-hand"

    with answer.open("w") as file:
        subprocess.run(
            [*lab_hosts.ssh_command(), f"rig@{kept.hosts[rig].name}", "sh", "-s"],
            input=probe.out,
            text=True,
            stdout=file,
            check=True,
        )
    again = kept.laptop.doctor("--from", str(answer))

    assert again.code == 1
    assert _verdicts(again.seen()) == _verdicts(kept.live[rig].seen())


# ---- init


@dataclass(frozen=True)
class Begun:
    """A person whose ssh configuration has aliases, and the inventory that init wrote for two."""

    laptop: Laptop
    inventory: Path
    said: Said
    names: tuple[str, str]


@pytest.fixture(scope="module")
def begun(kept: Kept) -> Begun:
    ssh = kept.laptop.folder / "ssh"
    ssh.mkdir(mode=0o700)
    shutil.copy(clients.config(), ssh / "config")
    laptop = Laptop(kept.laptop.folder, ssh)
    broken, healthy = kept.hosts["threadripper-3x3090"], kept.hosts["epyc-8x4090"]
    healthy.run("nvidia-smi -i 3 -pl 300")
    names = (broken.name, healthy.name)
    said = laptop.rigops("init", "begun", "--host", names[0], "--host", names[1])
    return Begun(laptop, laptop.folder / "begun/inventory.py", said, names)


def test_init_writes_an_inventory_of_what_the_hosts_have(begun: Begun) -> None:
    assert begun.said.code == 0, begun.said.err
    text = begun.inventory.read_text()
    assert all(name in text for name in begun.names)
    recommended = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    assert any("iommu=pt" in line for line in recommended)
    assert "Wrote begun/inventory.py" in begun.said.err


def test_what_init_declares_changes_nothing(begun: Begun) -> None:
    words = ("-i", "begun/inventory.py", "--yes", "--json", "--preflight", "never")

    applied = begun.laptop.rigops("apply", *words)

    assert applied.code == 0, applied.err + applied.out
    for host in applied.json()["hosts"]:
        assert (host["outcome"], host["changes"], host["blocked"]) == ("converged", [], [])


def test_what_init_declares_is_what_doctor_sees(begun: Begun) -> None:
    said = begun.laptop.doctor("-i", "begun/inventory.py")

    broken, healthy = map(said.seen, begun.names)
    drift = {"cmdline.drift", "pwr.limit", "gpu.count", "clk.app", "drv.persist"}
    assert broken.ids("fail") == {"drv.pin", "iommu.mode"}
    assert healthy.ids("fail", "warn") & drift == set()


def test_init_never_writes_over_what_is_there(begun: Begun) -> None:
    before = begun.inventory.read_bytes()

    again = begun.laptop.rigops("init", "begun", "--host", begun.names[1])

    assert begun.inventory.read_bytes() == before
    assert "not overwritten" in again.err
    assert begun.names[1] in again.err + again.out
