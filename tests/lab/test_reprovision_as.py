"""Another machine takes the place of one that is gone: its capture, its driver, its data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import hosts
from tests.lab.driver_rig import Rig
from tests.lab.laptop import Laptop
from tests.lab.reinstalling import has_key_again, inside, reinstall
from tests.lab.test_reprovision import BACKUP_DISK, CONTENT, DATA, STRANGER, Before, Story
from tests.lab.vault_rig import FIRST, VaultRig
from tests.shards import LAB_REPROVISION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

pytestmark = pytest.mark.shard(LAB_REPROVISION)

OLD: Final = "oak"
NEW: Final = "elm"
AS: Final = ("--as", OLD)


class Machines:
    """`old` is proven and captured; `new` has the same slots with other cards in them."""

    def __init__(self, laptop: Laptop, old: Rig, new: Rig) -> None:
        inside(old.host, BACKUP_DISK)
        old.does(DATA)
        self.old = Story(VaultRig(old))
        self.card = old.host.rig().gpus[0].uuid
        self.old.declared["gpu_power_limit"] = {self.card: 390, "default": 400}
        self.before = Before(self.old)
        self.known = self.old.known_hosts.read_text()
        self.locked = dict(self.old.vault.locked)
        self.new = Story(VaultRig(new))
        self.laptop = laptop

    def locks(self) -> dict[str, Mapping[str, Any]]:
        found = json.loads((self.laptop.folder / "inventory.lock.json").read_text())
        return {one["host"]: one for one in found["hosts"]}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    rig = "epyc-8x4090"
    with hosts.running([f"{rig}={OLD}", f"{rig}={NEW}", f"driver={FIRST}"]) as (old, new):
        laptop = Laptop(tmp_path_factory.mktemp("laptop"))
        yield Machines(laptop, Rig(laptop, old), Rig(laptop, new))


def compared(host: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        one["subject"]: (one["verdict"], one["before"], one["after"]) for one in host["compared"]
    }


def test_without_consent_nothing_that_was_declared_for_a_card_goes_to_another(
    machines: Machines,
) -> None:
    """The old one burned down, but for the disk with its backups, which is in the new one."""
    new = machines.new
    reinstall(new.host, disks_of=machines.old.host)
    inside(new.host, BACKUP_DISK)
    new.vault.without_sources()
    new.known_hosts.write_text(machines.known)
    new.declared["gpu_power_limit"] = machines.old.declared["gpu_power_limit"]
    new.declare()

    host = new.reprovisioned(*AS, "--accept-host-key", new.fingerprint, code=1)

    assert (host["host"], host["as"], host["status"]) == (NEW, OLD, "failed")
    assert f"'{machines.card}' is no GPU of this host" in host["error"]["message"]


def test_the_new_machine_gets_driver_data_and_settings_of_the_old_one(machines: Machines) -> None:
    new, before = machines.new, machines.before

    host = new.reprovisioned(*AS, "--adopt-parts")

    assert host["status"] == "same", host["compared"]
    has_key_again(new.host, before.host_key)
    assert new.rig.versions() == before.packages
    assert new.rig.does(CONTENT) == before.data
    found = compared(host)
    assert found["host name"] == ("other", OLD, NEW)
    for subject in ("driver", "driver packages", "P2P pairs", "ssh host keys"):
        assert found[subject][0] == "same", found
    was, now = (one.host.rig().gpus for one in (machines.old, new))
    assert host["hints"] == [f"gpu_power_limit: write {now[0].uuid} for {machines.card}"]
    for old, one in zip(was, now, strict=True):
        assert found[f"GPU {one.address}"] == ("other", old.uuid, one.uuid)
        assert found[f"GPU {one.address} power limit"][0] == "same"


def test_with_the_inventory_changed_it_is_a_host_like_any_other(machines: Machines) -> None:
    new = machines.new
    new.declared["gpu_power_limit"] = {new.host.rig().gpus[0].uuid: 390, "default": 400}
    new.declare()

    assert new.apply()["outcome"] == "converged"
    new.back_up()
    capture = new.capture()

    locks = machines.locks()
    assert locks[OLD] == machines.locked
    packages = [one["sha256"] for its in locks[NEW]["packages"] for one in its["packages"]]
    assert packages == [
        one["sha256"] for its in machines.locked["packages"] for one in its["packages"]
    ]
    assert {one["uuid"] for one in capture["gpus"]} == {one.uuid for one in new.host.rig().gpus}
    assert new.known_hosts.read_text().startswith(STRANGER)
