"""Whether a boot that tried new arguments held, and what there is to tell of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigops.converge import trial_boot
from rigops.converge.snapshot import RunSnapshot, Silicon
from rigops.probe.sections import proc_cmdline
from rigops.probe.sections.rigops_state import ARGUMENTS, RigopsState
from rigops.record import Bios, ProvenGpu
from rigops.record.kernel_arguments import Arguments, arguments_document
from tests.unit.converge.fakes import NOTHING_COLLECTED

TRYING = ("iommu=pt",)


def sight(line: str, *addresses: str) -> RunSnapshot:
    cards = tuple(ProvenGpu(f"GPU-{at}", at, "RTX 3090", None) for at in addresses)
    return replace(
        NOTHING_COLLECTED,
        command_line=proc_cmdline.parse(line),
        silicon=Silicon(Bios("", ""), cards, has_cards=bool(cards)),
    )


BEFORE = sight("ro quiet", "0000:0a:00.0", "0000:0b:00.0")


def test_it_held_where_the_arguments_are_live_and_every_card_is_there() -> None:
    now = sight("ro quiet iommu=pt rigops.trial", "0000:0a:00.0", "0000:0b:00.0", "0000:0c:00.0")

    assert trial_boot.shortfall(BEFORE, now, TRYING) == ""
    assert now.is_trial


def test_old_arguments_are_no_success_however_well_the_host_is() -> None:
    now = sight("ro quiet", "0000:0a:00.0", "0000:0b:00.0")

    assert "iommu=pt" in trial_boot.shortfall(BEFORE, now, TRYING)
    assert not now.is_trial


def test_a_card_that_is_gone_with_the_new_arguments_takes_them_back() -> None:
    now = sight("ro quiet iommu=pt rigops.trial", "0000:0a:00.0")

    assert "0000:0b:00.0 is gone" in trial_boot.shortfall(BEFORE, now, TRYING)


def test_a_trial_boot_that_another_run_ordered_is_held_against_the_cards_of_then() -> None:
    record = Arguments(TRYING, armed_in="a", cards=("0000:0a:00.0", "0000:0b:00.0"))
    state = RigopsState(records={ARGUMENTS: arguments_document(record)})
    tried = "ro iommu=pt rigops.trial"
    whole = replace(sight(tried, "0000:0a:00.0", "0000:0b:00.0"), state=state)
    poorer = replace(sight(tried, "0000:0a:00.0"), state=state)
    plain = replace(sight("ro", "0000:0a:00.0"), state=state)

    assert whole.cards == record.cards
    assert (trial_boot.lost(whole), trial_boot.lost(plain)) == ("", "")
    assert "0000:0b:00.0 is gone with it" in trial_boot.lost(poorer)


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", "left no trace"),
        ("reached 6d3c 12\n", "its services were started, 12 s after it began"),
        ("reached 6d3c 12\ngiven-up 900\n", "it was not confirmed"),
    ],
)
def test_the_story_says_how_far_that_boot_came_and_how_it_ends(log: str, told: str) -> None:
    first, last = trial_boot.failure(TRYING, "the host does not run with iommu=pt", log)

    assert "iommu=pt" in first
    assert told in first
    assert "nothing of the new ones is left" in last


def test_this_machine_is_told_when_to_run_the_command_again() -> None:
    assert "run the same command after that" in trial_boot.after_this((), 900)
    assert "within 15 minutes" in trial_boot.after_this(TRYING, 900)
