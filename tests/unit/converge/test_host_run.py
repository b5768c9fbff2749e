"""What a plan that is made a second time still knows."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.concerns.concern import HostRequest
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError
from rigops.converge.host_run import HostRun
from rigops.converge.result import Withheld
from rigops.converge.snapshot import Silicon
from rigops.facts.sections import Boot, RigopsState
from rigops.inventory.spec import RigSpec
from rigops.plan.change import Repair
from rigops.probe.lost_cards import ADVICE, LostCard, LostCards, sentence
from rigops.probe.sections.nvidia_version import NvidiaVersion
from rigops.record import Bios, ProvenGpu
from rigops.transport import Privilege, Result, Target
from tests.unit.converge.fakes import NOTHING_COLLECTED, FakeHost, run_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rigops.converge.snapshot import RunSnapshot

HEAD = """
from pyinfra.api.operation import operation
from pyinfra.context import host
from rigops.plan.commands import blocked
from rigops.plan.change import Repair
from rigops.probe.sections.nvidia_version import NvidiaVersion
from rigops.record import Bios, ProvenGpu
from rigops.plan.context import announce_repair
from rigops.plan.context import consent_of, may_undo
"""
GOES = f"""{HEAD}
may_undo(host, "acs", ["/etc/goes"])
"""
STUCK = f"""{HEAD}
@operation()
def stuck():
    announce_repair(host, Repair("dpkg was interrupted", "cure", consent_of(host).repair))
    if not consent_of(host).repair:
        yield blocked(host, "base", "dpkg was interrupted")

stuck()
"""

NO_DRIVER = f"""{HEAD}
@operation()
def no_driver():
    yield blocked(host, "nvidia_driver", "no source has it")

no_driver()
"""
REBOOTS = """
from pyinfra.context import host
from rigops.plan.context import needs_reboot

needs_reboot(host, "kernel_args", "the kernel does not run with a yet")
"""
WRITES = f"""{HEAD}
from rigops.plan.change import Change
from rigops.plan.context import announce

announce(host, Change("NAME", "setting", "NAME limit", "1", "2"))
announce(host, Change("NAME", "file", "/etc/NAME", "old secret", "new secret"))
"""
TWO_CARDS = Silicon(
    bios=Bios("", ""),
    gpus=tuple(ProvenGpu(f"GPU-{at}", f"0000:0{at}:00.0", "", None) for at in (1, 2)),
    has_cards=True,
)
NO_PROOF = "no preflight passed yet"


def planned(
    folder: Path,
    deploys: Mapping[str, str] = {"acs": GOES, "base": STUCK},
    snapshot: RunSnapshot = NOTHING_COLLECTED,
    **what: Any,
) -> HostRun:
    for name, text in deploys.items():
        (folder / f"{name}.py").write_text(text)
    options = replace(run_options([folder / f"{name}.py" for name in deploys]), **what)
    engine = Engine({"rig": {}})
    known = [(fact, fact.section.parse("")) for fact in (Boot, RigopsState)]
    channel = HostChannel(FakeHost(), Privilege("root"))
    engine.attach("rig", channel, known)
    rig = HostRun(HostRequest("rig", Target(name="rig"), {}, RigSpec()), options, engine)
    rig._session.last_snapshot, rig._session._channel = snapshot, channel
    rig._session.find_reboot_impact = lambda: None  # type: ignore[method-assign, assignment, return-value]  # a fake
    rig._plan()
    return rig


def test_what_is_in_the_way_of_one_concern_stays_known_when_another_is_withheld(
    tmp_path: Path,
) -> None:
    rig = planned(tmp_path)

    rig.confirm(removals=False, no_trial=False)

    assert rig.result.withheld == (Withheld("acs", ("/etc/goes",)),)
    assert [one.reason for one in rig.result.blocked] == ["dpkg was interrupted"]


def test_what_fails_between_two_stages_names_the_one_before(tmp_path: Path) -> None:
    rig = planned(tmp_path)
    rig._session.touched = True

    rig.fail(DeployError("something is still not as declared"))

    assert rig.result.story == ["failed in the stage plan"]


def test_what_a_repair_cures_is_no_longer_in_the_way_of_the_plan(tmp_path: Path) -> None:
    rig = planned(tmp_path)
    before = rig.result.blocked, rig.result.plan.repairs

    rig.repair()

    offered = Repair("dpkg was interrupted", "cure", agreed=False)
    assert ([one.concern for one in before[0]], before[1]) == (["base"], (offered,))
    assert rig.result.blocked == ()
    assert rig.result.plan.repairs == (Repair("dpkg was interrupted", "cure", agreed=True),)
    assert rig.result.pending


def test_a_removal_that_is_going_to_be_withheld_is_no_change_of_the_plan(tmp_path: Path) -> None:
    deploys = {"acs": GOES.replace("may_undo(", "gone(host, may_undo(").replace('"])', '"]))')}
    deploys["acs"] = deploys["acs"].replace(
        "gone(host",
        """
from rigops.plan.change import Change
from rigops.plan.context import announce

def gone(host, is_undone):
    if is_undone:
        announce(host, Change("acs", "file", "/etc/goes", "x", None))

