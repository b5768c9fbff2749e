"""When the last passed preflight speaks for a host, and when it does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rigops.converge.host_run import HostRun
from rigops.converge.proof import observed, recorded, still_holds
from rigops.converge.result import HostResult
from rigops.converge.snapshot import SILICON, RunSnapshot
from rigops.hostside.p2p.verdict import HIGHEST
from rigops.preflight.found import HostFound, PairFound
from rigops.preflight.results import passed
from rigops.probe.sections.nvidia_version import NvidiaVersion
from rigops.probe.sections.own_modules import ARGUMENT, OwnModules
from rigops.probe.sections.proc_cmdline import CommandLine
from rigops.probe.sections.rigops_state import RigopsState
from rigops.probe.sections.uname import Uname
from rigops.record import Bios, Pair, Proven
from rigops.record.shell import FAILED_PROOF
from rigops.record.shell import PROVEN as PATH
from tests.unit.converge.fakes import NOTHING_COLLECTED

CARDS = """\
== /sys/class/dmi/id/bios_vendor
American Megatrends
== /sys/class/dmi/id/bios_version
F2
== /proc/driver/nvidia/gpus/0000:0a:00.0/information
Model: \t\t NVIDIA GeForce RTX 3090
IRQ:   \t\t 81
GPU UUID: \t GPU-6e7f0d8a-0000-0000-0000-000000000001
Video BIOS: \t 94.02.42.00.01
Bus Type: \t PCIe
Bus Location: \t 0000:0a:00.0
== /sys/bus/pci/devices/0000:0a:00.0
"""
OK = Pair("0000:0a:00.0", "0000:0b:00.0", "ok", 12.5)


def sight(text: str = CARDS, *, driver: str | None = "535.183.01", line: str = "ro") -> RunSnapshot:
    return replace(
        NOTHING_COLLECTED,
        command_line=CommandLine(line, tuple(line.split())),
        driver=NvidiaVersion(version=driver, flavor="proprietary" if driver else None),
        silicon=SILICON.parse(text),
        uname=Uname("6.1.0-31-amd64", "x86_64"),
    )


def now(**changed: str) -> Proven:
    state = observed("rig", sight(**changed), at="2026-11-20T10:00:00Z", inventory_digest="d")
    assert state is not None
    return state


PROVEN = replace(now(), level=HIGHEST, pairs=(OK,))


def test_the_cards_are_those_that_the_driver_names() -> None:
    silicon = SILICON.parse(CARDS)

    assert silicon.has_cards
    assert silicon.bios == Bios("American Megatrends", "F2")
    (card,) = silicon.gpus
    assert (card.address, card.name) == ("0000:0a:00.0", "NVIDIA GeForce RTX 3090")


def test_a_card_without_a_driver_is_there_all_the_same() -> None:
    silicon = SILICON.parse("== /sys/bus/pci/devices/0000:0a:00.0\n16\n")

    assert silicon.has_cards
    assert not silicon.has_gone
    assert silicon.gpus == ()
    assert observed("rig", sight(""), at="", inventory_digest="") is None
    assert observed("rig", sight(driver=None), at="", inventory_digest="") is None


def test_a_proof_holds_as_long_as_nothing_it_depends_on_has_changed() -> None:
    assert still_holds(PROVEN, now())
    assert not still_holds(None, now())
    assert not still_holds(PROVEN, None)


@pytest.mark.parametrize(
    "changed",
    [
        {"driver": "535.216.01"},
        {"line": "ro iommu=pt"},
        {"text": CARDS.replace("F2", "F3")},
        {"text": CARDS.replace("0a:00.0", "0b:00.0")},
    ],
)
def test_another_driver_argument_firmware_or_slot_ends_a_proof(changed: dict[str, str]) -> None:
    assert not still_holds(PROVEN, now(**changed))


def test_a_proof_of_the_owners_modules_does_not_speak_for_the_stock_ones() -> None:
    own = OwnModules(chosen="own", digest="a" * 64, loaded={"nvidia": "ab" * 20})
    with_them = observed("rig", replace(sight(), modules=own), at="", inventory_digest="d")
    assert with_them is not None
    proven = replace(with_them, level=HIGHEST, pairs=(OK,))

    assert still_holds(proven, with_them)
    assert not still_holds(proven, now())
    assert not still_holds(PROVEN, with_them)
    stock = replace(own, chosen="stock", digest="", reason="damaged")
    fallen = observed("rig", replace(sight(), modules=stock), at="", inventory_digest="d")
    assert still_holds(PROVEN, fallen)


def test_a_proof_of_a_lower_rung_is_none_unless_there_was_nothing_to_copy() -> None:
    assert not still_holds(replace(PROVEN, level="L1"), now())
    refused = replace(OK, verdict="not_granted")
    assert still_holds(replace(PROVEN, level="L0", pairs=(refused,)), now())


def test_a_damaged_record_is_no_proof() -> None:
    def kept(text: str) -> RigopsState:
        return RigopsState(records={PATH: text})

    assert recorded(kept(PROVEN.to_json())) == PROVEN
    assert recorded(kept(PROVEN.to_json()[:-20])) is None
    assert recorded(RigopsState()) is None


@pytest.mark.parametrize("text", ["damaged", '{"schema": "rigops.failed_proof/1"}'])
def test_no_proof_counts_beside_a_failed_one(text: str) -> None:
    assert recorded(RigopsState(records={PATH: PROVEN.to_json(), FAILED_PROOF: text})) is None


@pytest.mark.parametrize(
    ("status", "is_proof"), [("ok", True), ("warn", True), ("fail", False), ("unknown", False)]
)
def test_only_a_passed_preflight_is_a_proof(status: str, *, is_proof: bool) -> None:
    pair = PairFound("0000:0a:00.0", "0000:0b:00.0", "ok", "L1")

    assert passed(HostFound(host="rig", status=status, pairs=(pair,))) is is_proof
    assert not passed(HostFound(host="rig", status=status))


def test_a_boot_that_only_tried_arguments_proves_the_plain_one_with_them() -> None:
    tried = now(line="ro iommu=pt rigops.trial systemd.wants=rigops-trial.service panic=10")

    assert tried.key() == now(line="ro iommu=pt").key()
    assert tried.key() != now(line="ro").key()


def test_a_card_that_answers_nothing_on_the_bus_is_seen_by_every_plan() -> None:
    assert SILICON.parse("== /sys/bus/pci/devices/0000:0a:00.0\n63\n").has_gone


def test_modules_that_fail_a_required_proof_are_given_up_unless_they_were_proven_before() -> None:
    own = replace(now(line=f"ro {ARGUMENT}"), modules=f"own:{'a' * 64}", build_id="ab" * 20)
    ended: list[tuple[str, dict[str, object]]] = []
    fake: Any = SimpleNamespace(
        trial_options=lambda **words: words,
        apply=lambda stage, options: ended.append((stage, options)),
    )
    run = HostRun.__new__(HostRun)
    run._session, run.result = fake, HostResult("rig")
    run.request = cast("Any", SimpleNamespace(name="rig"))

    observed_by: Any = run
    for seen, before in ((now(), None), (own, own), (None, None)):
        observed_by._observed = partial(lambda found: found, seen)
        run._give_up_modules(before)
    assert ended == []

    observed_by._observed = lambda: own
    run._give_up_modules(PROVEN)

    ((stage, words),) = ended
    assert (stage, words["given_up"], words["tried"]) == ("return", True, own.command_line)
    (said,) = run.result.story
    assert said.endswith("the next boot loads the stock modules; reboot rig")
