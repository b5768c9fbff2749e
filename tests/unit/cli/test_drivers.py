from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from rigops.catalog import load
from rigops.report.catalog_age import MOST_DAYS
from rigops.report.drivers import Wanted, drivers_lines
from tests.own_catalog import verdict_against

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

OWN = verdict_against("535.261.03")


def rows(rigops: Rigops, *arguments: str) -> list[dict[str, Any]]:
    document = rigops("drivers", "--json", *arguments).json()
    assert next(iter(document)) == "schema"
    assert document["schema"] == "rigops.drivers/1"
    found: list[dict[str, Any]] = document["drivers"]
    return found


def test_each_row_says_what_how_why_since_when_and_who(rigops: Rigops) -> None:
    fields = {"branch", "version", "status", "gpus", "purpose", "since", "why", "evidence"}

    for row in rows(rigops):
        assert set(row) == fields
        if row["status"] in {"known-good", "caution", "bad"}:
            assert row["why"]
            assert all(one.keys() == {"where", "date", "hardware"} for one in row["evidence"])
            assert row["evidence"]


def test_545_is_bad_and_535_is_good_for_a_3090(rigops: Rigops) -> None:
    worst_first = rows(rigops, "--gpu", "3090")
    found = {(row["branch"], row["version"]): row for row in reversed(worst_first)}

    assert found["545", "545.29.06"]["status"] == "bad"
    assert any("nccl#1127" in one["where"] for one in found["545", "545.29.06"]["evidence"])
    assert found["535", "535.261.03"]["status"] == "known-good"


def test_a_branch_that_left_a_card_behind_is_unsupported(rigops: Rigops) -> None:
    of_590 = [row for row in rows(rigops, "--gpu", "V100") if row["branch"] == "590"]

    assert {row["status"] for row in of_590} == {"unsupported"}
    assert "580 is the last branch" in of_590[0]["why"]


@pytest.mark.parametrize("name", ["3090", "rtx 3090", "GeForce RTX 3090", "10de:2204"])
def test_a_card_goes_by_many_names(rigops: Rigops, name: str) -> None:
    assert "GeForce RTX 3090  Ampere" in rigops("drivers", "-v", "--gpu", name).out


@pytest.mark.parametrize(
    ("pci_id", "said"),
    [
        ("10de:06c0", "branch 390 is the last for the card 10de:06c0 (Fermi)"),
        ("10de:1402", "the card 10de:1402: use 580; 535 is good and ended 2026-06."),
    ],
)
def test_a_card_that_is_not_listed_is_judged_by_its_chip(
    rigops: Rigops, pci_id: str, said: str
) -> None:
    assert said in " ".join(rigops("drivers", "--gpu", pci_id).out.split())


@pytest.mark.parametrize("name", ["RTX 3091", "RTX 9999", "RTX PRO 4000 SFF", "qq"])
def test_an_unknown_card_gets_five_near_ones(rigops: Rigops, name: str) -> None:
    said = rigops("drivers", "--gpu", name)

    assert said.code == 2
    near = said.err.partition("such as ")[2].partition("; or")[0].split(", ")
    assert len(set(near) & {gpu.name for gpu in load().gpus}) == 5
    assert name != "RTX 3091" or near[0] == "GeForce RTX 3090"


def test_what_an_inventory_adds_to_the_catalog_is_part_of_it(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "inventory.py").write_text('rigs = (["box"], {"catalog": "own.toml"})\n')

    of_version = [row for row in rows(rigops, "--gpu", "3090") if row["version"] == "535.261.03"]

    assert [row["status"] for row in of_version] == ["bad", "known-good"]
    assert of_version[0]["evidence"][0]["where"] == "our lab book"
    assert "our lab book" in rigops("drivers", "-v").out
    assert "default wheels now need CUDA 13" in rigops("drivers").out
    assert "==535.261.03 is bad" in rigops("drivers").out


