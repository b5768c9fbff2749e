"""Which catalogue a deploy judges by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from rigops import catalog
from rigops.driver.request import Refusal, Request
from rigops.driver.resolve import resolve
from rigops.errors import UsageError
from rigops.facts.driver_vault_offers import offers
from rigops.operations.known import catalog_of
from rigops.spec.driver import driver
from tests.own_catalogue import verdict_against
from tests.unit.driver.machines import BOOKWORM, with_cards
from tests.unit.vault.making import index_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyinfra.api.host import Host

VERDICT = verdict_against("535.261.03")


@dataclass
class FakeData:
    declared: dict[str, object]

    def dict(self) -> dict[str, object]:
        return self.declared


@dataclass
class FakeHost:
    data: FakeData


def host(**declared: object) -> Host:
    return cast("Host", FakeHost(FakeData(declared)))


def test_a_host_without_one_of_its_own_is_judged_by_what_is_shipped() -> None:
    assert catalog_of(host(driver="535")) is catalog.load()


@pytest.mark.parametrize("way", ["whole", "from where it is run"])
def test_the_users_own_verdict_refuses_a_driver_with_its_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (tmp_path / "own.toml").write_text(VERDICT)
    monkeypatch.chdir(tmp_path)
    known = catalog_of(host(catalog="own.toml" if way != "whole" else str(tmp_path / "own.toml")))
    machine, request = with_cards(BOOKWORM, "RTX 3090"), Request(wish=driver("535.261.03"))
    every = offers(index_of("535.261.03"))

    found = resolve(machine, request, every, known)

    assert isinstance(found, Refusal)
    assert "our lab book" in str(found)
    assert not isinstance(resolve(machine, request, every, catalog.load()), Refusal)


def test_one_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        catalog_of(host(catalog=str(tmp_path / "none.toml")))
