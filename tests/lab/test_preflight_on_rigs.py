"""Preflight over ssh, on booted rigs whose cards do what real ones have been seen to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import clients
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_DOCTOR)


@pytest.fixture(scope="module")
def cards(module_lab: Lab) -> Host:
    """Three 3090 on a board that grants P2P, with a good driver behind a translating IOMMU."""
    return module_lab.one("threadripper-3x3090", "driver=535.261.03", "p2p=granted")


def preflight(host: Host, folder: Path, declared: str = "") -> tuple[int, dict[str, Any]]:
    (folder / "inventory.py").write_text(
        f"rigs = [({host.name!r}, {{'ssh_config_file': {str(clients.config())!r}, {declared}}})]\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "rigops", "preflight", "--yes", "--json", "-i", "inventory.py"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
    )  # fmt: skip
    (found,) = json.loads(done.stdout)["hosts"]
    return done.returncode, found


def verdicts(found: dict[str, Any]) -> set[str]:
    return {pair["verdict"] for pair in found["pairs"]}


def test_a_translating_iommu_delivers_other_bytes_and_preflight_sees_them(
    cards: Host, tmp_path: Path
) -> None:
    code, found = preflight(cards, tmp_path)

    assert code == 1
    assert found["status"] == "fail"
    assert verdicts(found) == {"wrong_data"}
    assert len(found["pairs"]) == 6


def test_a_mirror_that_every_round_trip_misses_is_seen_by_the_owner(
    cards: Host, tmp_path: Path
) -> None:
    cards.set("p2p=mirror")

    code, found = preflight(cards, tmp_path)

    assert code == 1
    assert verdicts(found) == {"mirror"}


@pytest.mark.parametrize(
    ("declared", "code"), [("", 0), ("'p2p': 'required'", 1)], ids=["measured", "required"]
)
def test_access_that_is_refused_is_a_fault_only_where_it_was_declared(
    cards: Host, tmp_path: Path, declared: str, code: int
) -> None:
    cards.set("p2p=refused")

    exit_code, found = preflight(cards, tmp_path, declared)

    assert exit_code == code
    assert verdicts(found) == {"not_granted"}
    assert found["collectives"] == "not proven"


def test_a_bridged_pair_is_proven_over_nvlink(lab: Lab, tmp_path: Path) -> None:
    code, found = preflight(lab.one("nvlink-2x3090"), tmp_path, "'p2p': 'nvlink'")

    assert code == 0
    assert found["status"] == "ok"
    assert found["level"] == "L1"
    assert verdicts(found) == {"ok"}
    assert all(pair["gb_per_s"] > 40 for pair in found["pairs"])
