"""What a deploy collects of its host before it answers which driver that gets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rigops.catalog import load
from rigops.concerns.nvidia_driver import record
from rigops.concerns.nvidia_driver.apt_offers import Offered
from rigops.concerns.nvidia_driver.facts import (
    DriverOffers,
    VaultPool,
    driver_answer,
)
from rigops.concerns.nvidia_driver.resolver.answer import DriverAnswer
from rigops.concerns.nvidia_driver.resolver.driver_facts import VaultAccess
from rigops.concerns.nvidia_driver.resolver.request import Blocker, identity
from rigops.concerns.registry import read
from rigops.facts.sections import OsRelease, RigopsState
from rigops.plan.context import provide
from rigops.probe.sections import os_release
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.vault.store import Store
from tests.unit.concerns.nvidia_driver.resolver.archives import archive
from tests.unit.concerns.nvidia_driver.resolver.choices import RIG, whole
from tests.unit.vault.pinned_sets import pinned_set

if TYPE_CHECKING:
    from pathlib import Path

    from pyinfra.api.host import Host

    from rigops.concerns.nvidia_driver.resolver.machine import Machine

OLD, NOW = "535.183.01", "535.261.03"
SPEC = read({"driver": "535"})
SETS = (pinned_set(NOW), pinned_set(OLD))
LONG = {DriverOffers, VaultPool}


@dataclass
class FakeState:
    is_executing: bool = False


@dataclass
class FakeHost:
    records: dict[str, str] = field(default_factory=dict)
    state: FakeState = field(default_factory=FakeState)
    connector_data: dict[str, Any] = field(default_factory=dict)
    asked: list[type] = field(default_factory=list)

    def get_fact(self, fact: type, **_: object) -> object:
        self.asked.append(fact)
        known: dict[type, object] = {
            DriverOffers: Offered(archive("bookworm")),
            OsRelease: os_release.parse("ID=debian\nVERSION_ID=12\n"),
            RigopsState: StateFacts(records=self.records),
            VaultPool: whole(NOW, OLD),
        }
        return known[fact]


def answered(host: FakeHost, machine: Machine, **declared: object) -> DriverAnswer | Blocker:
    spec = read({"driver": "535", **declared})
    assert spec.driver
    return driver_answer(cast("Host", host), spec, spec.driver, machine, load())


def having(version: str) -> Machine:
    return replace(RIG, installed={one.name: one.version for one in pinned_set(version).packages})


def with_vault(host: FakeHost, folder: Path, *, locked: str = NOW, back: bool = False) -> FakeHost:
    access = VaultAccess(sets=SETS, locked=locked, store=Store(folder), back=back)
    provide(cast("Host", host), access)
    return host


def test_a_driver_that_is_in_place_costs_neither_sources_nor_vault(tmp_path: Path) -> None:
    packages = {"libcuda1": f"{NOW}-1"}
    pinned = record.PinnedDriver(
        version=NOW, flavor="proprietary", declared=identity(SPEC), packages=packages
    )
    host = with_vault(FakeHost({record.PATH: record.document(pinned)}), tmp_path)

    found = answered(host, replace(RIG, installed=packages))

    assert isinstance(found, DriverAnswer)
    assert found.is_settled
    assert not LONG & set(host.asked)


def test_the_vault_is_read_only_where_it_decides(tmp_path: Path) -> None:
    newest, other = (with_vault(FakeHost(), tmp_path, locked=one) for one in (NOW, OLD))

    by_sources, by_vault = answered(newest, RIG), answered(other, RIG)

    assert isinstance(by_sources, DriverAnswer)
    assert isinstance(by_vault, DriverAnswer)
    assert (by_sources.from_vault, by_vault.resolution.version) == (None, OLD)
    assert VaultPool not in newest.asked
    assert VaultPool in other.asked


def test_without_rigops_no_vault_is_used_and_no_folder_of_this_machine(tmp_path: Path) -> None:
    host = FakeHost()

    found = answered(host, RIG, driver_source=f"dir:{tmp_path}")

    assert "plain pyinfra cannot bring packages" in str(found)


@pytest.mark.parametrize("is_executing", [True, False])
def test_only_the_run_that_installs_it_fixes_the_target_of_a_rollback(
    tmp_path: Path, *, is_executing: bool
) -> None:
    """A plan may be made before the host's packages are known."""
    host = with_vault(FakeHost(), tmp_path, back=True)
    host.state.is_executing = is_executing
    answered(host, RIG)

    found = answered(host, having(NOW))

    assert isinstance(found, DriverAnswer)
    assert found.resolution.version == (NOW if is_executing else OLD)
