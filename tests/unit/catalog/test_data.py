"""The shipped data: complete, consistent and with evidence for everything."""

from __future__ import annotations

import itertools
import re

import pytest

from rigops.catalog import (
    Catalog,
    find_branch,
    find_gpu,
    find_toolkit,
    find_unlisted,
    load,
    runs_on,
)
from rigops.catalog.loader import SHIPPED
from rigops.catalog.model import ARCHITECTURES, EVERY_CARD

_REGISTRIES = ("deb.debian", "pypi.", "archive.ubuntu", "snapshot.", "registry.", "crates.io")


def test_branches_are_in_order() -> None:
    branches = [int(branch.branch) for branch in load().drivers]

    assert branches == sorted(set(branches))


def test_a_branch_has_its_cuda_its_end_and_its_releases() -> None:
    found = find_branch(load(), "535")

    assert found is not None
    assert (found.cuda, found.end_of_life) == ("12.2", "2026-06")
    dates = {release.version: release.date for release in found.releases}
    assert dates["535.54.03"] == "2023-06-14"


def test_the_release_that_never_was_is_not_there() -> None:
    releases = [release.version for branch in load().drivers for release in branch.releases]

    assert "535.172.04" not in releases
    assert len(releases) == len(set(releases))


@pytest.mark.parametrize("architecture", ["Maxwell", "Pascal", "Volta"])
def test_old_architectures_end_with_580_and_never_have_open_modules(architecture: str) -> None:
    for branch in load().drivers:
        drives = architecture in branch.architectures
        assert drives is (branch.branch <= "580")
        assert architecture not in branch.open_architectures


def test_blackwell_begins_with_570_and_needs_open_modules() -> None:
    for branch in load().drivers:
        assert "Blackwell" not in branch.architectures
        assert ("Blackwell" in branch.open_architectures) is (branch.branch >= "570")


def test_verdicts_on_running_drivers_fit_a_line_of_a_table() -> None:
    shorts = [
        one.short
        for branch in load().drivers
        for one in branch.verdicts
        if one.purpose != "install"
    ]

    assert all(0 < len(short) <= 50 for short in shorts)


def test_verdicts_name_cards_and_architectures_that_exist() -> None:
    known = {EVERY_CARD, *ARCHITECTURES, *(gpu.name for gpu in load().gpus)}

    for branch in load().drivers:
        for verdict in branch.verdicts:
            assert set(verdict.gpus) <= known


def test_every_number_that_nvidia_publishes_is_there() -> None:
    assert [xid.number for xid in load().xids] == list(range(1, 177))


def test_a_3090_at_its_limit_peaks_at_600_watts() -> None:
    gpu = find_gpu(load(), "3090").only

    assert gpu is not None
    assert round(gpu.watts_default * gpu.spike_factor, -1) == 600


def test_only_cards_with_stacked_memory_report_its_temperature() -> None:
    stacked = ("A30", "A100", "H100", "H200", "Tesla V100")

    for gpu in load().gpus:
        assert gpu.memory_temperature is gpu.name.startswith(stacked), gpu.name


def test_half_a_hundred_cards_and_more_from_kepler_to_blackwell() -> None:
    gpus = load().gpus

    assert len(gpus) >= 50
    assert {gpu.architecture for gpu in gpus} == set(ARCHITECTURES)


@pytest.mark.parametrize(
    ("architecture", "last"),
    [("Kepler", "470"), ("Maxwell", "580"), ("Pascal", "580"), ("Volta", "580")]
    + [(name, "") for name in ARCHITECTURES[4:]],
)
def test_the_last_branch_of_a_card_is_that_of_its_architecture(
    architecture: str, last: str
) -> None:
    branches = {gpu.last_branch for gpu in load().gpus if gpu.architecture == architecture}

    assert branches == {last}


def test_every_card_has_a_branch_and_none_before_its_first() -> None:
    for gpu in load().gpus:
        driving = [branch.branch for branch in load().drivers if runs_on(branch, gpu)]
        assert driving[0] == gpu.first_branch, gpu.name
        assert driving[-1] == (gpu.last_branch or load().drivers[-1].branch), gpu.name


