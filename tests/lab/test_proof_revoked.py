"""A preflight that failed is not forgotten: by the host, by doctor, by history, by apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_DOCTOR)

PREFLIGHT = ("preflight", "--yes", "--json", *INVENTORY)
RECORDS = "cd /var/lib/rigops; ls proven.json failed_proof.json 2>/dev/null"


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    return module_lab.one("nvlink-2x3090")


@pytest.fixture(scope="module")
def laptop(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({host.name: {"nccl": {"NCCL_DEBUG": "WARN"}}})
    return laptop


def applied(laptop: Laptop, code: int) -> tuple[str, str]:
    said = laptop.rigops("apply", "--yes", "--reboot", "never", "--json", *INVENTORY)
    assert said.code == code, said.out + said.err
    host: dict[str, Any] = dict(only(said))
    return host["outcome"], (host["preflight"] or {"status": "not run"})["status"]


def doctor(laptop: Laptop) -> tuple[str, str]:
    said = laptop.rigops("doctor", "--only", "p2p.proof", "--json", *INVENTORY)
    finding = said.seen().one("p2p.proof")
    return finding["status"], finding["summary"]


def last_run(laptop: Laptop) -> tuple[str, str]:
    run = laptop.rigops("history", "--json", *INVENTORY).json()["runs"][0]
    return run["outcome"], run["preflight"]["status"]


def test_a_proof_is_read_by_doctor_and_saves_the_next_apply_the_copies(
    laptop: Laptop, host: Host
) -> None:
    assert doctor(laptop)[0] == "skipped"
    assert applied(laptop, 0) == ("changed", "ok")
    assert applied(laptop, 0) == ("converged", "not run")

    status, summary = doctor(laptop)

    assert (status, summary.endswith(", level L5")) == ("ok", True)
    assert host.run(RECORDS).stdout.split() == ["proven.json"]


def test_a_failed_preflight_revokes_it_on_the_host_until_one_has_passed(
    laptop: Laptop, host: Host
) -> None:
    host.set("p2p=hang")

    failed = laptop.rigops(*PREFLIGHT)

    assert failed.code == 1
    assert host.run(RECORDS).stdout.split() == ["failed_proof.json"]
    assert last_run(laptop) == ("not_proven", "fail")
    status, summary = doctor(laptop)
    assert (status, "failed: copies hang" in summary) == ("fail", True)
    assert applied(laptop, 1) == ("converged", "fail")
    assert last_run(laptop) == ("converged", "fail")

    host.set("p2p=default")
    passed = laptop.rigops(*PREFLIGHT)

    assert passed.code == 0, passed.out + passed.err
    assert last_run(laptop) == ("proven", "ok")
    assert doctor(laptop)[0] == "skipped"
    assert applied(laptop, 0) == ("converged", "ok")
    assert doctor(laptop)[0] == "ok"
    assert applied(laptop, 0) == ("converged", "not run")


def test_another_laptop_learns_of_it_from_the_host(
    laptop: Laptop, host: Host, tmp_path_factory: pytest.TempPathFactory
) -> None:
    host.set("p2p=wrong")
    laptop.rigops(*PREFLIGHT)
    other = Laptop(tmp_path_factory.mktemp("other"))
    other.declare({host.name: {"nccl": {"NCCL_DEBUG": "WARN"}}})

    assert last_run(other) == ("not_proven", "fail")
    assert doctor(other)[0] == "fail"
    assert applied(other, 1) == ("converged", "fail")


def test_a_host_without_records_gets_none(module_lab: Lab, tmp_path: Path) -> None:
    host = module_lab.one("nvlink-2x3090", "p2p=hang")
    laptop = Laptop(tmp_path)
    laptop.declare({host.name: {}})

    failed = laptop.rigops(*PREFLIGHT)

    assert failed.code == 1
    assert host.run("ls -d /var/lib/rigops").returncode != 0
    assert last_run(laptop) == ("not_proven", "fail")
