"""What the operation makes of a host's answers, with a host that only answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rigops.facts.sections import RigopsState
from rigops.packages.apt_simulated import Simulated
from rigops.packages.dpkg import DpkgState, Entry, Holder
from rigops.packages.facts import Dpkg
from rigops.packages.installing import Installing
from rigops.packages.operations import _answer, _Asked, changes
from rigops.packages.records import WORK_RECORD, OwnedPackage, OwnedPackages, PackageWork
from rigops.packages.request import FINISH, PackageRequest
from rigops.plan.change import Package, Repair
from rigops.plan.context import Consent, context_of, plan_of
from rigops.probe.sections import rigops_state

if TYPE_CHECKING:
    from pyinfra.api.host import Host

BARE = DpkgState(manager="apt", architecture="amd64")
NEW = Simulated(
    done=True,
    steps=(Package("new", None, "1"), Package("lib", None, "2"), Package("rival", "1", None)),
    printed=("Inst lib (2)", "Inst new (1)", "Remv rival [1]"),
)
ASKED = _Asked(
    concern="demo",
    request=PackageRequest({"new": None}),
    change_held=frozenset(),
    repair=False,
    lock_wait_s=5,
)


@dataclass
class Machine:
    dpkg: DpkgState = BARE
    apt: Simulated = NEW
    state: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(is_executing=False))
    connector_data: dict[str, Any] = field(default_factory=dict)
    current_op_hash: str | None = "packages"
    work: PackageWork | None = None

    def get_fact(self, fact: type, **asked: object) -> object:
        if fact is RigopsState:
            records = {WORK_RECORD: self.work.to_json()} if self.work else {}
            return rigops_state.RigopsState(records=records)
        return self.dpkg if fact is Dpkg else self.apt

    @property
    def host(self) -> Host:
        return cast("Host", self)

    def plan(self, asked: _Asked = ASKED) -> Installing | str | None:
        self.state.is_executing = False
        context_of(self.host).shown = None
        answer = _answer(self.host, asked)
        context_of(self.host).shown = plan_of(self.host)
        return answer

    def apply(self, asked: _Asked = ASKED) -> Installing | str | None:
        self.state.is_executing = True
        return _answer(self.host, asked)


def test_what_the_plan_showed_is_done_and_whose_it_is_will_be_written_down() -> None:
    machine = Machine()

    shown = machine.plan()
    done = machine.apply()

    assert isinstance(done, Installing)
    assert done == shown
    assert done.printed == NEW.printed
    assert done.record_before is not None
    assert list(OwnedPackages.parse(done.record_before).packages.values()) == [
        OwnedPackage("lib", "demo", asked=False),
        OwnedPackage("new", "demo", asked=True),
    ]
    assert done.record_after is None
    assert plan_of(machine.host).packages_by["demo"].remove[0] == Package("rival", "1", None)


def test_what_the_plan_did_not_show_is_refused() -> None:
    machine = Machine()
    machine.plan()
    machine.apt = replace(NEW, steps=(*NEW.steps, Package("other", "1", None)))

    assert "the plan did not show" in str(machine.apply())


def test_what_was_blocked_in_the_plan_is_not_done_because_it_could_be_by_now() -> None:
    machine = Machine(apt=Simulated())
    machine.plan()
    machine.apt = NEW

    assert "the plan did not show" in str(machine.apply())


def test_less_than_the_plan_showed_is_in_order_and_so_is_no_plan_at_all() -> None:
    machine = Machine()
    machine.plan()
    machine.apt = replace(NEW, steps=NEW.steps[:1], printed=NEW.printed[1:2])

    assert isinstance(machine.apply(), Installing)
    assert isinstance(Machine().apply(), Installing)


def test_a_met_request_asks_apt_nothing() -> None:
    met = replace(BARE, entries=(Entry("new", "all", "7", "i"),))

    assert Machine(dpkg=met, apt=Simulated()).plan() is None


def test_unfinished_packages_are_in_the_way_unless_they_may_be_repaired() -> None:
    machine = Machine(dpkg=replace(BARE, unfinished=(Entry("x", "all", "1", "F"),)))

    refused = machine.plan()
    offered = plan_of(machine.host).repairs
    repaired = machine.plan(replace(ASKED, repair=True))

    broken = "dpkg did not finish with x (half-configured)"
    assert offered == (Repair(broken, "dpkg --configure -a", agreed=False),)
    assert refused == "dpkg did not finish with x (half-configured): sudo dpkg --configure -a"
    assert isinstance(repaired, Installing)
    assert repaired.repairs


def test_who_agreed_to_the_repair_need_not_have_said_so_in_the_deploy() -> None:
    machine = Machine(dpkg=replace(BARE, interrupted=True))
    context_of(machine.host).consent = Consent(repair=True)

    repaired = machine.plan()

    assert isinstance(repaired, Installing)
    assert repaired.repairs
    assert plan_of(machine.host).repairs == (
        Repair("dpkg was interrupted", "dpkg --configure -a", agreed=True),
    )


WORK = PackageWork((Package("new", None, "1"), Package("lib:i386", "1", "2")))
OURS = (
    Entry("new", "all", "1", "U"),
    Entry("lib", "i386", "1", "H"),
    Entry("man", "all", "7", "t"),
)


def test_what_our_own_run_was_cut_off_in_is_finished_and_shown_without_further_consent() -> None:
    machine = Machine(dpkg=replace(BARE, unfinished=OURS, interrupted=True), work=WORK)

    found = machine.plan()

    assert isinstance(found, Installing)
    assert found.repairs
    (repair,) = plan_of(machine.host).repairs
    assert (repair.command, repair.agreed) == (FINISH, True)
    assert plan_of(machine.host).packages_by["demo"].every == set(WORK.packages)


IN_TRIGGER = Entry("initramfs-tools", "all", "0.142", "F", configured="0.142")


def test_a_trigger_that_our_own_run_was_cut_off_in_is_finished_where_all_else_is_as_declared() -> (
    None
):
    there = (Entry("new", "all", "7", "i"),)
    machine = Machine(dpkg=replace(BARE, entries=there, unfinished=(IN_TRIGGER,)), work=WORK)

    found = machine.plan()

    assert isinstance(found, Installing)
    assert found.repairs
    (repair,) = plan_of(machine.host).repairs
    assert (repair.command, repair.agreed) == (FINISH, True)
    machine.work = None  # somebody else's: what is declared is there
    assert machine.plan() is None


@pytest.mark.parametrize(
    ("work", "foreign"),
    [
        pytest.param(WORK, Entry("x", "all", "1", "F"), id="beside ours, another package"),
        pytest.param(WORK, Entry("new", "all", "9", "U"), id="another version of ours"),
        pytest.param(None, Entry("new", "all", "1", "U"), id="the declared one, without a run"),
    ],
)
def test_what_somebody_else_was_cut_off_in_needs_consent_of_its_own(
    work: PackageWork | None, foreign: Entry
) -> None:
    machine = Machine(dpkg=replace(BARE, unfinished=(*OURS, foreign)), work=work)

    refused = machine.plan()

    assert foreign.name in str(refused)
    assert "sudo dpkg --configure -a" in str(refused)
    assert [repair.agreed for repair in plan_of(machine.host).repairs] == [False]


def test_consent_to_a_repair_is_for_what_the_plan_named() -> None:
    machine = Machine(dpkg=replace(BARE, unfinished=(Entry("x", "all", "1", "F"),)))
    context_of(machine.host).consent = Consent(repair=True)
    machine.plan()
    machine.dpkg = replace(BARE, unfinished=(Entry("y", "all", "1", "F"),))

    refused = machine.apply()

    assert "y (half-configured), and the plan did not show that" in str(refused)


def test_a_damaged_note_of_package_work_is_in_the_way() -> None:
    machine = Machine(dpkg=replace(BARE, interrupted=True), work=cast("PackageWork", Damaged()))

    assert WORK_RECORD in str(machine.plan())


class Damaged:
    def to_json(self) -> str:
        return "{"


def test_a_repair_that_is_all_there_is_to_do_is_done() -> None:
    machine = Machine(dpkg=replace(BARE, interrupted=True), apt=Simulated(done=True))
    context_of(machine.host).consent = Consent(repair=True)

    repaired = machine.plan(replace(ASKED, request=PackageRequest({"new": None})))

    assert isinstance(repaired, Installing)
    assert (repaired.repairs, repaired.printed) == (True, ())


def test_packages_that_configuring_does_not_cure_are_not_offered_for_repair() -> None:
    damaged = Entry("x", "all", "1", "H", must_be_reinstalled=True)
    machine = Machine(dpkg=replace(BARE, unfinished=(damaged,)))
    context_of(machine.host).consent = Consent(repair=True)

    assert "--reinstall x" in str(machine.plan())
    assert not plan_of(machine.host).repairs


def test_what_somebody_has_just_begun_is_no_fault_and_is_waited_for() -> None:
    busy = replace(
        BARE, unfinished=(Entry("x", "all", "1", "U"),), holder=Holder(7, "unattended-upgrade")
    )
    machine = Machine(dpkg=busy)

    shown = machine.plan()

    assert isinstance(shown, Installing)
    assert not shown.repairs
    assert "unattended-upgrade (process 7)" in plan_of(machine.host).notices[0][1]


def test_a_damaged_record_is_in_the_way() -> None:
    assert "packages.json" in str(Machine(dpkg=replace(BARE, owned="{")).plan())


def test_an_owned_package_that_goes_leaves_the_record() -> None:
    owned = OwnedPackages().having([OwnedPackage("rival", "demo", asked=True)]).to_json()
    done = Machine(dpkg=replace(BARE, owned=owned)).plan()

    assert isinstance(done, Installing)
    assert done.record_after is not None
    assert "rival" not in OwnedPackages.parse(done.record_after).packages


def test_steps_are_told_by_what_they_do() -> None:
    found = changes([
        Package("a", None, "1"), Package("b", "1", None),
        Package("c", "2", "10"), Package("d", "10", "2"),
    ])  # fmt: skip

    assert [one.name for one in found.install] == ["a"]
    assert [one.name for one in found.remove] == ["b"]
    assert [one.name for one in found.upgrade] == ["c"]
    assert [one.name for one in found.downgrade] == ["d"]
