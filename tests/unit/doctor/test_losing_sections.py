"""What is lost or damaged on the way never makes a rig look healthier than it is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigops.doctor import notes
from rigops.doctor.registry import examine
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.snapshot import HostSnapshot
from tests.unit import recorded
from tests.unit.doctor.examining import EVERY_CONCERN, catalog
from tests.unit.probe import answers
from tests.unit.probe.bundles.redacting import without_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.finding import Finding

CUT_OFF = 141
EXAMPLES = min(200, settings().max_examples // 3)  # each is a whole rig
RIGS: Mapping[str, Bundle] = {
    **{name: recorded.rig(name) for name in recorded.NAMES},
    "answers": answers.bundle(answers.BROKEN),
}
SECTIONS = sorted({name for bundle in RIGS.values() for name in bundle.sections})


def look(bundle: Bundle) -> list[Finding]:
    return examine(HostSnapshot(bundle), None, catalog(), concerns=EVERY_CONCERN)


def statuses(bundle: Bundle) -> dict[tuple[str, str], str]:
    return {(one.id, one.subject): one.status for one in look(bundle)}


@cache
def failures(name: str) -> frozenset[tuple[str, str]]:
    found = statuses(RIGS[name])
    return frozenset(key for key, status in found.items() if status == "fail")


def with_sections(bundle: Bundle, sections: Mapping[str, Collected]) -> Bundle:
    return Bundle(bundle.host, bundle.collected_at, root=bundle.root, sections=sections)


def assert_nothing_got_well(name: str, damaged: Bundle, why: str = "") -> None:
    found = statuses(damaged)
    got_well = {
        (check, subject)
        for check, subject in failures(name)
        if found.get((check, subject)) == "ok" or found.get((check, "host")) == "ok"
    }
    assert got_well == set(), why


@pytest.mark.parametrize("name", RIGS)
def test_one_lost_section_turns_no_failure_into_health(name: str) -> None:
    bundle = RIGS[name]
    for lost in bundle.sections:
        kept = {section: one for section, one in bundle.sections.items() if section != lost}

        assert_nothing_got_well(name, with_sections(bundle, kept), f"without {lost}")


@pytest.mark.parametrize("name", RIGS)
@given(lost=st.sets(st.sampled_from(SECTIONS)))
@settings(max_examples=EXAMPLES)
def test_lost_sections_turn_no_failure_into_health(name: str, lost: set[str]) -> None:
    bundle = RIGS[name]
    kept = {section: one for section, one in bundle.sections.items() if section not in lost}

    assert_nothing_got_well(name, with_sections(bundle, kept))


@pytest.mark.parametrize("name", RIGS)
@given(cut=st.sampled_from(SECTIONS), share=st.floats(0, 1))
@settings(max_examples=EXAMPLES)
def test_a_section_that_was_cut_off_turns_no_failure_into_health(
    name: str, cut: str, share: float
) -> None:
    bundle = RIGS[name]
    whole = bundle.sections.get(cut, Collected(""))
    part = replace(whole, text=whole.text[: int(len(whole.text) * share)], rc=CUT_OFF)

    assert_nothing_got_well(name, with_sections(bundle, {**bundle.sections, cut: part}))


@pytest.mark.parametrize("name", RIGS)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_rubbish_and_swapped_fields_never_raise(name: str, data: st.DataObject) -> None:
    bundle = RIGS[name]
    section = data.draw(st.sampled_from(sorted(bundle.sections)))
    words = bundle.sections[section].text.split(" ")
    one, other = (data.draw(st.integers(0, len(words) - 1)) for _ in range(2))
    words[one], words[other] = words[other], words[one]
    rubbish = data.draw(st.binary(max_size=50)).decode("utf-8", "replace")
    text = data.draw(st.sampled_from([" ".join(words), rubbish, " ".join(words) + rubbish]))

    look(with_sections(bundle, {**bundle.sections, section: Collected(text)}))


@pytest.mark.parametrize("name", RIGS)
def test_without_names_a_rig_is_judged_the_same(name: str) -> None:
    bundle = RIGS[name]
    redaction = Redaction([bundle])

    named, nameless = look(bundle), look(without_names(bundle))
    redacted = look(redaction.bundle(bundle))

    for one, other in zip(named, nameless, strict=True):
        assert (one.id, one.subject, one.status) == (other.id, other.subject, other.status)
        assert one.data == other.data
    assert [one.summary for one in redacted] == [redaction.text(one.summary) for one in named]


@pytest.mark.parametrize("name", recorded.NAMES)
def test_a_redacted_rig_names_nobody(name: str) -> None:
    bundle = recorded.rig(name)
    xml = bundle.sections["nvidia-smi-xml"].text
    said = "".join(one.text for one in without_names(bundle).sections.values())

    assert bundle.host not in said
    for line in xml.splitlines():
        for tag in ("uuid", "serial"):
            value = line.partition(f"<{tag}>")[2].partition("<")[0]
            assert not value or value == "N/A" or value not in said


@pytest.mark.parametrize("name", recorded.NAMES)
def test_a_recorded_rig_is_whole_and_understood(name: str) -> None:
    """Where a card is lost, nvidia-smi answers with a line about it instead."""
    bundle = recorded.rig(name)

    assert set(bundle.sections) == set(SECTIONS)
    left = set(notes.unparsed(HostSnapshot(bundle)))
    assert not {section for section in left if not section.startswith("nvidia-smi-")}
    assert not left or "lost" in name


def test_a_value_is_cited_with_the_line_that_says_it() -> None:
    (persistence,) = [
        one for one in look(recorded.rig("threadripper-3x3090")) if one.id == "drv.persist"
    ]

    said = [line.line.strip() for line in persistence.evidence]
    assert "<persistence_mode>Disabled</persistence_mode>" in said
