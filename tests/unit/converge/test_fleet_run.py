"""In which order hosts are changed and rebooted, and whom one's trouble stops."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rigops.concerns.concern import HostRequest
from rigops.converge.fleet_run import FleetRun
from rigops.converge.host_run import HostRun
from rigops.converge.result import HostResult
from rigops.inventory.spec import RigSpec
from rigops.preflight.found import HostFound
from rigops.transport import LOCAL, Target
from tests.unit.converge.fakes import run_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.converge.session import HostSession

TARGET = Target(name="rig")


@dataclass
class Fake(HostRun):
    """Needs a reboot, and comes through it unless told otherwise. Records what it does."""

    name: str
    told: list[str]
    target: Target = TARGET
    fails: bool = False
    proof: str = ""
    held_back: bool = False
    id_of_boot: str = ""
    result: HostResult = field(init=False)

    def __post_init__(self) -> None:
        self.request = HostRequest(self.name, self.target, {}, RigSpec())
        self._session = cast(
            "HostSession", SimpleNamespace(touched=True, stage_now="reboot", rebooted=False)
        )
        self.result = HostResult(self.name, reboot_reasons=("the kernel does not run with a yet",))

    @property
    def boot_id(self) -> str:
        return self.id_of_boot or self.name

    @contextmanager
    def keep_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        self.result.outcome = "failed"
        super().fail(error)

    def plan(self) -> None: ...
    def renew(self) -> None: ...

    def change(self) -> None:
        self.result.outcome = "reboot_owed"

    def restart(self) -> None:
        self.told.append(self.name)
        if self.held_back:
            return
        self._session.rebooted = True
        if self.fails:
            raise RuntimeError("it did not come back")
        self.result.outcome = "changed"

    def prove(self) -> None:
        if self.proof:
            self.result.preflight = HostFound(host=self.name, status=self.proof)

    def record(self) -> None: ...


def carried_out(rigs: list[Fake], *, at_once: int = 1) -> FleetRun:
    apply = FleetRun([], replace(run_options(), serial=at_once))
    apply.runs = list(rigs)
    apply.carry_out({rig.name for rig in rigs})
    return apply


def rigs(told: list[str], **special: dict[str, Any]) -> list[Fake]:
    return [Fake(name, told, **special.get(name, {})) for name in ("a", "b", "c", "d")]


def outcomes(hosts: list[Fake]) -> list[str]:
    return [host.result.outcome for host in hosts]


def test_the_first_is_rebooted_alone_and_then_so_many_at_once() -> None:
    told: list[str] = []
    hosts = rigs(told)

    carried_out(hosts, at_once=3)

    assert told[0] == "a"
    assert sorted(told) == ["a", "b", "c", "d"]
    assert set(outcomes(hosts)) == {"changed"}


def test_a_first_that_does_not_come_through_spares_the_others_and_they_say_why() -> None:
    told: list[str] = []
    hosts = rigs(told, a={"fails": True})

    carried_out(hosts)

    assert told == ["a"]
    assert outcomes(hosts) == ["failed", "reboot_owed", "reboot_owed", "reboot_owed"]
    assert all("since a did not come through" in host.result.story[-1] for host in hosts[1:])
    assert {host.result.waits_for for host in hosts[1:]} == {"a"}


def test_a_first_whose_proof_fails_spares_the_others_and_they_say_that() -> None:
    hosts = rigs([], a={"proof": "fail"})

    carried_out(hosts)

    assert [host.result.exit_code for host in hosts] == [1, 0, 0, 0]
    assert {host.result.story[-1] for host in hosts[1:]} == {
        "not rebooted, since a failed its proof"
    }
    assert hosts[1].result.as_json()["waits_for"] == "a"


def test_a_later_one_that_fails_is_its_own_trouble() -> None:
    told: list[str] = []
    hosts = rigs(told, b={"fails": True})

    carried_out(hosts)

    assert outcomes(hosts) == ["changed", "failed", "changed", "changed"]


def test_one_that_was_held_back_has_tried_nothing_so_the_next_goes_first() -> None:
    told: list[str] = []
    hosts = rigs(told, a={"held_back": True}, b={"fails": True})

    carried_out(hosts)

    assert told == ["a", "b"]
    assert outcomes(hosts) == ["reboot_owed", "failed", "reboot_owed", "reboot_owed"]


@pytest.mark.parametrize("place", ["a", "b"])
def test_this_machine_is_rebooted_after_all_others(place: str) -> None:
    told: list[str] = []

    carried_out(rigs(told, **{place: {"target": LOCAL}}))

    assert told[-1] == place
    assert len(told) == 4


def test_two_names_of_one_machine_are_both_refused() -> None:
    hosts = rigs([], a={"id_of_boot": "one"}, c={"id_of_boot": "one"})
    apply = FleetRun([], run_options())
    apply.runs = list(hosts)

    apply.plan()

    refused = [host for host in hosts if host.result.error is not None]
    assert [host.name for host in refused] == ["a", "c"]
    assert all("a and c are the same machine" in str(host.result.error) for host in refused)
