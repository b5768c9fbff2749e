"""The acs deploy, planned and applied by the engine, from what the host's ports say."""

from __future__ import annotations

import shlex
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rigops import assets
from rigops.concerns.acs import operations
from rigops.concerns.acs.operations import PROGRAM, UNIT, Acs
from rigops.hostside.packing import pack
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.plan.change import Change
from rigops.plan.context import Consent
from rigops.probe.sections.bootloader import Bootloader
from rigops.probe.sections.rigops_state import OwnedUnit, Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.rendering import render
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import NO_JOBS, boot_facts, engine_of, guarded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.plan.change import Plan

DEPLOY = assets.find("deploys") / "acs.py"
UNIT_PATH = SYSTEM_UNITS + UNIT
REDIRECTING = "gpus 2\nport 0000:00:03.1 001d\nport 0000:40:01.3 001d\n"
CLEARED = "gpus 2\nport 0000:00:03.1 0011 001d\nport 0000:40:01.3 0011 001d\n"
VFIO = "0000:0b:00.0 vendor=0x10de device=0x2204 class=0x030000 driver=vfio-pci\n"
JOB = f"{NO_JOBS}\npid=4711 comm=python3\n"
RUNNING = OwnedUnit(active="active", enabled="enabled")


def owning(unit: OwnedUnit = RUNNING) -> StateFacts:
    """A host on which everything of the concern is as it should be."""
    wanted = {
        PROGRAM: (pack("acs").text, 0o755),
        UNIT_PATH: (
            render("rigops-acs.service.j2", program=PROGRAM, state="/var/lib/rigops"),
            0o644,
        ),
    }
    present = {
        path: Present(sha256(text.encode()).hexdigest(), mode)
        for path, (text, mode) in wanted.items()
    }
    files = {
        path: OwnedFile(path=path, concern="acs", digest=one.digest, mode=one.mode)
        for path, one in present.items()
    }
    return StateFacts(owned=Ownership(files).to_json(), present=present, units={UNIT: unit})


class Rig:
    def __init__(
        self,
        redirect: str | None,
        said: str,
        *,
        state: StateFacts | None = None,
        virtualization: str = "none",
        jobs: str = NO_JOBS,
        functions: str = "",
    ) -> None:
        self.host = FakeHost()
        known = boot_facts(Bootloader(), state, virtualization=virtualization)
        self.engine = engine_of(
            self.host,
            {} if redirect is None else {"acs_redirect": redirect},
            known | guarded(pci=functions, processes=jobs) | {Acs: operations.parse(said)},
            [PROGRAM, UNIT_PATH],
        )

    def plan(self, *, removals: tuple[str, ...] | None = None) -> Plan:
        return self.engine.plan("rig", [DEPLOY], consent=Consent(removals=removals))

    def script(self, *, removals: tuple[str, ...] = ()) -> str:
        """What the host is told to do, all of it in one exec."""
        self.engine.apply("rig", [DEPLOY], consent=Consent(removals=removals))
        (sent,) = self.host.sent
        return sent.stdin


def settings(planned: Plan) -> Mapping[str, str]:
    return {
        one.subject: f"{(one.before or '').split()[1]} -> {(one.after or '').split()[1]}"
        for one in planned.changes
        if one.kind == "setting"
    }


def subjects(planned: Plan) -> set[str]:
    return {one.subject for one in planned.changes}


def reasons(planned: Plan) -> list[str]:
    return [reason for _, reason in planned.blocked]


def notices(planned: Plan) -> list[str]:
    return [text for _, text in planned.notices]


def test_the_plan_has_the_files_and_the_word_that_each_port_gets() -> None:
    planned = Rig("off", REDIRECTING).plan()

    assert settings(planned) == {"0000:00:03.1": "001d -> 0011", "0000:40:01.3": "001d -> 0011"}
    assert planned.headlines == (("acs", "no ACS redirection on 2 ports"),)
    before = "ACSCtl 001d (SrcValid, ReqRedir, CmpltRedir, UpstreamFwd)\n"
    after = "ACSCtl 0011 (SrcValid, UpstreamFwd)\n"
    assert Change("acs", "setting", "0000:00:03.1", before, after) in planned.changes
    assert {PROGRAM, UNIT_PATH} < subjects(planned)
    (program,) = (one.after for one in planned.changes if one.subject == PROGRAM)
    assert program == f"sha256 {pack('acs').digest}\n"  # pages of sh would hide the ports


def test_the_program_says_what_it_cannot_clear_before_the_unit_only_fails() -> None:
    script = Rig("off", REDIRECTING).script()

    assert script.index(f"\n{PROGRAM} off\n") < script.index(f"\nrestart {UNIT}\n")


def test_a_host_where_all_is_as_declared_is_asked_and_told_nothing() -> None:
    rig = Rig("off", CLEARED, state=owning())

    assert (rig.plan().pending, rig.plan().headlines) == (False, ())
    assert rig.host.sent == []


def test_a_host_where_nothing_is_declared_or_owned_is_left_alone() -> None:
    assert not Rig(None, REDIRECTING).plan().pending
    assert not Rig("keep", REDIRECTING).plan().pending


