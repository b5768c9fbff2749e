"""Which catalog a deploy judges by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from rigops import catalog
from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request
from rigops.concerns.nvidia_driver.resolver.resolve import resolve
from rigops.concerns.nvidia_driver.resolver.vault_sets import offers
from rigops.errors import UsageError
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.driver import driver
from rigops.plan.context import provide
from tests.own_catalog import verdict_against
from tests.unit.concerns.nvidia_driver.resolver.machines import BOOKWORM, with_cards
from tests.unit.vault.pinned_sets import index_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyinfra.api.host import Host

VERDICT = verdict_against("535.261.03")


@dataclass
class FakeHost:
    connector_data: dict[str, object] = field(default_factory=dict)


def host(catalog: str | None = None) -> Host:
    found = cast("Host", FakeHost())
    provide(found, RigSpec(catalog=catalog))
    return found


def test_a_host_without_one_of_its_own_is_judged_by_what_is_shipped() -> None:
    assert catalog_of(host()) is catalog.load()


@pytest.mark.parametrize("way", ["whole", "from where it is run"])
def test_the_users_own_verdict_refuses_a_driver_with_its_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (tmp_path / "own.toml").write_text(VERDICT)
    monkeypatch.chdir(tmp_path)
    known = catalog_of(host(catalog="own.toml" if way != "whole" else str(tmp_path / "own.toml")))
    machine, request = with_cards(BOOKWORM, "RTX 3090"), Request(driver=driver("535.261.03"))
    every = offers(index_of("535.261.03"))

    found = resolve(machine, request, every, known)

    assert isinstance(found, Blocker)
    assert "our lab book" in str(found)
    assert not isinstance(resolve(machine, request, every, catalog.load()), Blocker)


def test_one_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the catalog file"):
        catalog_of(host(catalog=str(tmp_path / "none.toml")))
