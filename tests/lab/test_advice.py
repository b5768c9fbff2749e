"""What init and doctor advise: plan takes each line, and after apply its finding is gone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from rigops.concerns.registry import keys
from rigops.inventory import load
from tests.lab import clients
from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.lab.rigs import names
from tests.shards import LAB_ADVICE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_ADVICE)

BY_APPLY = {"apply", "apply+reboot"}
NOT_WELL = {"fail", "warn", "unknown"}


@pytest.fixture(scope="module", params=names())
def host(request: pytest.FixtureRequest, module_lab: Lab) -> Host:
    return module_lab.one(request.param)


@pytest.fixture(scope="module")
def laptop(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    del host
    ssh = tmp_path_factory.mktemp("ssh")
    (ssh / "config").write_text(f"Include {clients.config()}\n")
    return Laptop(tmp_path_factory.mktemp("laptop"), ssh)


def first_inventory(laptop: Laptop, host: Host) -> Path:
    """As init writes it: one that was there is moved away."""
    path = laptop.folder / "inventory.py"
    path.unlink(missing_ok=True)
    said = laptop.rigops("init", "--host", host.name)
    assert said.code == 0, said.err
    return path


def suggested(text: str) -> Iterator[Mapping[str, object]]:
    """The lines of keys that are comments, as somebody removes their #."""
    for line in re.findall(r'^ *# ("[a-z0-9_]+": .*),$', text, re.MULTILINE):
        yield eval(f"{{{line}}}")  # noqa: S307 - as Python reads an inventory


def remedies(laptop: Laptop) -> dict[str, Mapping[str, object]]:
    """By finding and subject."""
    said = laptop.rigops("doctor", "--json", *INVENTORY)
    return {
        f"{finding['id']} {finding['subject']}": finding["remedy"]["declare"]
        for finding in only(said)["findings"]
        if finding["status"] in NOT_WELL
        and finding["remedy"]
        and finding["remedy"]["kind"] in BY_APPLY
    }


def planned(laptop: Laptop) -> Mapping[str, Any]:
    said = laptop.rigops("plan", "--json", *INVENTORY)
    assert said.out, said.err
    return only(said)


def assert_it_changes_nothing(laptop: Laptop) -> None:
    plan = planned(laptop)
    assert (plan["status"], plan["changes"], plan["undeclared"]) == ("converged", [], [])


def test_what_init_writes_changes_nothing_and_all_that_is_advised_works(
    laptop: Laptop, host: Host
) -> None:
    path = first_inventory(laptop, host)
    assert_it_changes_nothing(laptop)
    declared = dict(load(path, keys()).hosts[0].data)
    found = remedies(laptop)
    advised = [*suggested(path.read_text()), *found.values()]
    assert advised

    for one in advised:
        laptop.declare({host.name: {**declared, **one}})
        plan = planned(laptop)
        assert plan["blocked"] == [], (one, plan["blocked"])
        assert plan["status"] in {"pending", "converged"}, one

    for one in advised:
        declared.update(one)
    laptop.declare({host.name: declared})
    applied = laptop.rigops("apply", "--yes", "--reboot", "auto", "--json", *INVENTORY, timeout=300)
    assert applied.code in {0, 1}, applied.err  # 1: what the rig's own fault makes of copies
    assert only(applied)["outcome"] == "changed", applied.out

    assert not remedies(laptop).keys() & found.keys()


def test_what_init_writes_of_a_managed_host_changes_nothing(laptop: Laptop, host: Host) -> None:
    before = load(laptop.folder / "inventory.py", keys()).hosts[0].spec

    path = first_inventory(laptop, host)

    assert_it_changes_nothing(laptop)
    assert load(path, keys()).hosts[0].spec == before


def test_of_a_host_that_is_managed_in_part_it_loses_nothing(laptop: Laptop, host: Host) -> None:
    laptop.declare({host.name: {"acs_redirect": "off", "nccl": {"NCCL_DEBUG": "WARN"}}})
    options = ("--only", "base", "--yes", "--reboot", "never", "--preflight", "never")
    assert laptop.rigops("apply", *options, *INVENTORY).code == 0

    first_inventory(laptop, host)

    assert_it_changes_nothing(laptop)
