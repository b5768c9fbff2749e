"""Which driver is recommended, on what real archives offer, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Final

import pytest

from rigops.catalog import load
from rigops.concerns.nvidia_driver.apt_offers import Offered
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.driver_facts import DriverFacts
from rigops.concerns.nvidia_driver.resolver.machine import Kernel, RunFile
from rigops.concerns.nvidia_driver.resolver.offers import Offers
from rigops.concerns.nvidia_driver.resolver.options import choose
from rigops.concerns.nvidia_driver.resolver.request import Blocker, identity
from rigops.concerns.registry import read
from tests.unit.concerns.nvidia_driver.resolver.archives import archive
from tests.unit.concerns.nvidia_driver.resolver.choices import (
    NOBLE_SUITES,
    RIG,
    TODAY,
    chosen,
    of,
    with_driver,
)
from tests.unit.concerns.nvidia_driver.resolver.machines import (
    ALMA,
    ARCH,
    BOOKWORM,
    JAMMY,
    NOBLE,
    TRIXIE,
    with_cards,
)

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Machine

V100: Final = "Tesla V100-SXM2-32GB"
UNUSABLE = Blocker("the declared driver_source cannot be used", "E: no route")
OLD, NOW = "535.183.01", "535.261.03"
FOLDER: Final = "/srv/debs"
IN_FOLDER: Final = f"{FOLDER} on this machine"


def _of(machine: Machine, offers: Offers) -> DriverFacts:
    return DriverFacts(machine=machine, catalog=load(), offered=Offered(offers), source="")


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("10de:ffff", "which driver drives 10de:ffff is not known"),
        ("10de:06c0", "390 is the last branch for the card 10de:06c0 (Fermi)"),
    ],
)
def test_no_driver_is_recommended_by_guess(card: str, said: str) -> None:
    choice = chosen(with_cards(NOBLE, "10de:ffff", card), *NOBLE_SUITES)
    alone = chosen(with_cards(NOBLE, card), *NOBLE_SUITES)

    assert (choice.recommended, choice.declare) == (None, {})
    assert (alone.recommended, alone.declare) == (None, {})
    assert said in str(alone.blocker)


@pytest.mark.parametrize(
    ("card", "version"), [("10de:1402", "580.178.04"), ("10de:1287", "470.256.02")]
)
def test_a_card_that_is_not_listed_gets_the_driver_of_its_chip(card: str, version: str) -> None:
    choice = chosen(with_cards(NOBLE, card), *NOBLE_SUITES)

    assert choice.recommended is not None
    assert (choice.recommended.version, choice.recommended.flavor) == (version, "proprietary")


@pytest.mark.parametrize(
    ("machine", "suites", "version", "flavor"),
    [
        (with_cards(BOOKWORM, "3090"), ["bookworm"], "535.261.03", "proprietary"),
        (with_cards(TRIXIE, "3090"), ["trixie"], "535.274.02", "proprietary"),
        (with_cards(NOBLE, V100), NOBLE_SUITES, "580.178.04", "proprietary"),
        (with_cards(NOBLE, "3090"), NOBLE_SUITES, "580.178.04", "open"),
        (with_cards(NOBLE, "RTX 5090"), NOBLE_SUITES, "580.178.04", "open"),
        (with_cards(NOBLE, "3090", "RTX 5090"), NOBLE_SUITES, "580.178.04", "open"),
        (with_cards(NOBLE, "3090", V100), NOBLE_SUITES, "580.178.04", "proprietary"),
        (with_cards(JAMMY, "3090"), ["jammy-updates"], "580.178.04", "open"),
    ],
    ids=lambda one: (
        f"{one.name}: {', '.join(map(str, one.cards))}" if hasattr(one, "cards") else ""
    ),
)
def test_the_newest_known_good_one_that_the_sources_have_is_recommended(
    machine: Machine, suites: list[str], version: str, flavor: str
) -> None:
    choice = chosen(machine, *suites)

    found = choice.recommended
    assert found is not None
    assert (found.version, found.flavor) == (version, flavor)
    assert found.declare == {"driver": version.partition(".")[0]}
    assert "known to be good" in found.why
    assert choice.blocker is None


def test_what_a_branch_does_not_bring_is_declared_as_a_version() -> None:
    """Another one of the branch is installed, which is not so good and would stay."""
    machine = replace(RIG, installed={"libcuda1": "535.154.05-1"}, kernels=())
    every = archive("bookworm").every
    older = tuple(
        replace(
            one,
            version="535.154.05-1",
            depends=(),
            provides=(),
        )
        for one in every
        if one.version == "535.261.03-1" and one.source == "nvidia-graphics-drivers"
    )

    found = choose(_of(machine, Offers((*older, *every))), TODAY).recommended

    assert found is not None
    assert (found.version, found.declare) == ("535.261.03", {"driver": "535.261.03"})


def test_what_is_installed_and_good_stays_and_is_declared_by_its_branch() -> None:
    machine = with_driver(RIG, "535.216.03-1~deb12u1")
    build = archive("bookworm").at("libcuda1", "535.261.03")
    assert build

    found = chosen(with_driver(RIG, build.version), "bookworm").recommended

    assert found is not None
    assert (found.version, found.declare) == ("535.261.03", {"driver": "535"})
    assert found.why.startswith("535.261.03 is installed and known to be good")
    older = chosen(machine, "bookworm", "bookworm-security").recommended
    assert older is not None
    assert older.version == "535.216.03"


def test_an_end_of_life_is_told_with_the_branch_to_plan_for() -> None:
    ended = chosen(RIG, "bookworm").recommended
    maintained = chosen(RIG, "bookworm", today=date(2026, 6, 30)).recommended

    assert ended is not None
    assert maintained is not None
    assert ended.why.endswith(
        "535 has had no fixes since 2026-06; plan for 580, which gets fixes until 2028-06"
    )
    assert "fixes" not in maintained.why
    assert of(chosen(RIG, "bookworm"), "535.261.03").why == (
        "known to be good for GeForce RTX 3090; gets no more fixes"
    )


def test_a_bad_one_does_not_stay_and_is_named_as_the_reason() -> None:
    machine = with_cards(NOBLE, "3090")
    names = ("nvidia-dkms-545", "nvidia-utils-545", "libnvidia-compute-545")
    machine = replace(machine, installed=dict.fromkeys(names, "545.29.06-0ubuntu0.22.04.2"))

    choice = chosen(machine, "jammy-updates", loaded="545.29.06")

    assert (choice.loaded, choice.installed) == ("bad", "bad")
    bad = of(choice, "545.29.06")
    assert (bad.status, bad.fits) == ("bad", False)
    assert "NVIDIA/nccl#1127" in bad.why
    assert choice.recommended is not None
    assert choice.recommended.version == "580.178.04"
    assert "545.29.06, which is loaded, is known to be bad" in choice.recommended.why


def test_an_empty_package_that_leads_elsewhere_is_told_as_one() -> None:
    choice = chosen(with_cards(NOBLE, "3090"), *NOBLE_SUITES)

    trap, real = of(choice, "535.309.01"), of(choice, "535.171.04")
    assert not trap.fits
    assert trap.why.startswith("what is named 535 here is not 535")
    assert "580" in trap.why
    assert (real.fits, real.sets, real.places) == (
        True,
        ("compute", "desktop"),
        ("noble/restricted",),
    )


def test_what_drives_not_every_card_says_which() -> None:
    choice = chosen(with_cards(NOBLE, V100), *NOBLE_SUITES)

    newer, wrong = of(choice, "595.99.02"), of(choice, "580.178.04", "open")
    assert (newer.status, newer.fits) == ("unsupported", False)
    assert "580 is the last branch for" in newer.why
    assert (wrong.status, wrong.fits) == ("unsupported", False)
    assert "takes the proprietary modules" in wrong.why


def test_every_driver_is_listed_once_and_the_newest_first() -> None:
    options = chosen(with_cards(NOBLE, "3090"), *NOBLE_SUITES).options

    keys = [(one.version, one.flavor) for one in options]
    assert len(keys) == len(set(keys))
    assert keys[0][0] == "595.99.02"
    assert keys[-1][0].startswith("470.")


def test_a_kernel_that_it_cannot_be_built_for_keeps_it_from_fitting() -> None:
    kernels = (*RIG.kernels, Kernel("6.19.3-amd64"))

    choice = chosen(replace(RIG, kernels=kernels), "bookworm")

    assert choice.recommended is None
    assert "6.19.3-amd64 could boot next" in of(choice, "535.261.03").why
    assert choice.blocker is not None
    assert "6.19.3-amd64" in choice.blocker.reason


def test_where_nothing_is_offered_the_source_that_would_have_it_is_told() -> None:
    machine = replace(RIG, lacks_components=("contrib", "non-free", "non-free-firmware"))

    choice = chosen(machine)

    assert (choice.options, choice.recommended) == ((), None)
    assert choice.blocker is not None
    assert 'declare "driver_source": "distribution"' in choice.blocker.fix
    assert "535.261.03" in choice.blocker.fix


def test_where_only_the_trap_is_offered_the_older_pocket_is_told() -> None:
    every = archive("noble-updates").every
    only_535 = Offers(tuple(one for one in every if "535" in one.name))
    machine = replace(with_cards(NOBLE, "3090"), suites=("noble-updates",))

    choice = choose(_of(machine, only_535), TODAY)

    assert choice.recommended is None
    assert choice.blocker is not None
    assert '"driver_source": {"URIs": "http://archive.example/ubuntu"' in choice.blocker.fix
    assert '"Suites": "noble"' in choice.blocker.fix


def test_where_nothing_on_offer_drives_the_card_the_missing_branch_is_named() -> None:
    choice = chosen(with_cards(TRIXIE, "RTX 5090"), "trixie")

    assert choice.recommended is None
    assert choice.blocker is not None
    assert "have no driver 580" in choice.blocker.reason
    assert "driver_source" in choice.blocker.fix


def test_cards_that_share_no_driver_are_told_so() -> None:
    choice = chosen(with_cards(NOBLE, V100, "RTX 5090"), *NOBLE_SUITES)

    assert choice.recommended is None
    assert choice.blocker is not None
    assert "no branch drives all of them" in choice.blocker.fix


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"run_file": RunFile("/usr/bin/nvidia-uninstall")}, "NVIDIA's own installer"),
        ({"secure_boot": True, "has_key": False}, "Secure Boot is on"),
    ],
    ids=["run file", "secure boot"],
)
def test_what_stands_in_the_way_of_every_driver_is_told_beside_the_best(
    change: dict[str, object], reason: str
) -> None:
    choice = chosen(replace(RIG, **change), "bookworm")  # type: ignore[arg-type]  # real fields

    assert choice.recommended is not None
    assert choice.recommended.version == "535.261.03"
    assert of(choice, "535.261.03").fits
    assert choice.blocker is not None
    assert reason in choice.blocker.reason


def test_without_a_key_what_the_distribution_signed_is_recommended_with_what_it_holds() -> None:
    choice = chosen(with_cards(replace(NOBLE, secure_boot=True), "3090"), *NOBLE_SUITES)

    found = choice.recommended
    assert found is not None
    assert choice.blocker is None
    assert found.version == "580.178.04"
    assert any("the kernel is held with them" in note for note in found.notes)


def test_beside_one_that_nobody_signed_for_this_kernel_another_is_named_that_somebody_did() -> None:
    machine = replace(NOBLE, kernels=(Kernel("6.8.0-31-generic"),), secure_boot=True)

    choice = chosen(with_cards(machine, "3090"), *NOBLE_SUITES)

    assert choice.blocker is not None
    assert 'declare "driver": "535.171.04", whose signed modules they have' in choice.blocker.fix


def test_a_doubtful_one_is_recommended_only_for_want_of_a_good_one() -> None:
    every = archive("trixie").every
    offers = Offers(tuple(one for one in every if "tesla" not in one.name))

    choice = choose(_of(with_cards(TRIXIE, "3090"), offers), TODAY)

    found = choice.recommended
    assert found is not None
    assert (found.version, of(choice, found.version).status) == ("550.163.01", "caution")
    assert found.why.startswith("no driver on offer is known to be good here")


def test_without_a_card_there_is_nothing_to_recommend_for() -> None:
    choice = chosen(BOOKWORM, "bookworm")

    assert choice.options
    assert choice.recommended is None
    assert choice.blocker is not None
    assert "no NVIDIA card" in choice.blocker.reason


def test_lists_that_apt_never_fetched_are_asked_for() -> None:
    assert chosen(RIG, unusable=UNUSABLE).blocker == UNUSABLE


@pytest.mark.parametrize(("machine", "word"), [(ARCH, "AUR"), (ALMA, "versionlock")])
def test_elsewhere_the_commands_for_a_person_are_told(machine: Machine, word: str) -> None:
    choice = chosen(with_cards(machine, "3090"))

    assert choice.recommended is None
    assert choice.blocker is not None
    assert word in choice.blocker.fix or "nvidia-driver:580" in choice.blocker.fix
    assert "580" in choice.blocker.fix


def test_what_is_declared_is_resolved() -> None:
    good = chosen(RIG, "bookworm", driver="535").declared
    bad = chosen(RIG, "bookworm", driver="545").declared

    assert good is not None
    assert (good.driver, good.version, good.flavor) == ("535", "535.261.03", "proprietary")
    assert bad is not None
    assert bad.version is None
    assert bad.blocker is not None
    assert "known to be bad" in bad.blocker.reason
    assert chosen(RIG, "bookworm").declared is None


def test_what_is_pinned_for_the_same_declaration_stays_without_a_source() -> None:
    spec = read({"driver": "535"})
    packages = {"nvidia-kernel-dkms": "535.183.01-1"}
    pinned = PinnedDriver(
        version="535.183.01", flavor="proprietary", declared=identity(spec), packages=packages
    )

    found = chosen(replace(RIG, installed=packages), pinned=pinned, driver="535").declared

    assert found is not None
    assert (found.version, found.why) == ("535.183.01", "it is installed")


@pytest.mark.parametrize(
    ("source", "lacks", "is_told"),
    [
        ("auto", ("non-free",), True),
        ("distribution", (), True),
        ("distribution", ("non-free",), False),
        ("snapshot:20240401T000000Z", (), False),
    ],
)
def test_a_source_that_was_not_looked_at_is_left_to_plan(
    source: str, lacks: tuple[str, ...], *, is_told: bool
) -> None:
    machine = replace(RIG, lacks_components=lacks)

    found = chosen(machine, "bookworm", driver="535", driver_source=source).declared

    assert found is not None
    assert (found.version is not None) is is_told
    assert ("rigops plan" in found.why) is not is_told


def test_a_declared_source_that_cannot_be_used_refuses_only_what_is_declared() -> None:
    fields = {"URIs": "http://x.example", "Suites": "x", "Components": "main"}

    choice = chosen(RIG, "bookworm", unusable=UNUSABLE, driver="535", driver_source=fields)

    assert choice.declared is not None
    assert choice.declared.blocker == UNUSABLE
    assert choice.recommended is not None
