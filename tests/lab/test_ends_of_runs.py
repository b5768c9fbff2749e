"""How runs over several hosts end: a failed proof, nothing to prove, and what to type next."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.lab.laptop import Laptop
from tests.shards import LAB_PREFLIGHT

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host
    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_PREFLIGHT)

STOPGAP = '"nccl": {"NCCL_P2P_DISABLE": "1"}'
WRONG = "wrong data on 2 of 2 pairs (L1, 1 MiB)"
NO_ACCESS = "no pair has peer access (6 of 6)"


@pytest.fixture(scope="module")
def hosts(module_lab: Lab) -> list[Host]:
    """Copies of the first are wrong, the second grants none, the third has one card."""
    return module_lab.up(
        "nvlink-2x3090=wrong", "threadripper-3x3090=none", "desktop-5090=one",
    )  # fmt: skip


@pytest.fixture(scope="module")
def laptop(hosts: list[Host], tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    wrong, none, one = hosts
    wrong.set("p2p=wrong")
    none.set("p2p=refused")
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    declared = {"nccl": {"NCCL_DEBUG": "WARN"}}
    dead = {"ssh_hostname": "127.0.0.1", "ssh_port": 1}
    laptop.declare({**{host.name: declared for host in (wrong, none, one)}, "dead": dead})
    return laptop


def rows(said: Said) -> dict[str, list[str]]:
    """Of the closing table, by host, without the gaps."""
    _, found, table = f"\n{said.out}".rpartition("\nhost ")
    assert found, said.out + said.err
    split = [re.split(r" {2,}", line) for line in table.splitlines()[1:-1]]
    return {row[0]: row[1:] for row in split}


def test_a_failed_proof_is_the_last_word_of_an_apply(laptop: Laptop, hosts: list[Host]) -> None:
    said = laptop.rigops("apply", "--yes", "--reboot", "never")

    assert said.code == 1
    words = " ".join(said.out.split())
    assert f"wrong FAILED its proof: {WRONG}" in words
    assert f"Do not train with P2P: declare {STOPGAP}" in words
    assert rows(said) == {
        "wrong": ["FAIL", f"P2P: {WRONG}", "rigops doctor wrong"],
        "none": ["changed", NO_ACCESS],
        "one": ["changed", "1 GPU: nothing to prove"],
        "dead": ["not reached", "Connection refused", "rigops doctor dead"],
    }
    record = json.loads(hosts[0].run("cat /var/lib/rigops/failed_proof.json").stdout)
    assert (record["failure"], record["stopgap"]) == (WRONG, STOPGAP)


def test_doctor_names_the_same_failure_and_calls_nothing_proven_without_access(
    laptop: Laptop,
) -> None:
    said = laptop.rigops("doctor", "--only", "p2p.proof", "--json")

    wrong, none = (said.seen(name).one("p2p.proof") for name in ("wrong", "none"))
    assert (wrong["status"], wrong["summary"].endswith(f"failed: {WRONG}")) == ("fail", True)
    assert (none["status"], none["summary"].endswith(NO_ACCESS)) == ("skipped", True)


def test_preflight_is_not_ok_and_has_no_level_where_no_pair_was_tried(laptop: Laptop) -> None:
    said = laptop.rigops("preflight", "none", "one", "--yes")
    document = laptop.rigops("preflight", "none", "one", "--yes", "--json").json()

    assert said.code == 0
    assert f"none  {NO_ACCESS}, NCCL will use SHM" in said.out
    assert "proven through host memory" in said.out
    assert "one  1 GPU: nothing to prove" in said.out
    assert not re.search(r"\bok\b|L5|not_granted", said.out), said.out
    assert [host["level"] for host in document["hosts"]] == [None, None]


def test_after_a_release_the_inventory_is_next(laptop: Laptop) -> None:
    said = laptop.rigops("release", "one", "--yes")

    assert said.code == 0
    assert said.out.splitlines()[-1].startswith("Next: take one out of inventory.py")
