"""Doctor says apply of the driver if and only if plan changes it, or a reboot brings it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rigops.concerns.nvidia_driver import apt_offers, from_bundle, record
from rigops.concerns.nvidia_driver.facts import DriverOffers
from rigops.concerns.nvidia_driver.modules import HOOKS, PROGRAM
from rigops.concerns.nvidia_driver.pin import PREFERENCES
from rigops.concerns.nvidia_driver.resolver.options import choose
from rigops.concerns.nvidia_driver.resolver.request import identity
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.fact_cache import FactCache
from rigops.doctor.registry import examine
from rigops.facts.files import FileAt
from rigops.facts.sections import SectionFact
from rigops.hostside.packing import MODE
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.packages.apt_simulated import Simulated
from rigops.packages.dpkg import DpkgState, Entry
from rigops.packages.facts import AptWould, Dpkg
from rigops.plan.change import Package
from rigops.plan.context import Consent
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.sections.rigops_state import OWNED_FILES, RECORD
from rigops.probe.snapshot import HostSnapshot
from rigops.transport import Privilege
from tests.unit.cli.test_host_drivers import TEXTS, driver, offers
from tests.unit.concerns.nvidia_driver.test_deploy import DEPLOY
from tests.unit.converge.fakes import FakeHost
from tests.unit.doctor.examining import catalog, checks_of, spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.finding import Finding, Fix
    from rigops.plan.change import Plan

OLDER: Final = "535.171.04"
NEWER: Final = "535.183.01"
OTHER: Final = "580.178.04"
NVRM: Final = "NVRM version: NVIDIA UNIX x86_64 Kernel Module"
HEADERS: Final = ("linux-headers-6.8.0-31-generic",)
PURGED: Final = ("linux-headers-6.8.0-30-generic",)
HALF_A_TOOL: Final = ("nvidia-persistenced", f"{OLDER}-1", "hU")
RIVAL: Final = ("nvidia-compute-utils-580", f"{OTHER}-0ubuntu2", "hi")
NAMES: Final = ("dkms", "headless", "utils")
CHECKS: Final = checks_of("drv.pin", "drv.loaded", "drv.mismatch", "pkg.hold", "rigops.files")


def packages_of(version: str) -> dict[str, str]:
    build = f"{version}-0ubuntu2"
    return {f"nvidia-{one}-{version[:3]}": build for one in NAMES} if version else {}


@dataclass(frozen=True)
class Row:
    """`pin`: of the version in the record; `recorded`: none where rigops was never here.

    `also`: what the record has beside the driver's own packages, where `has_also` is installed.
    `is_half`: the last package of the driver is unpacked, and no more. `beside`: packages beside
    it, each with its version and as dpkg abbreviates its state.
    """

    declared: str = "535"
    installed: str = OLDER
    recorded: str = OLDER
    held: int = len(NAMES)
    pin: str = "whole"
    loaded: str = OLDER
    offered: tuple[str, ...] = (OLDER, NEWER, OTHER)
    also: tuple[str, ...] = ()
    has_also: bool = True
    is_half: bool = False
    beside: tuple[tuple[str, str, str], ...] = ()

    @property
    def keys(self) -> dict[str, object]:
        return {"driver": self.declared} if self.declared else {}

    @property
    def taken(self) -> str:
        """The declaration that the recorded version was resolved from."""
        is_of_it = self.declared and self.recorded.startswith(self.declared)
        return self.declared if is_of_it else self.recorded[:3]

    @property
    def files(self) -> Mapping[str, str]:
        return written(self.taken, self.recorded) if self.recorded else {}

    def is_there(self, at: int) -> str:
        """As dpkg abbreviates it."""
        return "U" if self.is_half and at == len(NAMES) - 1 else "i"

    @property
    def texts(self) -> dict[str, str]:
        rows = "".join(
            f"{name}\t{its}\tamd64\t{'hi'[at >= self.held]}{self.is_there(at)} \tnvidia\n"
            for at, (name, its) in enumerate(packages_of(self.installed).items())
        )
        rows += "".join(f"{one}\t1\tall\tii \tlinux\n" for one in self.also if self.has_also)
        rows += "".join(f"{name}\t{its}\tamd64\t{how} \tx\n" for name, its, how in self.beside)
        module = f"filename: /lib/modules/nvidia.ko\nversion: {self.installed}\n"
        text = self.files.get(PREFERENCES, "") if self.pin == "whole" else ""
        return {
            **TEXTS,
            "packages": f"{TEXTS['packages']}{rows}",
            "package-holds": f"== {PREFERENCES}\n{text}\n== dpkg-query -W held\n",
            "processes": "== ls -l /proc/[0-9]*/fd\n",
            "bootloader": "== ls /boot\nvmlinuz-6.8.0-31-generic\n",
            "nvidia-version": f"{NVRM}  {self.loaded}  Thu Nov 16\n" if self.loaded else "",
            "nvidia-modinfo": f"== modinfo nvidia\n{module}" if self.installed else "",
            "driver-offers": offers(
                *(one for its in self.offered for one in driver(its[:3], f"{its}-0ubuntu2"))
            ),
            "rigops-state": self.state,
        }

    @property
    def state(self) -> str:
        """The record, and the files that a plan with nothing but it writes."""
        owned, there = {}, ""
        for path, text in self.files.items():
            its = text.split()[1] if path == PROGRAM else sha256(text.encode()).hexdigest()
            mode = MODE if path in {PROGRAM, *HOOKS} else 0o644
            owned[path] = OwnedFile(path=path, concern="nvidia_driver", digest=its, mode=mode)
            if path != PREFERENCES or self.pin == "whole":
                there += f"{0o100000 | mode:x} 0:0 {its} {path}\n"
            elif self.pin == "changed":
                there += f"81a4 0:0 {'b' * 64} {path}\n"
        pinned = recorded(self.taken, self.recorded, self.also) if self.recorded else ""
        return f"== {RECORD}\n{Ownership(owned).to_json()}\n{pinned}== {OWNED_FILES}\n{there}"


@dataclass
class Known(FactCache):
    """Sections are parsed from these texts, and apt does what it is asked for."""

    row: Row
    texts: Mapping[str, str]

    def __post_init__(self) -> None:
        super().__init__()

    def get(self, fetch: Any, fact: Any, args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
        there = packages_of(self.row.installed)
        if fact is DriverOffers:
            return apt_offers.parse(self.texts[apt_offers.NAME])
        if fact is Dpkg:
            entries = tuple(
                Entry(name, "amd64", its, self.row.is_there(at), held=at < self.row.held)
                for at, (name, its) in enumerate(there.items())
            )
            entries += tuple(
                Entry(name, "amd64", its, how[1]) for name, its, how in self.row.beside
            )
            return DpkgState(manager="apt", architecture="amd64", entries=entries)
        if fact is AptWould:
            words = (word.partition("=") for word in kwargs["words"])
            there |= {f"{name}-": its for name, its, _ in self.row.beside}
            steps = tuple(
                Package(name.rstrip("-"), there.get(name), None if name[-1] == "-" else its or "1")
                for name, _, its in words
            )
            return Simulated(done=True, steps=steps, printed=("Inst",))
        if fact is FileAt:
            return None
        if issubclass(fact, SectionFact):
            return fact.section.parse(self.texts.get(fact.section.name, ""))
        return super().get(fetch, fact, args, kwargs)


def planned(row: Row, texts: Mapping[str, str]) -> Plan:
    engine = Engine({"rig": row.keys})
    engine.attach("rig", HostChannel(FakeHost(), Privilege("root"), cache=Known(row, texts)), [])
    return engine.plan("rig", [DEPLOY], consent=Consent(removals=()))


def recorded(declared: str, version: str, also: tuple[str, ...] = ()) -> str:
    """As apply writes it."""
    packages = packages_of(version)
    driver = record.PinnedDriver(
        version=version,
        flavor="proprietary",
        declared=identity(spec(driver=declared)),
        packages=packages,
        sources={name: (its,) for name, its in packages.items()},  # none names another
        asked=tuple(packages),
        also=also,
    )
    return f"== {record.PATH}\n{record.document(driver)}\n"


@cache
def written(declared: str, version: str) -> dict[str, str]:
    """The files that a host with this driver and its record alone would be given."""
    row = Row(declared, version, "", loaded=version)
    alone = f"{recorded(declared, version)}== {OWNED_FILES}\n"
    plan = planned(row, {**row.texts, "rigops-state": alone})
    return {one.subject: one.after or "" for one in plan.changes if one.kind == "file"}


def by_plan(row: Row) -> str:
    plan = planned(row, row.texts)
    is_changed = plan.changes or plan.packages
    word = "change" if is_changed else "reboot" if plan.reboot_reasons else "no change"
    return "blocked" if plan.blocked else word


def by_doctor(row: Row) -> tuple[bool, list[Fix]]:
    """Whether apply has something to do as it is declared, and every fix."""
    fixes = [one.fix for one in findings(row) if one.fix]
    return any(one.by_apply and one.is_declared for one in fixes), fixes


def findings(row: Row) -> list[Finding]:
    sections = {name: Collected(text, root=True) for name, text in row.texts.items()}
    bundle, declared = Bundle("rig", None, root=True, sections=sections), spec(**row.keys)
    facts = from_bundle.driver_facts(bundle, catalog(), declared)
    return examine(
        HostSnapshot(bundle), declared, catalog(), checks=CHECKS,
        concerns=frozenset({"nvidia_driver"}),
        choose_driver=lambda: choose(facts, date(2026, 11, 22)),
    )  # fmt: skip


ROWS: Final = {
    "pinned, held and loaded": (Row(), "no change"),
    "held by a person, and never pinned": (Row(recorded=""), "change"),
    "one package is pinned, and not held": (Row(held=2), "change"),
    "the pin is gone": (Row(pin="missing"), "change"),
    "the pin was changed": (Row(pin="changed"), "change"),
    "another version is installed than pinned": (Row(installed=NEWER, loaded=NEWER), "change"),
    "the version before is loaded": (Row(loaded=NEWER), "reboot"),
    "another version is pinned than declared, and one that fits is still loaded": (
        Row(installed=OTHER, recorded=OTHER, offered=(OLDER,)), "change"
    ),
    "what the driver is built with is there": (Row(also=HEADERS), "no change"),
    "what the driver is built with is gone": (Row(also=HEADERS, has_also=False), "change"),
    "what the driver was built with has gone with its kernel": (
        Row(also=PURGED, has_also=False), "no change"
    ),
    "a package of it is unpacked, and no more": (Row(is_half=True), "change"),
    "a tool of it is unpacked, and no more": (Row(beside=(HALF_A_TOOL,)), "change"),
    "a package of another driver is beside it": (
        Row(recorded="", offered=(OLDER,), beside=(RIVAL,)), "change"
    ),
    "no source has it": (Row(declared="580", offered=(OLDER,)), "blocked"),
    "no source has it, and it is not held": (Row(declared="580", offered=(), held=0), "blocked"),
    "no longer declared": (Row(declared="", pin="missing", held=0), "no change"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_plan_and_doctor_agree(name: str) -> None:
    row, expected = ROWS[name]

    is_for_apply, fixes = by_doctor(row)

    assert (by_plan(row), is_for_apply) == (expected, expected in {"change", "reboot"})
    says_why = any("sources of this machine" in one.text or one.declare for one in fixes)
    assert says_why or expected != "blocked"


def test_a_package_of_another_driver_goes() -> None:
    row, _ = ROWS["a package of another driver is beside it"]

    assert [one.name for one in planned(row, row.texts).packages.remove] == [RIVAL[0]]


@pytest.mark.parametrize(
    ("name", "status", "kind", "says"),
    [
        ("held by a person, and never pinned", "info", "apply", "pins"),
        ("one package is pinned, and not held", "warn", "apply", "pins"),
        ("no source has it, and it is not held", "warn", "hands", "sources of this machine"),
        ("what the driver is built with is gone", "warn", "apply", f"installs {HEADERS[0]}"),
    ],
)
def test_what_is_not_as_pinned_and_held_is_grave_unless_a_person_holds_it(
    name: str, status: str, kind: str, says: str
) -> None:
    (found,) = [one for one in findings(ROWS[name][0]) if one.id == "pkg.hold"]

    assert found.fix
    assert (found.status, found.fix.kind, says in found.fix.text) == (status, kind, True)


# Not generated: a module that is still loaded while its packages are gone, which doctor does not
# tell from a driver of no package; jobs on the cards, which block a plan and no advice.
_VERSION: Final = some.sampled_from([OLDER, NEWER, OTHER])


@given(
    some.builds(
        Row,
        declared=some.sampled_from(["535", OLDER, NEWER, "580", ""]),
        installed=_VERSION | some.just(""),
        recorded=_VERSION | some.just(""),
        held=some.integers(0, len(NAMES)),
        pin=some.sampled_from(["whole", "missing", "changed"]),
        loaded=_VERSION | some.just(""),
        offered=some.sets(_VERSION).map(tuple),
        also=some.sampled_from([(), HEADERS, PURGED, (*HEADERS, *PURGED)]),
        has_also=some.booleans(),
        is_half=some.booleans(),
        beside=some.sampled_from([(), (HALF_A_TOOL,)]),
    ).filter(lambda row: row.installed or not row.loaded)
)
def test_doctor_says_apply_if_and_only_if_plan_or_a_reboot_changes_something(row: Row) -> None:
    assert by_doctor(row)[0] == (by_plan(row) in {"change", "reboot"})
