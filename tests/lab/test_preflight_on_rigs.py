"""Preflight over ssh, on booted rigs whose cards do what real ones have been seen to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import clients
from tests.lab.silicon.cuda.build import NCCL_VERSION
from tests.shards import LAB_PREFLIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_PREFLIGHT)


@pytest.fixture(scope="module")
def cards(module_lab: Lab) -> Host:
    """Three 3090 on a board that grants P2P, with a good driver behind a translating IOMMU."""
    return module_lab.one("threadripper-3x3090", "driver=535.261.03", "p2p=granted")


def begin(host: Host, folder: Path, declared: str = "", *options: str) -> subprocess.Popen[str]:
    (folder / "inventory.py").write_text(
        f"rigs = [({host.name!r}, {{'ssh_config_file': {str(clients.config())!r}, {declared}}})]\n"
    )
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "rigops", "preflight", "--yes", "--json"),
            *("-i", "inventory.py", *options),
        ],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    output, _ = process.communicate()
    (found,) = json.loads(output)["hosts"]
    return process.returncode, found


def preflight(
    host: Host, folder: Path, declared: str = "", *options: str
) -> tuple[int, dict[str, Any]]:
    return finish(begin(host, folder, declared, *options))


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


def test_collectives_are_proven_where_no_pair_has_access(cards: Host, tmp_path: Path) -> None:
    """By the NCCL of the distribution, which is on every rig with a driver."""
    cards.set("p2p=refused")

    code, found = preflight(cards, tmp_path)

    assert (code, found["collectives"]) == (0, "proven")
    assert found["collectives_library"].startswith("/usr/lib/x86_64-linux-gnu/libnccl.so.2")
    assert found["collectives_version"] == ".".join(map(str, NCCL_VERSION))
    assert [line.partition(":")[0] for line in found["collectives_evidence"]] == [
        "all-reduce without P2P (NCCL_P2P_DISABLE=1)",
        "all-reduce with P2P",
    ]
    assert found["collectives_control_gb_per_s"] > 0


def test_collectives_that_only_p2p_spoils(cards: Host, tmp_path: Path) -> None:
    cards.set("p2p=granted")

    code, found = preflight(cards, tmp_path)

    assert (code, found["collectives"]) == (1, "failed")
    assert "all sums exact" in found["collectives_evidence"][0]
    assert "words wrong" in found["collectives_evidence"][1]
    assert any("fails with P2P and is right without" in reason for reason in found["reasons"])


def test_only_named_pairs_are_tried(cards: Host, tmp_path: Path) -> None:
    cards.set("p2p=granted")
    _, whole = preflight(cards, tmp_path)
    first, second = (gpu["address"] for gpu in whole["gpus"][:2])

    code, found = preflight(cards, tmp_path, "", "--pairs", f"{second}:0")

    assert (code, found["partial"]) == (1, True)
    tried = {(one["from"], one["to"]) for one in found["pairs"] if one["verdict"] != "skipped"}
    assert tried == {(first, second), (second, first)}


def test_nothing_is_copied_while_a_process_computes_on_a_card(cards: Host, tmp_path: Path) -> None:
    cards.set("p2p=granted")
    job = "mkdir -p /run/rigsim/jobs; setsid sleep 300 >/dev/null 2>&1 & echo $!"
    pid = cards.run(job).stdout.strip()
    cards.run(f"echo 0000:0a:00.0 >/run/rigsim/jobs/{pid}")

    code, found = preflight(cards, tmp_path)
    cards.run(f"kill {pid}; rm /run/rigsim/jobs/{pid}")

    assert (code, found["status"], verdicts(found)) == (3, "unknown", {"skipped"})
    assert f"sleep ({pid}) on 0000:0a:00.0" in found["reasons"][0]
    assert [one["name"] for one in found["env"]["variables"]] == ["NCCL_P2P_DISABLE"]
    assert verdicts(preflight(cards, tmp_path)[1]) == {"wrong_data"}


def test_what_to_set_and_to_paste_after_a_failure(cards: Host, tmp_path: Path) -> None:
    cards.set("p2p=granted")

    _, found = preflight(cards, tmp_path)

    assert [one["name"] for one in found["env"]["variables"]] == ["NCCL_P2P_DISABLE"]
    assert found["machine"]["driver"] == "535.261.03"
    assert all(found["machine"].values()), found["machine"]
    assert f"kernel {found['machine']['kernel']}, driver 535.261.03, 3 x " in found["paragraph"]


def test_pairs_over_unequal_slots_are_no_slow_siblings(lab: Lab, tmp_path: Path) -> None:
    host = lab.one("threadripper-3x3090", "driver=535.261.03", "p2p=granted", "iommu=passthrough")

    code, found = preflight(host, tmp_path, "", "--pairs", "0:1,0:2")

    rates = {one["gb_per_s"] for one in found["pairs"] if one["verdict"] == "ok"}
    assert (code, verdicts(found), len(rates)) == (0, {"ok", "skipped"}, 2), found
    assert (found["status"], found["slow_pairs"]) == ("ok", []), found["pairs"]


def test_a_bridged_pair_is_proven_over_nvlink(lab: Lab, tmp_path: Path) -> None:
    code, found = preflight(lab.one("nvlink-2x3090"), tmp_path, "'p2p': 'nvlink'")

    assert code == 0
    assert found["status"] == "ok"
    assert found["level"] == "L5"
    assert (found["slow_pairs"], found["env"]["variables"]) == ([], [])
    assert verdicts(found) == {"ok"}
    assert all(pair["gb_per_s"] > 40 for pair in found["pairs"])
