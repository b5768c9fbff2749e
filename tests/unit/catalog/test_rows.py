from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import DriverRow, driver_rows, find_gpu, load
from tests.unit.catalog.entries import DRIVER, verdict, write

if TYPE_CHECKING:
    from pathlib import Path

_CONTRACT = {"branch", "version", "status", "gpus", "purpose", "since", "why", "evidence"}


def _rows(card: str | None = None, branch: str | None = None) -> list[DriverRow]:
    gpu = find_gpu(load(), card).only if card else None
    return [row for row in driver_rows(load(), gpu) if branch in {None, row.branch}]


def test_rows_have_the_fields_of_the_contract_and_are_json() -> None:
    for row in _rows():
        document = json.loads(json.dumps(row.as_json()))

        assert set(document) == _CONTRACT
        assert document["evidence"]
        assert all(set(one) == {"where", "date", "hardware"} for one in document["evidence"])


def test_every_branch_has_a_row_without_a_version() -> None:
    whole = {row.branch for row in _rows() if row.version is None}

    assert whole == {branch.branch for branch in load().drivers}


def test_every_release_has_a_row() -> None:
    listed = {(row.branch, row.version) for row in _rows()}

    for branch in load().drivers:
        assert {(branch.branch, release.version) for release in branch.releases} <= listed


def test_a_version_has_one_row_for_each_verdict_worst_first() -> None:
    statuses = [row.status for row in _rows("3090", "535") if row.version == "535.129.03"]

    assert statuses == ["caution", "known-good"]


def test_rows_are_filtered_by_the_card() -> None:
    def lies(card: str) -> list[DriverRow]:
        return [
            row
            for row in _rows(card, "525")
            if row.version == "525.89.02" and (row.status, row.purpose) == ("bad", "p2p")
        ]

    assert len(lies("4090")) == 1
    assert lies("3090") == []


@pytest.mark.parametrize(
    ("card", "branch", "reason"),
    [("V100-SXM2-16GB", "590", "580"), ("5090", "535", "570"), ("H200", "535", "550")],
)
def test_a_branch_that_cannot_drive_the_card_is_unsupported_with_the_reason(
    card: str, branch: str, reason: str
) -> None:
    (row,) = _rows(card, branch)

    assert (row.status, row.version) == ("unsupported", None)
    assert reason in row.why


def test_a_branch_without_a_verdict_is_unknown(tmp_path: Path) -> None:
    rows = driver_rows(load(write(tmp_path, DRIVER)))

    assert {row.status for row in rows if row.branch == "999"} == {"unknown"}


def test_a_release_that_no_verdict_names_is_unknown() -> None:
    worst = {row.version: row.status for row in reversed(_rows("3090", "595"))}

    assert worst[None] == "unknown"
    assert worst["595.45.04"] == "unknown"
    assert worst["595.58.03"] == "caution"
    assert worst["595.71.05"] == "caution"
    assert worst["595.91.07"] == "unknown"


def test_nothing_is_praised_without_a_known_good_verdict() -> None:
    praised = {row.branch for row in _rows("3090") if row.status == "known-good"}

    assert praised == {"535", "580", "595"}


def test_a_verdict_on_a_release_without_a_row_is_not_lost(tmp_path: Path) -> None:
    text = verdict(versions="==620.10.01", why="Hangs here.").replace('"535"', '"620"')
    rows = [row for row in driver_rows(load(write(tmp_path, text))) if row.branch == "620"]

    assert (None, "bad", "==620.10.01: Hangs here.") in [
        (row.version, row.status, row.why) for row in rows
    ]