gone(host""",
    )

    asked = planned(tmp_path, deploys)
    withheld = planned(tmp_path, deploys, yes=True)

    assert [one.subject for one in asked.result.plan.changes] == ["/etc/goes"]
    assert asked.result.withheld == ()
    assert withheld.result.plan.changes == ()
    assert withheld.result.withheld == (Withheld("acs", ("/etc/goes",)),)


@pytest.mark.parametrize("loaded", [None, "535.261.03"])
def test_while_a_first_driver_is_refused_no_reboot_and_no_preflight_follow(
    tmp_path: Path, loaded: str | None
) -> None:
    snapshot = replace(
        NOTHING_COLLECTED,
        silicon=TWO_CARDS,
        driver=NvidiaVersion(version=loaded) if loaded else None,
    )
    deploys = {"nvidia_driver": NO_DRIVER, "kernel_args": REBOOTS}

    rig = planned(tmp_path, deploys, snapshot)

    assert rig.needs_reboot is (loaded is not None)
    assert bool(rig.result.reboot_waits) is (loaded is None)
    assert rig.result.reboot_reasons == ("the kernel does not run with a yet",)
    assert rig.result.preflight_reason == (NO_PROOF if loaded else "")


@pytest.mark.parametrize(
    ("cards", "preflight", "reason"),
    [
        (TWO_CARDS, "auto", NO_PROOF),
        (TWO_CARDS, "never", ""),
        (TWO_CARDS, "always", "--preflight always"),
        (replace(TWO_CARDS, gpus=TWO_CARDS.gpus[:1]), "auto", ""),
        (replace(TWO_CARDS, gpus=(), has_cards=False), "auto", ""),
    ],
)
def test_a_plan_says_that_copies_between_the_cards_are_going_to_follow(
    tmp_path: Path, cards: Silicon, preflight: str, reason: str
) -> None:
    snapshot = replace(NOTHING_COLLECTED, silicon=cards)

    rig = planned(tmp_path, {}, snapshot, preflight=preflight)

    assert rig.result.preflight_reason == reason


def test_a_plan_says_that_a_card_is_lost_and_that_nothing_is_copied_then(tmp_path: Path) -> None:
    lost = LostCards((LostCard("0000:84:00.0", "", since="03:12 UTC"),))

    rig = planned(tmp_path, {}, replace(NOTHING_COLLECTED, silicon=TWO_CARDS, lost=lost))

    said = f"card 84:00.0 is lost since 03:12 UTC. fix: {ADVICE}"
    assert rig.result.notices[0] == said
    assert said in rig.result.plan.warnings
    assert rig.result.preflight_reason == ""


def test_a_lost_card_that_blocks_a_concern_is_said_once(tmp_path: Path) -> None:
    lost = LostCards((LostCard("0000:84:00.0", "", since="03:12 UTC"),))
    reason = f"{sentence(lost.cards)}, so nothing is set"
    blocked = NO_DRIVER.replace("nvidia_driver", "gpu_tuning").replace("no source has it", reason)

    rig = planned(tmp_path, {"gpu_tuning": blocked}, replace(NOTHING_COLLECTED, lost=lost))

    assert [one.reason for one in rig.result.blocked] == [reason]
    assert not [one for one in rig.result.notices if "84:00.0" in one]


@pytest.mark.parametrize("error", [KeyboardInterrupt, DeployError])
def test_a_run_that_is_broken_off_knows_what_it_made(
    tmp_path: Path, error: type[BaseException]
) -> None:
    names = ("base", "acs", "gpu_tuning")
    rig = planned(tmp_path, {name: WRITES.replace("NAME", name) for name in names})
    rig._session.take_lock = lambda: None  # type: ignore[method-assign]  # a fake
    channel = rig._session.channel

    def flush() -> None:
        if rig.result.making == "acs":
            raise error("broken off")

    channel.flush = flush  # type: ignore[method-assign]  # a fake
    with suppress(KeyboardInterrupt), rig.keep_errors():
        rig._session.apply()

    entry = rig.journal_entry()
    states = {one.subject: (one.before, one.after, one.state) for one in entry.values}
    assert states == {
        "base limit": ("1", "2", "made"), "/etc/base": ("", "", "made"),
        "acs limit": ("1", "2", "unsure"), "/etc/acs": ("", "", "unsure"),
        "gpu_tuning limit": ("1", "2", "planned"), "/etc/gpu_tuning": ("", "", "planned"),
    }  # fmt: skip
    assert (entry.who, entry.run) == ("me@here", "run")
    assert entry.reason.endswith("in the stage change")


def test_a_run_tells_the_host_of_its_changes_before_it_makes_them(tmp_path: Path) -> None:
    rig = planned(tmp_path, {"base": WRITES.replace("NAME", "base")})
    sent: list[str] = []

    def run(words: Sequence[str], *_: object) -> Result:
        sent.append(words[-1])
        return Result(exit_code=0, stdout=b"torn\n", stderr=b"")

    rig._session.take_lock = lambda: None  # type: ignore[method-assign]  # a fake
    rig._session.apply = lambda: sent.append("changes")  # type: ignore[method-assign, assignment, misc]  # a fake
    rig._session.verify = lambda: rig.result.plan  # type: ignore[method-assign]  # a fake
    rig._session.channel.run = run  # type: ignore[method-assign, assignment]  # a fake

    rig.change()

    _, line, changes = sent
    begun = json.loads(line)
    assert (begun["outcome"], begun["who"], begun["command"]) == ("begun", "me@here", "apply")
    assert {one["state"] for one in begun["values"]} == {"unsure"}
    assert changes == "changes"
    assert "the last line of /var/lib/rigops/journal.jsonl was torn" in rig.result.story[0]
