"""`rigops doctor` against booted rigs: what each fault is called, what proves it, what fixes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab.laptop import Laptop, Said, Seen
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_DOCTOR)

WORST_FIRST = ("fail", "warn", "unknown", "info", "ok", "skipped")
NEWER = "6.99.0-1-amd64"

# As an image package leaves it whose headers are not there: no module is built for it.
NEW_KERNEL = f"""
for file in vmlinuz initrd.img; do cp /boot/$file-$(uname -r) /boot/$file-{NEWER}; done
mkdir /lib/modules/{NEWER}
update-grub 2>&1
"""
OTHER_LIBRARIES = """
held=$(apt-mark showhold | grep -vE '^nvidia-(modprobe|persistenced|settings)$')
apt-get -y -qq install --allow-change-held-packages --allow-downgrades \
    $(echo "$held" | sed 's/$/=535.183.01-1/') 2>&1
"""
LET_GO = "apt-mark unhold $(apt-mark showhold)"
NOT_PERSISTENT = "systemctl disable --now nvidia-persistenced 2>&1 && nvidia-smi -pm 0"


@dataclass(frozen=True)
class Fleet:
    laptop: Laptop
    hosts: Mapping[str, Host]

    def doctor(self, *rigs: str, **data: object) -> Said:
        """All named rigs at once; `data` is declared for each."""
        self.laptop.declare({self.hosts[rig].name: data for rig in rigs})
        return self.laptop.doctor("-i", "inventory.py")

    def seen(self, rig: str, **data: object) -> tuple[Said, Seen]:
        said = self.doctor(rig, **data)
        return said, said.seen()

    def does(self, rig: str, command: str) -> None:
        done = self.hosts[rig].run(command, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


RIGS = (
    "threadripper-3x3090",
    "t180-4xv100",
    "desktop-3060-1060",
    "epyc-8x4090",
    "fresh-install",
    "nvlink-2x3090",
)


@pytest.fixture(scope="module")
def fleet(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    booted = module_lab.up(*RIGS)
    return Fleet(Laptop(tmp_path_factory.mktemp("laptop")), dict(zip(RIGS, booted, strict=True)))


@pytest.fixture(scope="module")
def booted(fleet: Fleet) -> Mapping[str, Seen]:
    """Every rig as it boots, before anything happens to it; all asked by one command."""
    said = fleet.doctor(*RIGS)
    assert said.code == 1
    return {rig: said.seen(host.name) for rig, host in fleet.hosts.items()}


def test_the_broken_threadripper_fails_for_its_driver_and_its_iommu_alone(
    booted: Mapping[str, Seen],
) -> None:
    seen = booted["threadripper-3x3090"]

    assert seen.ids("fail") == {"drv.pin", "iommu.mode"}
    driver, iommu = seen.one("drv.pin"), seen.one("iommu.mode")
    assert any("545.29.06" in one["line"] for one in driver["evidence"])
    assert any("nccl#1127" in one["line"] for one in driver["evidence"])
    assert driver["remedy"]["declare"]["driver"] != "545"
    assert any("DMA-FQ" in one["line"] for one in iommu["evidence"])
    assert iommu["remedy"]["kind"] == "apply+reboot"
    assert iommu["remedy"]["declare"] == {"kernel_args": ["iommu=pt"]}


@pytest.mark.parametrize(
    ("rig", "status", "warned"),
    [
        ("desktop-3060-1060", "warn", {"pci.chipset_lane"}),  # its second card has one lane there
        ("epyc-8x4090", "ok", set()),
        ("t180-4xv100", "ok", set()),
    ],
)
def test_a_healthy_rig_exits_with_0(fleet: Fleet, rig: str, status: str, warned: set[str]) -> None:
    said, seen = fleet.seen(rig)

    assert (said.code, seen.host["status"]) == (0, status)
    assert seen.ids("fail", "warn", "unknown") == warned
    assert (seen.host["notes"], seen.host["unread"]) == ([], {})


def test_rigs_without_peer_access_are_told_why(booted: Mapping[str, Seen]) -> None:
    """One lane for one card on the desktop, and cards that never get it on the other."""
    found = {rig: booted[rig].one("p2p.grant") for rig in ("desktop-3060-1060", "epyc-8x4090")}

    assert {one["status"] for one in found.values()} == {"info"}
    assert "same chip" in found["desktop-3060-1060"]["why"]
    assert "GNS" in found["desktop-3060-1060"]["summary"]
    assert "CNS" in found["epyc-8x4090"]["summary"]
    assert all(one["why"] for one in found.values())


def test_every_section_is_read_to_the_last_word(booted: Mapping[str, Seen]) -> None:
    assert {rig: seen.host["unread"] for rig, seen in booted.items() if seen.host["unread"]} == {}
    assert {rig: seen.host["notes"] for rig, seen in booted.items() if seen.host["notes"]} == {}


def test_nouveau_is_named_for_each_card_and_no_driver_is_loaded(
    fleet: Fleet, booted: Mapping[str, Seen]
) -> None:
    seen = booted["fresh-install"]

    cards = [gpu.address for gpu in fleet.hosts["fresh-install"].rig().gpus]
    assert [(one["status"], one["subject"]) for one in seen.of("drv.nouveau")] == [
        ("fail", f"gpu {address}") for address in cards
    ]
    for one in seen.of("drv.nouveau"):
        assert "driver=nouveau" in one["evidence"][0]["line"]
        assert one["remedy"]["kind"] == "apply+reboot"
        assert "keeps nouveau from being loaded" in one["remedy"]["text"]
    assert seen.one("drv.loaded")["status"] == "fail"
    assert seen.one("drv.loaded")["data"] == {"cause": "drv.nouveau"}


def test_the_worst_is_told_first(booted: Mapping[str, Seen]) -> None:
    for seen in booted.values():
        ranks = [WORST_FIRST.index(one["status"]) for one in seen.findings]
        assert ranks == sorted(ranks)


def test_a_driver_that_nobody_holds_and_cards_that_forget(
    booted: Mapping[str, Seen],
) -> None:
    """The threadripper is neither held nor persistent from the start; the others are both."""
    loose = booted["threadripper-3x3090"]

    assert loose.one("pkg.hold")["status"] == "warn"
    assert "nvidia-driver" in loose.one("pkg.hold")["data"]["packages"]
    assert loose.one("drv.persist")["status"] == "warn"
    assert loose.one("drv.persist")["remedy"]["declare"] == {"gpu_persistence": True}
    for rig in ("desktop-3060-1060", "epyc-8x4090", "t180-4xv100", "nvlink-2x3090"):
        assert booted[rig].one("pkg.hold")["status"] == "ok"
        assert booted[rig].one("drv.persist")["status"] == "ok"


def test_hold_and_persistence_are_missed_when_they_go(fleet: Fleet) -> None:
    fleet.does("desktop-3060-1060", f"{LET_GO} && {NOT_PERSISTENT}")

    said, seen = fleet.seen("desktop-3060-1060")

    assert (said.code, seen.host["status"]) == (0, "warn")
    assert seen.ids("warn") == {"pkg.hold", "drv.persist", "pci.chipset_lane"}
    hold = seen.one("pkg.hold")["remedy"]
    assert (hold["kind"], hold["concern"]) == ("apply", "nvidia_driver")
    assert hold["declare"] == {"driver": "535"}
    strict = fleet.laptop.doctor("-i", "inventory.py", "--strict")
    assert strict.code == 1


def test_a_declared_limit_below_what_the_cards_take_fails(fleet: Fleet) -> None:
    said, seen = fleet.seen("epyc-8x4090", gpu_power_limit=100)

    assert said.code == 1
    assert seen.ids("fail") == {"pwr.limit"}
    found = seen.of("pwr.limit")
    cards = [gpu.address for gpu in fleet.hosts["epyc-8x4090"].rig().gpus]
    assert [one["subject"] for one in found] == [f"gpu {address}" for address in cards]
    remedies = [one["remedy"] for one in found]
    assert {one["kind"] for one in remedies} == {"hands"}
    assert {one["declare"]["gpu_power_limit"] for one in remedies} == {150}


def test_a_declared_limit_that_is_not_in_force_fails(fleet: Fleet) -> None:
    _, seen = fleet.seen("epyc-8x4090", gpu_power_limit=300)

    found = seen.of("pwr.limit")
    assert {one["status"] for one in found} <= {"fail", "warn"}
    assert all(one["remedy"]["declare"] == {"gpu_power_limit": 300} for one in found)


def test_one_card_fewer_than_declared_fails(fleet: Fleet) -> None:
    _, seen = fleet.seen("epyc-8x4090", gpus=9)

    assert seen.ids("fail") == {"gpu.count"}


def test_a_bad_row_and_a_noisy_port_are_found_at_their_card(fleet: Fleet) -> None:
    fleet.hosts["epyc-8x4090"].set("remap=0000:41:00.0", "aer=0000:20:01.1+2500000")

    said, seen = fleet.seen("epyc-8x4090")

    assert said.code == 1
    remap, rows, port = seen.one("remap"), seen.one("xid"), seen.one("pci.aer.corr")
    assert (remap["status"], remap["subject"]) == ("warn", "gpu 0000:41:00.0")
    assert (rows["subject"], rows["data"]["xid"]) == ("gpu 0000:41:00.0", 63)
    assert (port["status"], port["subject"]) == ("fail", "gpu 0000:21:00.0")
    assert "0000:20:01.1" in port["summary"]


def test_a_card_that_falls_off_the_bus_is_one_incident_at_that_card(fleet: Fleet) -> None:
    fleet.hosts["t180-4xv100"].set("load=step")

    said, seen = fleet.seen("t180-4xv100")

    assert said.code == 1
    xid = seen.one("xid")
    assert (xid["status"], xid["subject"]) == ("fail", "gpu 0000:86:00.0")
    assert (xid["data"]["xid"], xid["data"]["count"], xid["data"]["boot"]) == (79, 1, "current")
    assert any("Xid (PCI:0000:86:00): 79" in one["line"] for one in xid["evidence"])
    assert seen.ids("fail") == {"xid", "gpu.lost", "gpu.count"}
    assert seen.one("gpu.lost")["subject"] == "gpu 0000:86:00.0"


def test_a_driver_that_is_installed_and_not_loaded(fleet: Fleet) -> None:
    fleet.does("threadripper-3x3090", "modprobe -r nvidia")

    said, seen = fleet.seen("threadripper-3x3090")

    assert said.code == 1
    loaded = seen.one("drv.loaded")
    assert loaded["status"] == "fail"
    assert any("couldn't communicate" in one["line"] for one in loaded["evidence"])
    assert "modprobe nvidia" in loaded["remedy"]["text"]
    assert "drv.nouveau" not in seen.ids("fail", "warn")


def test_no_driver_is_installed(fleet: Fleet) -> None:
    fleet.hosts["threadripper-3x3090"].set("driver=none")

    said, seen = fleet.seen("threadripper-3x3090")

    assert said.code == 1
    loaded = seen.one("drv.loaded")
    assert (loaded["status"], loaded["remedy"]["kind"]) == ("fail", "apply+reboot")
    assert "none is installed" in loaded["summary"]
    assert loaded["remedy"]["concern"] == "nvidia_driver"
    assert "drv.nouveau" not in seen.ids("fail", "warn")


@pytest.fixture(scope="module")
def neglected(fleet: Fleet, booted: Mapping[str, Seen]) -> tuple[Said, Seen]:
    """Several faults in one rig, made by its own apt and GRUB, with the old module still loaded."""
    rig = "nvlink-2x3090"
    assert booted[rig].ids("fail", "warn") == set()
    fleet.does(rig, "systemctl disable --now nvidia-persistenced 2>&1")
    fleet.does(rig, NEW_KERNEL)
    fleet.does(rig, OTHER_LIBRARIES)
    return fleet.seen(rig)


def test_libraries_of_another_version_than_the_loaded_module(neglected: tuple[Said, Seen]) -> None:
    found = neglected[1].one("drv.mismatch")

    assert found["status"] == "fail"
    lines = [one["line"] for one in found["evidence"]]
    assert any("535.261.03" in line for line in lines)
    assert any("Driver/library version mismatch" in line for line in lines)
    assert found["remedy"]["kind"] == "hands"


def test_the_kernel_that_boots_next_has_no_module(neglected: tuple[Said, Seen]) -> None:
    found = neglected[1].one("drv.dkms")

    assert found["status"] == "fail"
    assert NEWER in found["summary"]
    assert NEWER in found["remedy"]["text"]


def test_several_faults_at_once_are_all_told(neglected: tuple[Said, Seen]) -> None:
    said, seen = neglected

    assert (said.code, seen.host["status"]) == (1, "fail")
    assert seen.ids("fail") == {"drv.dkms", "drv.mismatch"}
    assert seen.ids("warn") >= {"pkg.hold", "drv.reboot_pending"}
    assert [one["id"] for one in seen.findings[:2]] == ["drv.dkms", "drv.mismatch"]