def test_a_broken_catalog_of_the_users_own_is_named_with_its_line(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text("[[drivers]]\nbranch = 535 536\n")
    (tmp_path / "inventory.py").write_text('rigs = (["box"], {"catalog": "own.toml"})\n')

    said = rigops("drivers")

    assert said.code == 2
    assert "own.toml:2" in said.err


def test_two_catalogs_cannot_both_be_meant(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text(
        'rigs = [("a", {"catalog": "a.toml"}), ("b", {"catalog": "b.toml"})]\n'
    )

    said = rigops("drivers")

    assert said.code == 2
    assert "group_data/all.py" in said.err


def test_the_first_line_is_the_answer_and_a_table_of_branches_follows(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rigops.cli.drivers.text_width", lambda: 100)

    lines = rigops("drivers", "--gpu", "3090").out.splitlines()

    assert lines[0].startswith(
        "GeForce RTX 3090: use 580; 535 is good and ended 2026-06. Never 545"
    )
    head = next(line.split() for line in lines if "branch" in line and "status" in line)
    assert head == ["branch", "status", "newest", "CUDA", "support", "why"]
    assert "  545     bad         545.29.06    12.3  ended          P2P copies hang" in lines
    assert lines[-2].startswith("Reports and dates: -v")
    assert lines[-1] == f"Catalog of {load().as_of}."
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100


def test_cards_with_one_answer_share_it_and_branches_that_do_not_drive_them_a_line(
    rigops: Rigops,
) -> None:
    lines = rigops("drivers", "--gpu", "V100").out.splitlines()

    answer = " ".join(line.strip() for line in lines[:2])
    assert answer.startswith("Tesla V100-PCIE-16GB, Tesla V100-PCIE-32GB, ")
    assert ": use 580; 535 is good and ended 2026-06. Never 545: P2P copies hang." in answer
    assert sum("580 is the last branch" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("day", "support"), [("2026-06-30", "until 2026-06"), ("2026-07-01", "ended 2026-06")]
)
def test_support_that_ends_with_a_month_lasts_to_its_last_day(day: str, support: str) -> None:
    catalog = load()

    wanted = Wanted((), None, date.fromisoformat(day))
    lines = drivers_lines(catalog, wanted, 100, has_evidence=False)

    assert any(line.split()[:1] == ["535"] and support in line for line in lines)


@pytest.mark.parametrize(
    ("day", "answer"),
    [
        ("2026-06-30", "use 535 or 580."),
        ("2026-07-01", "use 580; 535 is good and ended 2026-06."),
        ("2028-07-01", "use 535, which ended 2026-06 or 580, which ended 2028-06."),
    ],
)
def test_good_and_supported_comes_before_good_and_ended(day: str, answer: str) -> None:
    lines = drivers_lines(
        load(), Wanted((), None, date.fromisoformat(day)), 200, has_evidence=False
    )

    assert f"Most cards: {answer}" in next(iter(lines))


@pytest.mark.parametrize(
    ("card", "purpose", "answer"),
    [
        ("3090", "cuda12", "use 580; 535 is good and ended 2026-06."),
        ("3090", "cuda13", "use 580."),
        ("3090", "CUDA 12.3", "use 580."),
        ("V100", "cuda13", "Volta runs nothing of CUDA 13: take builds for CUDA 12."),
        ("V100", "cuda12", "use 580; 535 is good and ended 2026-06."),
        ("3090", "cuda13.5", "no driver that is known to be good runs CUDA 13.5; without good"),
        ("3090", "cuda99", "no driver that is known to be good runs CUDA 99."),
    ],
)
def test_the_answer_follows_the_purpose(
    rigops: Rigops, card: str, purpose: str, answer: str
) -> None:
    assert answer in " ".join(rigops("drivers", "--gpu", card, "--for", purpose).out.split())


@pytest.mark.parametrize("arguments", [(), ("--gpu", "3090"), ("-v",), ("-v", "--gpu", "3090")])
def test_a_purpose_leaves_out_drivers_that_are_too_old_for_it(
    rigops: Rigops, arguments: tuple[str, ...]
) -> None:
    lines = rigops("drivers", "--for", "cuda13", *arguments).out.splitlines()

    branches = {line.split()[0].strip(",") for line in lines if line.strip()}
    too_old = " ".join(line for line in lines if "too old for programs of CUDA 13" in line)
    assert {"580", "595", "620"} <= branches
    assert all(one in too_old for one in ("470", "535", "575"))
    assert "P2P copies hang" not in " ".join(lines)


def test_rows_are_of_drivers_that_serve_the_purpose(rigops: Rigops) -> None:
    every, some = rows(rigops), rows(rigops, "--for", "cuda13")

    assert {row["branch"] for row in some} == {"580", "590", "595", "610", "615", "620"}
    assert [row for row in every if row["branch"] in {one["branch"] for one in some}] == some


@pytest.mark.parametrize("width", [80, 100])
def test_where_there_is_room_the_needs_and_the_cost_of_own_modules_are_whole(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr("rigops.cli.drivers.text_width", lambda: width)

    lines = rigops("drivers", "--gpu", "5090").out.splitlines()

    shown = " ".join(line.strip() for line in lines)
    assert "RMForceStaticBar1=1;PeerMappingOverride=1, which costs 3.2 %" in shown
    assert max(map(len, lines)) <= width
    assert len(lines) <= 25


@pytest.mark.parametrize("purpose", ["opencl", "cuda", "13", "cuda1.2.3"])
def test_a_purpose_that_is_no_cuda_is_refused(rigops: Rigops, purpose: str) -> None:
    said = rigops("drivers", "--for", purpose)

    assert said.code == 2
    assert "cuda12.8" in said.err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "595 unknown 595.112.07 13.2 until 2027-03 differs by card: --gpu NAME"),
        (("--gpu", "5090"), "no reports; older releases: GSP firmware stops under load"),
        (("--gpu", "3090"), "no reports; older releases: pairs of 3090 serve"),
        (("--gpu", "4090"), "595 unknown 595.112.07 13.2 until 2027-03 no reports"),
    ],
)
def test_a_branch_whose_last_release_has_no_report_names_those_of_older_ones(
    rigops: Rigops, arguments: tuple[str, ...], line: str
) -> None:
    shown = " ".join(rigops("drivers", *arguments).out.split())

    assert line in shown
    assert ("no reports;" in shown) == ("older releases" in line)


@pytest.mark.parametrize(
    ("days", "is_old"), [(0, False), (MOST_DAYS, False), (MOST_DAYS + 1, True)]
)
def test_an_old_catalog_says_so_and_how_to_add_to_it(days: int, *, is_old: bool) -> None:
    today = load().as_of + timedelta(days=days)

    text = " ".join(drivers_lines(load(), Wanted((), None, today), 200, has_evidence=False))

    assert f"Catalog of {load().as_of}" in text
    assert ("by the key `catalog`" in text) == is_old


def test_a_day_of_the_users_catalog_counts_where_it_is_newer(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "inventory.py").write_text('rigs = (["box"], {"catalog": "own.toml"})\n')
    for day, shown in (("2099-01-02", "2099-01-02"), ("2020-01-02", str(load().as_of))):
        (tmp_path / "own.toml").write_text(f'as_of = "{day}"\n')
        assert rigops("drivers").out.splitlines()[-1] == f"Catalog of {shown}."

    (tmp_path / "own.toml").write_text('as_of = "soon"\n')
    assert "as_of is not a day" in rigops("drivers").err


def test_without_an_inventory_there_is_still_a_catalog(rigops: Rigops) -> None:
    assert rigops("drivers").code == 0
    assert rigops("drivers", "-i", "nowhere.py").code == 2


def test_plain_text_is_plain(rigops: Rigops) -> None:
    assert "\x1b" not in rigops("drivers", "--no-color").out


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_branch_is_a_line_at_any_width(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr("rigops.cli.drivers.text_width", lambda: width)

    lines = rigops("drivers", "--gpu", "3090").out.splitlines()

    assert max(map(len, lines)) <= width
    assert len(lines) <= 25
    assert ("support" in " ".join(lines)) == (width > 60)
