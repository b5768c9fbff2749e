"""The nvidia_driver concern on booted hosts, with real apt: what it pins, and what it lets go of.

What takes longer is in test_driver_kept.py and test_driver_interrupted.py, a shard.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.lab import signed
from tests.lab.applying import INVENTORY, VERBOSE, sessions
from tests.lab.driver_rig import (
    ALL,
    AUTO,
    BLACKLIST,
    GOOD,
    MODPROBE,
    NEVER,
    NEWEST,
    OLD,
    PIN,
    REAL,
    SOURCES,
    THE_535,
    TOOLS,
    Rig,
    printed,
    stages,
    tended,
)
from tests.lab.tree import Tree
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_DRIVER)

# Of somebody else: a part of the driver, and what has nothing to do with it.
THEIRS = ("libcuda1", "sudo")


# ---- a machine with a bad driver


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=driver-concern") as rig:
        rig.does(f"{VERBOSE} && apt-mark hold {' '.join(THEIRS)}")
        rig.does("systemctl enable --now nvidia-persistenced")
        yield rig


def test_a_driver_known_to_be_bad_is_refused_with_the_evidence(rig: Rig) -> None:
    reason = rig.refusal(driver="545")

    assert f"driver {OLD} is known to be bad for GeForce RTX 3090" in reason
    assert "NVIDIA/nccl#1127 (2023-12-26" in reason
    assert '"driver_allow_bad": True' in reason


@pytest.mark.story
def test_the_driver_goes_back_to_535_in_one_apply_with_one_reboot(rig: Rig) -> None:
    assert (rig.drivers(), rig.runs) == ({OLD}, OLD)

    host = rig.apply(0, *AUTO, **THE_535)

    assert host["outcome"] == "changed"
    assert stages(host).count("reboot") == 1
    assert f"{OLD} is loaded" in host["reboot_reasons"][0]
    assert (rig.drivers(), rig.loaded, rig.runs) == ({GOOD}, GOOD, GOOD)
    assert rig.holds() == {*rig.versions(), *THEIRS}
    assert rig.there(*ALL) == sorted(ALL)
    policy = rig.does(f"apt-cache policy {' '.join(rig.versions())}")
    candidates = {line.split()[1] for line in policy.splitlines() if "Candidate:" in line}
    assert candidates == set(rig.versions().values())


@pytest.mark.story
def test_doctor_has_nothing_to_say_of_the_driver(rig: Rig) -> None:
    rig.declare(**THE_535)
    seen = rig.laptop.doctor(*INVENTORY).seen()

    assert {one for one in seen.ids("fail", "warn") if one.startswith("drv.")} == set()
    assert {"drv.pin", "drv.loaded", "drv.mismatch"} <= seen.ids("ok")


@pytest.mark.story
def test_a_second_apply_writes_nothing_at_all_in_one_session(rig: Rig) -> None:
    before, asked = Tree(rig.host), sessions(rig.host)

    host = rig.apply(0, *AUTO, **THE_535)

    assert sessions(rig.host) - asked - 1 == 1
    assert (host["outcome"], host["changes"]) == ("converged", [])
    assert rig.changed_since(before) == set()


def test_an_apply_that_may_upgrade_is_content_with_the_newest_that_fits(rig: Rig) -> None:
    before = Tree(rig.host)

    host = rig.apply(0, *AUTO, "--upgrade", **THE_535)

    assert (host["outcome"], host["changes"]) == ("converged", [])
    assert rig.changed_since(before) == set()


def test_an_upgrade_of_everything_leaves_it_alone_among_newer_ones(rig: Rig) -> None:
    rig.has_suites("bookworm", "vendor", "newer", "newest")
    loose = "-o Dir::Etc::PreferencesParts=/nowhere --ignore-hold"
    assert f"{NEWEST}-1" in rig.does(f"apt-get -s {loose} full-upgrade")

    rig.upgrades("apt-get -q -y full-upgrade")

    assert set(TOOLS) & rig.versions().keys() >= {"nvidia-persistenced", "nvidia-modprobe"}


def _has_tools_as_an_older_rigops_left_them(rig: Rig) -> None:
    record = "/var/lib/rigops/driver.json"
    rig.does(f"rm {PIN}; apt-mark unhold {' '.join(rig.versions(*TOOLS))}")
    fields = json.loads(rig.does(f"cat {record}"))
    assert fields.pop("beside").keys() == rig.versions(*TOOLS).keys()
    assert rig.host.run(f"cat >{record}", given=json.dumps(fields)).returncode == 0


def test_tools_that_an_older_rigops_did_not_hold_are_reported_pinned_and_held(rig: Rig) -> None:
    versions = rig.versions()
    _has_tools_as_an_older_rigops_left_them(rig)
    found = rig.laptop.doctor(*INVENTORY, "--only", "pkg.hold").seen()

    host = rig.apply(0, *AUTO, **THE_535)

    assert found.ids("warn") == {"pkg.hold"}
    assert {one["kind"] for one in host["changes"]} == {"file", "hold"}
    assert "reboot" not in stages(host)
    assert rig.versions() == versions
    assert rig.holds() == {*versions, *THEIRS}
    assert rig.laptop.doctor(*INVENTORY, "--only", "pkg.hold").seen().ids("ok") == {"pkg.hold"}


def test_a_tool_of_a_newer_branch_that_came_then_goes_back_without_a_reboot(rig: Rig) -> None:
    versions = rig.versions()
    _has_tools_as_an_older_rigops_left_them(rig)
    rig.does("apt-get -q -y install nvidia-persistenced")
    assert rig.versions()["nvidia-persistenced"] == f"{NEWEST}-1"

    host = rig.apply(0, *AUTO, **THE_535)

    assert [one["name"] for one in host["packages"]["downgrade"]] == ["nvidia-persistenced"]
    assert "reboot" not in stages(host)
    assert rig.versions() == versions
    assert rig.holds() == {*versions, *THEIRS}
    assert rig.apply(0, *AUTO, **THE_535)["outcome"] == "converged"


def test_a_declaration_that_is_lost_lets_go_of_nothing_without_consent(rig: Rig) -> None:
    before, holds = Tree(rig.host), rig.holds()

    host = rig.apply(1)

    assert [one["concern"] for one in host["withheld"]] == ["nvidia_driver"]
    assert {PIN, BLACKLIST, MODPROBE} <= set(host["withheld"][0]["subjects"])
    assert rig.changed_since(before) == set()
    assert rig.holds() == holds


def test_with_consent_all_of_it_goes_but_the_driver_and_the_holds_of_others(rig: Rig) -> None:
    before = rig.versions()

    host = rig.apply(0, "--prune")

    assert (host["outcome"], host["withheld"]) == ("changed", [])
    assert rig.there(*ALL) == []
    assert rig.holds() == set(THEIRS)
    assert (rig.versions(), rig.runs) == (before, GOOD)


# ---- a machine that has just been installed


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "fresh-install=driver-fresh") as rig:
        yield rig


@pytest.fixture(scope="module")
def advised(fresh: Rig) -> Mapping[str, object]:
    """What a refusal said to declare."""
    return {**THE_535, "driver_source": printed(fresh.refusal(**THE_535))}


@pytest.mark.parametrize(
    ("source", "reason", "fix"),
    [
        ("vendor", "is NVIDIA's own", "install the keyring package"),
        ("snapshot:20240401T000000Z", "no snapshot", "<your snapshot service>/20240401T000000Z"),
    ],
)
def test_a_source_that_the_host_has_not_is_refused_with_its_fix(
    fresh: Rig, source: str, reason: str, fix: str
) -> None:
    said = fresh.refusal(**THE_535, driver_source=source)

    assert reason in said
    assert fix in said


def test_the_source_that_a_refusal_names_has_the_driver_and_a_reboot_ends_nouveau(
    fresh: Rig, advised: Mapping[str, object]
) -> None:
    assert (advised["driver_source"], fresh.drives()) == ("distribution", {"nouveau"})

    host = fresh.apply(0, *AUTO, **advised)

    assert (host["outcome"], stages(host).count("reboot")) == ("changed", 1)
    assert "nouveau drives the cards" in host["reboot_reasons"][0]
    assert fresh.there(SOURCES) == [SOURCES]
    assert (fresh.drivers(), fresh.runs, fresh.drives()) == ({GOOD}, GOOD, {"nvidia"})


def test_the_source_goes_with_the_declaration_and_the_driver_stays(fresh: Rig) -> None:
    fresh.apply(0, "--prune")

    assert fresh.there(*ALL, SOURCES) == []
    assert (fresh.drivers(), fresh.runs) == ({GOOD}, GOOD)
    assert "non-free" not in fresh.does("apt-cache policy")


# ---- a distribution whose 535 is none


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Its archive has a signature, without which no other pocket of it could be used."""
    with tended(tmp_path_factory, "ubuntu-trap=driver-trap", "pocket=off") as rig:
        signed.archive(rig.host, tmp_path_factory.mktemp("gpg") / "key")
        rig.has_sources(signed.source("noble-updates"))
        yield rig


@pytest.fixture(scope="module")
def trapped(trap: Rig) -> str:
    return trap.refusal(**THE_535)


def test_a_535_that_brings_another_branch_is_told_as_what_it_is(trapped: str) -> None:
    assert "535.309.01-0ubuntu0.24.04.2" in trapped
    assert "installs nvidia-dkms-580" in trapped


def test_the_older_pocket_that_the_refusal_names_has_the_real_one_and_a_reboot_can_be_owed(
    trap: Rig, trapped: str
) -> None:
    host = trap.apply(0, *NEVER, driver_source=printed(trapped), **THE_535)

    assert (host["outcome"], "reboot" in stages(host)) == ("reboot_owed", False)
    assert (trap.drivers(), trap.loaded) == ({REAL}, "")
    assert trap.there(PIN, SOURCES) == [PIN, SOURCES]
    assert "580" not in trap.does("dpkg-query -W; apt-get -s full-upgrade")
