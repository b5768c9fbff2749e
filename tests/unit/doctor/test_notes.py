from __future__ import annotations

from dataclasses import replace

from rigops.doctor import notes
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.snapshot import HostSnapshot
from tests.unit.probe import answers


def test_a_quiet_and_quick_login_is_not_worth_a_word() -> None:
    assert notes.of_login("", 0.2) == []
    assert notes.of_login("\r\n  \n", 0.2) == []


def test_a_login_shell_that_works_for_every_command_is_named() -> None:
    (note,) = notes.of_login("", 2.34)

    assert "2.3 s" in note
    assert "conda" in note
    assert ".bashrc" in note


def test_a_login_shell_that_talks_is_quoted_in_part() -> None:
    (note,) = notes.of_login("Welcome!\n" * 50, 0.1)

    assert "'Welcome! Welcome!" in note
    assert len(note) < 300


def test_what_was_seen_without_root_is_said_with_the_way_to_see_more() -> None:
    bundle = answers.bundle(answers.BROKEN)
    assert notes.of_bundle(bundle) == []

    by_hand = Bundle(bundle.host, bundle.collected_at, root=False, sections=bundle.sections)
    assert notes.of_bundle(by_hand) == []
    timed = {name: replace(one, ms=10) for name, one in bundle.sections.items()}
    blind = Bundle(bundle.host, bundle.collected_at, root=False, sections=timed)
    (note,) = notes.of_bundle(blind)
    assert "bootloader" in note
    assert "uname" not in note
    assert "--ask-sudo-password" in note


def test_a_section_that_took_too_long_is_named_with_its_limit() -> None:
    sections = {"nvidia-smi-xml": Collected("", rc=124, timed_out=True)}

    assert notes.of_bundle(Bundle("rig", None, root=True, sections=sections)) == [
        "nvidia-smi-xml did not answer within 20 s"
    ]


def test_pieces_that_no_parser_understood_are_counted_by_section() -> None:
    odd = {"uname": "rubbish", "iommu-groups": "a b\nc d\n", "os-release": answers.OS_RELEASE}

    assert notes.unparsed(HostSnapshot(answers.bundle(odd))) == {"uname": 1, "iommu-groups": 2}


def test_what_a_command_says_of_its_failure_is_no_odd_output() -> None:
    refused = {"iommu-groups": "cat: Permission denied\n"}

    assert notes.unparsed(HostSnapshot(answers.bundle(refused, iommu_groups=1))) == {}
