"""The program that sets CPU policies, against the trees of each driver in each of its modes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.cpu_tuning.state import Before, was_set
from tests.unit.cpu_policies import FOLDER, TREES, Tree
from tests.unit.hostside.small_host import SmallHost
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

BOOT: Final = "7b2f6d0e-54e1-4d3c-9a65-2f3f8d3e5b11"
NEXT_BOOT: Final = "8c2f6d0e-54e1-4d3c-9a65-2f3f8d3e5b12"
RECORD: Final = "var/lib/rigops/cpu_tuning.json"


class Rig(SmallHost):
    def __init__(self, root: Path, shell_name: str) -> None:
        super().__init__(root, shell_name)
        self.boot(BOOT)

    def boot(self, boot_id: str) -> None:
        self.write("proc/sys/kernel/random/boot_id", f"{boot_id}\n")

    def has_tree(self, tree: Tree) -> None:
        for path, text in tree.files.items():
            self.write(path, text)

    def put(self, policy: int, name: str, value: str) -> None:
        self.write(f"{FOLDER}/policy{policy}/{name}", f"{value}\n")

    def has(self, name: str, *policies: int) -> list[str]:
        folder = self.root / FOLDER
        return [(folder / f"policy{one}" / name).read_text().strip() for one in policies or (0, 1)]

    def does(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return self.run(self.text("cpu_tuning", {}), *words)

    def ok(self, *words: str) -> str:
        done = self.does(*words)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    @property
    def was(self) -> dict[int, Before]:
        """By policy, where it has the driver that it had."""
        record = self.root / RECORD
        boot_id = (self.root / "proc/sys/kernel/random/boot_id").read_text().strip()
        found = was_set(record.read_text(), boot_id) if record.exists() else {}
        return {number: before for (number, driver), before in found.items()
                if [driver] == self.has("scaling_driver", number)}  # fmt: skip

    def files(self) -> dict[str, str]:
        folder = self.root / FOLDER
        return {str(path): path.read_text() for path in sorted(folder.rglob("*"))
                if path.is_file()}  # fmt: skip


@pytest.fixture(params=SHELLS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return Rig(tmp_path, request.param)


@pytest.fixture
def one(tmp_path: Path) -> Rig:
    return Rig(tmp_path, "dash")


@pytest.mark.parametrize("name", TREES)
def test_each_driver_gets_both_and_has_back_exactly_what_it_had(rig: Rig, name: str) -> None:
    tree = TREES[name]
    rig.has_tree(tree)
    before = rig.files()

    rig.ok("set", tree.governor, str(tree.khz))

    assert rig.has("scaling_governor") == [tree.governor] * 2
    assert rig.has("scaling_max_freq") == [str(tree.held_khz)] * 2
    was = Before(tree.was_governor, tree.most_khz)
    assert rig.was == {0: was, 1: was}
    record = json.loads((rig.root / RECORD).read_text())
    assert (record["schema"], record["boot_id"]) == ("rigops.cpu_tuning/1", BOOT)
    assert {entry["driver"] for entry in record["policies"]} == {tree.driver}
    assert rig.ok("set", tree.governor, str(tree.khz)) == ""

    rig.ok("back")

    assert rig.files() == before
    assert not (rig.root / RECORD).exists()


def test_what_is_not_declared_is_left_alone(rig: Rig) -> None:
    rig.has_tree(TREES["acpi-cpufreq"])

    rig.ok("set", "-", "2500000")

    assert rig.has("scaling_governor") == ["schedutil"] * 2
    assert rig.was[0] == Before(None, 4_000_000)


def test_one_that_is_no_longer_declared_goes_back_and_the_other_stays(rig: Rig) -> None:
    rig.has_tree(TREES["intel_pstate passive"])
    rig.ok("set", "performance", "2500000")

    rig.ok("set", "-", "2500000")

    assert (rig.has("scaling_governor"), rig.has("scaling_max_freq")) == (
        ["schedutil"] * 2, ["2500000"] * 2,
    )  # fmt: skip
    assert rig.was[1] == Before(None, 3_300_000)


def test_the_energy_preference_that_a_governor_changes_goes_back_with_it(rig: Rig) -> None:
    rig.has_tree(TREES["amd-pstate active"])
    rig.ok("set", "performance", "-")
    rig.put(0, "energy_performance_preference", "performance")  # as the driver does

    rig.ok("back")

    assert rig.has("energy_performance_preference") == ["balance_performance"] * 2


def test_a_second_value_keeps_what_there_was_before_the_first(rig: Rig) -> None:
    rig.has_tree(TREES["amd-pstate guided"])
    rig.ok("set", "-", "3000000")
    rig.ok("set", "-", "2000000")

    assert rig.was[0].khz == TREES["amd-pstate guided"].most_khz
    rig.put(0, "scaling_max_freq", "3500000")  # somebody else's
    rig.ok("set", "-", "2000000")
    assert rig.has("scaling_max_freq") == ["2000000"] * 2
    rig.ok("back")
    assert rig.has("scaling_max_freq") == [str(TREES["amd-pstate guided"].most_khz)] * 2


def test_a_policy_that_does_not_take_it_is_named_and_the_others_are_set(rig: Rig) -> None:
    rig.has_tree(TREES["intel_pstate active"])
    governor = rig.root / FOLDER / "policy0/scaling_governor"
    governor.unlink()
    governor.symlink_to("/proc/sys/kernel/ostype")  # it can be read, and no write changes it

    done = rig.does("set", "performance", "2500000")

    assert done.returncode == 1
    assert b"policy0: scaling_governor is Linux instead of performance" in done.stderr
    assert rig.has("scaling_governor", 1) == ["performance"]
    assert rig.has("scaling_max_freq") == ["2500000"] * 2


def test_a_limit_below_every_step_is_an_error_and_sets_nothing(one: Rig) -> None:
    one.has_tree(TREES["acpi-cpufreq"])

    done = one.does("set", "-", "2000000")

    assert (done.returncode, one.has("scaling_max_freq")) == (1, ["4000000"] * 2)
    assert b"policy0: acpi-cpufreq has no frequency of 2000000 kHz or less" in done.stderr


def test_slower_cores_of_a_hybrid_are_not_limited(one: Rig) -> None:
    one.has_tree(TREES["intel_pstate active"])
    for name in ("cpuinfo_max_freq", "scaling_max_freq"):
        one.put(1, name, "3800000")

    one.ok("set", "-", "4200000")

    assert one.has("scaling_max_freq") == ["4200000", "3800000"]
    assert list(one.was) == [0]


def test_a_processor_that_is_offline_is_left_out(one: Rig) -> None:
    one.has_tree(TREES["acpi-cpufreq"])
    (one.root / FOLDER / "policy1/scaling_governor").unlink()

    one.ok("set", "performance", "2800000")

    assert one.has("scaling_max_freq") == ["2800000", "4000000"]


@pytest.mark.parametrize("what", ["boot", "driver"])
def test_a_record_of_another_boot_or_driver_undoes_nothing(one: Rig, what: str) -> None:
    one.has_tree(TREES["amd-pstate active"])
    one.ok("set", "performance", "-")
    if what == "boot":
        one.boot(NEXT_BOOT)
    else:
        one.has_tree(TREES["amd-pstate passive"])
        one.put(0, "scaling_governor", "performance")

    one.ok("back")

    assert one.has("scaling_governor", 0) == ["performance"]
    assert one.was == {}


def test_without_scaling_it_says_so_and_succeeds(one: Rig) -> None:
    assert one.ok("set", "performance", "2500000") == ("the kernel scales no CPU frequency here\n")


def test_nothing_is_set_that_could_not_be_undone(one: Rig) -> None:
    one.has_tree(TREES["acpi-cpufreq"])
    one.write("var/lib/rigops", "in the way")

    done = one.does("set", "performance", "2800000")

    assert done.returncode == 1
    assert b"cpu_tuning.json cannot be written, so nothing was set" in done.stderr
    assert one.has("scaling_governor") == ["schedutil"] * 2


def test_another_word_is_an_error_and_sets_nothing(one: Rig) -> None:
    one.has_tree(TREES["acpi-cpufreq"])
    before = one.files()

    assert one.does("tune").returncode == 2
    assert one.files() == before