def test_a_bit_that_is_set_again_is_a_change_of_that_port_alone() -> None:
    said = "gpus 2\nport 0000:00:03.1 0015 001d\nport 0000:40:01.3 0011 001d\n"

    rig = Rig("off", said, state=owning())

    assert subjects(rig.plan()) == {"0000:00:03.1"}
    assert f"\nrestart {UNIT}\n" in rig.script()  # of which the journal says that it held
    with pytest.raises(AssertionError):
        rig.plan()  # it reads the ports again, and this host knows no answer


def test_a_unit_that_failed_at_boot_is_tried_again() -> None:
    failed = owning(OwnedUnit(active="failed", enabled="enabled"))

    assert subjects(Rig("off", CLEARED, state=failed).plan()) == {UNIT_PATH}


def test_ports_that_are_clear_today_get_the_unit_for_the_next_boot() -> None:
    said = "gpus 2\nport 0000:00:03.1 0011\nport 0000:40:01.3 0000\n"

    assert subjects(Rig("off", said).plan()) == {PROGRAM, UNIT_PATH}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("gpus 1\n", "fewer than two NVIDIA GPUs"),
        ("gpus 0\n", "fewer than two NVIDIA GPUs"),
        ("gpus 2\n", "no port between the cards has ACS"),
        ("gpus 2\nport 0000:00:03.1 none\n", "no port between the cards has ACS"),
    ],
)
def test_where_nothing_is_to_be_cleared_it_is_said_and_nothing_is_installed(
    said: str, why: str
) -> None:
    planned = Rig("off", said).plan()

    assert not planned.pending
    assert not planned.blocked
    (told,) = notices(planned)
    assert why in told


def test_a_card_that_is_lost_for_a_while_takes_nothing_back() -> None:
    planned = Rig("off", "gpus 1\n", state=owning()).plan()

    assert not planned.pending
    assert not planned.notices


def test_a_virtual_machine_is_told_where_it_has_to_be_done() -> None:
    rig = Rig("off", REDIRECTING, virtualization="kvm")
    planned = rig.plan()

    (reason,) = reasons(planned)
    assert "virtual machine (kvm)" in reason
    assert not planned.changes


def test_a_container_has_the_ports_of_its_machine() -> None:
    assert not Rig("off", REDIRECTING, virtualization="systemd-nspawn").plan().blocked


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (f"{REDIRECTING}lockdown\n", "the kernel is locked down"),
        ("gpus 2\nport 0000:00:03.1 unreadable\n", "configuration of 0000:00:03.1 cannot be read"),
        ("garbage\n", "could not be read"),
    ],
)
def test_what_cannot_be_done_stands_in_the_way_and_changes_nothing(said: str, why: str) -> None:
    planned = Rig("off", said, state=owning()).plan()

    (reason,) = reasons(planned)
    assert why in reason
    assert not planned.changes


def test_who_gives_cards_to_virtual_machines_is_warned() -> None:
    told = " ".join(notices(Rig("off", REDIRECTING, functions=VFIO).plan()))

    assert "GPU 0000:0b:00.0 bound to vfio-pci" in told
    assert "vfio" not in " ".join(notices(Rig("off", REDIRECTING).plan()))


def test_jobs_on_the_cards_are_in_the_way_of_clearing_and_of_putting_back() -> None:
    (clearing,) = reasons(Rig("off", REDIRECTING, jobs=JOB).plan())
    (putting_back,) = reasons(Rig("keep", CLEARED, state=owning(), jobs=JOB).plan())

    assert "python3 (4711)" in clearing
    assert "python3 (4711)" in putting_back


def test_jobs_are_in_nobodys_way_where_no_port_is_changed() -> None:
    assert not Rig("off", CLEARED, state=owning(), jobs=JOB).plan().blocked


def test_to_keep_it_is_put_back_before_the_files_go_and_without_the_installed_program() -> None:
    rig = Rig("keep", CLEARED, state=owning())

    assert settings(rig.plan()) == {"0000:00:03.1": "0011 -> 001d", "0000:40:01.3": "0011 -> 001d"}
    assert ("acs", "what was cleared since the boot") in rig.plan().housekeeping
    script = rig.script()
    back = shlex.join(("sh", "-c", pack("acs").text, "acs", "back"))
    assert script.index(f"\n{back}\n") < script.index(f"rm -f {PROGRAM}")
    assert f"{PROGRAM} back" not in script


def test_a_lost_declaration_is_taken_back_with_consent_only() -> None:
    rig = Rig(None, CLEARED, state=owning())

    assert rig.plan().undeclared == {"acs": tuple(sorted((PROGRAM, UNIT_PATH)))}
    assert settings(rig.plan())
    refused = rig.plan(removals=())
    assert (refused.pending, refused.changes) == (False, ())
    assert "acs back" in rig.script(removals=("acs",))


def test_a_port_that_has_gone_with_its_card_does_not_stop_the_rest() -> None:
    said = "gpus 1\napart 0000:00:03.1 unreadable 001d\napart 0000:40:01.3 0011 001d\n"

    assert settings(Rig("keep", said, state=owning()).plan()) == {"0000:40:01.3": "0011 -> 001d"}
