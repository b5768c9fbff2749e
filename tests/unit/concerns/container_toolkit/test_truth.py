"""Whether the toolkit is as declared has one answer, whether plan or doctor is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.concerns.container_toolkit import NAME, operations
from rigops.concerns.container_toolkit.offers import parse
from rigops.concerns.container_toolkit.operations import ToolkitOffers
from rigops.concerns.container_toolkit.state import CHECK, PACKAGES
from rigops.doctor.registry import examine
from rigops.errors import UsageError
from rigops.facts.sections import GpuPackages, RigopsState
from rigops.packages.records import HOLDS_RECORD, Holds
from rigops.probe.sections import rigops_state
from rigops.probe.sections.packages import Package, Packages
from tests.unit.concerns.asked import FakeHost, by_doctor
from tests.unit.doctor.examining import catalog, check_of, snapshot_of, spec

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

DECLARED: Final = {NAME: "1.18.2"}


def there(version: str = "1.18.2-1", status: str = "hi", **others: str | None) -> Packages:
    """`others`: versions of single packages by their names, with _; None is absent."""
    versions = {name: others.get(name.replace("-", "_"), version) for name in PACKAGES}
    return Packages(
        tuple(Package(name, one, "amd64", status) for name, one in versions.items() if one),
        managers=frozenset({"dpkg"}),
    )


@dataclass(frozen=True)
class Row:
    """`plan`: what is asked of packages and holds, in words."""

    plan: str
    doctor: str
    found: Packages
    declared: Mapping[str, object] = field(default_factory=lambda: DECLARED)
    holds: bool = False

    @property
    def rigops(self) -> rigops_state.RigopsState:
        record = Holds(dict.fromkeys(PACKAGES, NAME)).to_json()
        return rigops_state.RigopsState(records={HOLDS_RECORD: record} if self.holds else {})


ROWS: Final[Mapping[str, Row]] = {
    "as declared": Row("hold", "ok", there()),
    "another build of it": Row("hold", "ok", there("1.18.2-9")),
    "not held": Row("hold", "warn, fix: apply", there(status="ii")),
    "not installed": Row(
        "install, hold", "warn, fix: apply", Packages(managers=frozenset({"dpkg"}))
    ),
    "older": Row("install, hold", "warn, fix: apply", there("1.17.7-1")),
    "newer": Row("install, hold", "warn, fix: apply", there("1.19.0-1")),
    "a release candidate": Row("install, hold", "warn, fix: apply", there("1.18.2~rc.1-1")),
    "one is missing": Row("install, hold", "warn, fix: apply", there(libnvidia_container1=None)),
    "one is older": Row(
        "install, hold", "warn, fix: apply", there(libnvidia_container1="1.17.7-1")
    ),
    "no source has it": Row("blocked", "warn, fix: apply", there("1.17.7-1"), {NAME: "1.18.9"}),
    "another package manager": Row(
        "blocked", "fail, fix: hands", Packages(managers=frozenset({"pacman"}))
    ),
    "unreadable": Row("blocked", "unknown", Packages()),
    "known to be bad": Row("blocked", "fail, fix: hands", there("1.17.7-1"), {NAME: "1.17.7"}),
    "undeclared": Row("release", "ok", there(), {}),
    "undeclared, and held by rigops": Row("release", "info", there(), {}, holds=True),
}


def by_plan(row: Row, patch: pytest.MonkeyPatch) -> str:
    asked: list[str] = []

    def packages_asked(*, install: Mapping[str, str], **_: Any) -> None:
        assert install == dict.fromkeys(PACKAGES, "1.18.2-1")
        asked.append("install")

    def held_asked(*, names: tuple[str, ...], **_: Any) -> None:
        asked.append("hold" if names == PACKAGES else "release")

    offers = parse("".join(f"{name} 1.18.2-1\n" for name in PACKAGES))
    host = FakeHost({GpuPackages: row.found, RigopsState: row.rigops, ToolkitOffers: offers})
    patch.setattr(operations, "host", host)
    patch.setattr(operations, "catalog_of", lambda _: catalog())
    patch.setattr(operations, "headline", lambda *_: None)
    patch.setattr(operations, "packages", packages_asked)
    patch.setattr(operations, "held", held_asked)
    patch.setattr(operations, "blockers", lambda **_: asked.append("blocked"))
    operations.container_toolkit(declared=spec(**row.declared).container_toolkit)
    return ", ".join(asked)


def finding(row: Row) -> Finding:
    snapshot = snapshot_of(packages=row.found, rigops_state=row.rigops)
    (found,) = examine(
        snapshot,
        spec(**row.declared),
        catalog(),
        checks=(check_of(CHECK),),
        concerns=frozenset({NAME}),
    )
    return found


@pytest.mark.parametrize("name", ROWS)
def test_plan_and_doctor_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS[name]

    assert by_plan(row, monkeypatch) == row.plan
    found = finding(row)
    assert ("skipped" if found.status == "skipped" else by_doctor(found)) == row.doctor


def test_a_finding_names_what_is_there_and_what_is_declared() -> None:
    mixed = finding(ROWS["one is older"])

    assert finding(ROWS["older"]).summary == (
        "container toolkit is 1.17.7 (held), declared 1.18.2 (held)"
    )
    assert finding(ROWS["one is missing"]).summary == (
        "container toolkit is 1.18.2 without libnvidia-container1 (held), declared 1.18.2 (held)"
    )
    assert "libnvidia-container1 1.17.7-1" in mixed.summary
    assert finding(ROWS["not installed"]).summary == (
        "container toolkit is not installed, declared 1.18.2 (held)"
    )


def test_a_version_that_is_known_to_be_bad_is_refused_with_its_evidence() -> None:
    found = finding(ROWS["known to be bad"])

    assert "container toolkit 1.17.7 is known to be bad: Containers with cards" in found.summary
    assert "NVIDIA/nvidia-container-toolkit#1091" in found.summary
    assert found.fix is not None
    assert found.fix.text == "declare another version"


@pytest.mark.parametrize("value", ["1.18", "1.18.2-1", "latest", 1.18, "1.18.2 ", "1.18.2; reboot"])
def test_a_value_that_is_no_version_is_refused_with_one_that_is(value: object) -> None:
    with pytest.raises(UsageError, match="not a version of the container toolkit"):
        spec(**{NAME: value})
