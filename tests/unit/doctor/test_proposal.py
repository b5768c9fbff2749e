"""What `rigops init` would write for a host."""

from __future__ import annotations

import pytest

from rigops.concerns.nvidia_driver.record import PATH, PinnedDriver, document
from rigops.doctor.proposal import Entry, propose
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor.examining import catalog
from tests.unit.probe import answers

EVERY = frozenset({"nvidia_driver", "kernel_args", "gpu_tuning"})
V100 = answers.PCI.replace("device=0x2204", "device=0x1db1")
RTX5090 = answers.PCI.replace("device=0x2204", "device=0x2b85")
PLAIN_GRUB = answers.GRUB.replace("== /etc/default/grub.d/99-rigops.cfg", "== /etc/other")


def proposed(deployable: frozenset[str] = EVERY, **changed: str | None) -> dict[str, Entry]:
    """The last entry of each key."""
    texts = {**answers.BROKEN, **{name.replace("_", "-"): text for name, text in changed.items()}}
    bundle = answers.bundle({name: text for name, text in texts.items() if text is not None})
    return {entry.key: entry for entry in propose(HostSnapshot(bundle), catalog(), deployable)}


def test_a_host_without_cards_gets_no_keys() -> None:
    assert proposed(pci=answers.NO_GPU) == {}


def test_the_cards_that_are_there_are_declared() -> None:
    gpus = proposed()["gpus"]

    assert (gpus.value, gpus.holds) == ({"GeForce RTX 3090": 2}, True)
    unknown = answers.PCI.replace("device=0x2204", "device=0xffff")
    assert proposed(pci=unknown)["gpus"].value == 2


def test_a_bad_driver_is_answered_with_the_lasting_branch_and_its_flavor() -> None:
    found = proposed()

    assert (found["driver"].value, found["driver"].holds) == ("580", False)
    assert "545.29.06" in found["driver"].reason
    assert found["driver_flavor"].value == "open"


@pytest.mark.parametrize(
    ("cards", "branch", "flavor"),
    [(V100, "580", None), (RTX5090, "580", None)],
    ids=["Volta ends there, closed only", "Blackwell is open anyway"],
)
def test_the_branch_drives_every_card(cards: str, branch: str, flavor: str | None) -> None:
    found = proposed(pci=cards)

    assert found["driver"].value == branch
    assert (found["driver_flavor"].value if "driver_flavor" in found else None) == flavor


def test_a_good_driver_is_declared_where_it_is_pinned_already() -> None:
    good = answers.VERSION.format("535.261.03")
    record = PinnedDriver(version="535.261.03", flavor="proprietary", declared="")
    pinned = f"== {PATH}\n{document(record)}"

    loose = proposed(nvidia_version=good)["driver"]
    assert (loose.value, loose.holds) == ("535", False)
    assert "not pinned by rigops" in loose.reason

    driver = proposed(nvidia_version=good, rigops_state=pinned)["driver"]
    assert (driver.value, driver.holds) == ("535", True)

    unable = proposed(frozenset(), nvidia_version=good, rigops_state=pinned)["driver"]
    assert not unable.holds
    assert "this version cannot" in unable.reason


def test_a_translating_iommu_gets_the_argument_recommended() -> None:
    args = proposed(bootloader=PLAIN_GRUB)["kernel_args"]

    assert (args.value, args.holds) == (["iommu=pt"], False)
    assert "kernel_args" not in proposed(bootloader=PLAIN_GRUB, iommu_groups=answers.PASSTHROUGH)
    one = proposed(bootloader=PLAIN_GRUB, pci=answers.ONE_GPU)
    assert "kernel_args" not in one


def test_an_argument_is_declared_only_where_it_runs_and_stays() -> None:
    live = answers.CMDLINE.replace("quiet", "quiet iommu=pt")

    args = proposed(proc_cmdline=live)["kernel_args"]
    assert (args.value, args.holds) == (["iommu=pt"], True)
    assert "kernel_args" not in proposed(
        proc_cmdline=live, bootloader=PLAIN_GRUB, iommu_groups=answers.PASSTHROUGH
    )


def test_hungry_cards_get_a_limit_recommended() -> None:
    limit = proposed()["gpu_power_limit"]

    assert (limit.value, limit.holds) == ("80%", False)
    assert "gpu_power_limit" not in proposed(pci=answers.ONE_GPU)