def test_nvlink_and_what_is_granted_over_it_go_together() -> None:
    for gpu in load().gpus:
        assert bool(gpu.nvlink_links) is bool(gpu.nvlink_gb_per_s), gpu.name
        if gpu.p2p in {"nvlink", "nvlink-or-none"}:
            assert gpu.nvlink_links, gpu.name
        if gpu.p2p == "none":
            assert not gpu.nvlink_links, gpu.name


def test_limits_that_nobody_looked_up_are_said_to_be_unknown() -> None:
    gpu = find_gpu(load(), "A40").only

    assert gpu is not None
    assert (gpu.watts_default, gpu.watts_min, gpu.watts_max) == (300, 0, 0)
    assert any("not looked up" in one.hardware for one in gpu.evidence)


def test_no_two_cards_share_a_device_id_or_an_alias() -> None:
    for names in (
        [pci_id for gpu in load().gpus for pci_id in gpu.pci_ids],
        [alias.lower() for gpu in load().gpus for alias in (gpu.name, *gpu.aliases)],
    ):
        assert len(names) == len(set(names))


def test_the_mining_siblings_of_the_1060_are_not_taken_for_it() -> None:
    assert find_gpu(load(), "10de:1c07").found == ()
    assert find_gpu(load(), "10de:1c09").found == ()


@pytest.mark.parametrize(
    "table",
    ["drivers", "gpus", "xids", "init_codes", "firmware", "links", "container_toolkits"],
)
def test_every_entry_has_evidence(table: str) -> None:
    entries = getattr(Catalog(), table)

    assert entries
    for entry in entries:
        assert entry.evidence


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_evidence_is_public_and_names_no_archive_host(path: object) -> None:
    text = (SHIPPED / str(path)).read_text(encoding="utf-8")

    assert not [host for host in _REGISTRIES if host in text]
    assert not re.findall(r'where = "[/~.]', text)
    # Lines as programs print them, and parts of such lines, spaces included.
    recorded = r"^(?:pattern|words|example|counter) = .*"
    assert "  " not in re.sub(rf"{recorded}|^ +", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("version", "status"), [("1.17.7", "bad"), ("1.19.1", "caution"), ("1.18.2", None)]
)
def test_a_version_of_the_container_toolkit_is_known_by_its_faults(
    version: str, status: str | None
) -> None:
    found = find_toolkit(load(), version)

    assert (found.status if found else None) == status


def test_every_card_is_of_the_generation_that_its_device_id_says() -> None:
    generations = {one.name: one for one in load().generations}
    for gpu in load().gpus:
        for pci_id in gpu.pci_ids:
            found = find_unlisted(load(), int(pci_id, 16))
            assert found is not None, gpu.name
            assert (found.architecture, found.last_branch) == (gpu.architecture, gpu.last_branch)
            assert int(found.first_branch) <= int(gpu.first_branch)
    assert generations.keys() == {"Tesla", "Fermi", *ARCHITECTURES}


def test_no_two_generations_share_a_device_id() -> None:
    ranges = sorted(tuple(ids.split("-")) for one in load().generations for ids in one.pci_ids)

    assert all(one[1] < other[0] for one, other in itertools.pairwise(ranges))


@pytest.mark.parametrize(
    ("device", "architecture", "last"),
    [
        (0x05E2, "Tesla", "340"),  # GeForce GTX 260
        (0x06C0, "Fermi", "390"),  # GeForce GTX 480
        (0x1080, "Fermi", "390"),  # GeForce GTX 580
        (0x1140, "Fermi", "390"),  # GeForce 610M
        (0x1187, "Kepler", "470"),  # GeForce GTX 760
        (0x1287, "Kepler", "470"),  # GeForce GT 730
        (0x1402, "Maxwell", "580"),  # GeForce GTX 950
        (0x1D01, "Pascal", "580"),  # GeForce GT 1030
        (0x1F82, "Turing", ""),  # GeForce GTX 1650
        (0x2F58, "Blackwell", ""),  # GeForce RTX 5070 Ti Mobile
    ],
)
def test_a_card_that_is_not_listed_is_known_by_its_chip(
    device: int, architecture: str, last: str
) -> None:
    found = find_unlisted(load(), device)

    assert found is not None
    assert (found.architecture, found.last_branch) == (architecture, last)


@pytest.mark.parametrize("device", [0x0020, 0x0531, 0xFFFF])
def test_a_chip_of_no_generation_is_not_known(device: int) -> None:
    assert find_unlisted(load(), device) is None
