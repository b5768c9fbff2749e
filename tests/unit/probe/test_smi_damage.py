"""Outputs that are cut, mixed up, or made to do harm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.script import MOST_BYTES
from rigops.probe.sections import nvidia_smi_xml
from tests.shards import PROPERTIES
from tests.unit.patterns import slow_growth
from tests.unit.probe.test_smi_report import FILES, read, text

if TYPE_CHECKING:
    from rigops.probe.smi.report import SmiGpu

_VALUE = re.compile(r"(?<=>)[^<>\n]+(?=</)|(?<=: )\S.*")
# Each place is tried in the shard.
STEPS = [23, pytest.param(1, marks=pytest.mark.shard(PROPERTIES))]


def _facts(card: SmiGpu) -> set[tuple[str, object]]:
    """What is said of a card, but for what a cut may lessen."""
    lists = {"processes", "troubles", "throttle", "listed_mhz"}
    best_of_several = {"watts"}
    known = {name: value for name, value in vars(card).items() if value is not None}
    del known["raw"]  # raw lines
    return {(name, known[name]) for name in known.keys() - lists - best_of_several}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", FILES)
def test_wherever_it_is_cut_what_remains_is_true_and_is_not_the_whole(name: str, step: int) -> None:
    whole, report = text(name), read(name)
    for length in range(0, len(whole), step):
        found = nvidia_smi_xml.parse(whole[:length])
        assert not found.is_complete or found.gpus == report.gpus
        assert len(found.gpus) <= len(report.gpus)
        for cut, card in zip(found.gpus, report.gpus, strict=False):
            untrue = {fact for fact in _facts(cut) - _facts(card) if not _is_part(fact, card)}
            assert not untrue
            assert set(cut.processes or ()) <= set(card.processes or ())
            assert (cut.throttle or frozenset()) <= (card.throttle or frozenset())
            assert cut.processes != () or card.processes == ()
            assert cut.throttle != frozenset() or card.throttle == frozenset()


def _is_part(fact: tuple[str, object], card: SmiGpu) -> bool:
    """Some of the errors, where more were counted; never none of them."""
    name, value = fact
    total = getattr(card, name)
    return name.startswith("ecc_") and isinstance(value, int) and 0 < value < total


@pytest.mark.parametrize("name", ["two-3090-525.xml", "v100-384.txt"])
def test_the_cards_before_the_cut_are_kept(name: str) -> None:
    whole = text(name)
    second = read(name).gpus[1]
    found = nvidia_smi_xml.parse(whole[: whole.index(second.line) + len(second.line) + 40])

    assert found.gpus[0] == read(name).gpus[0]
    assert (found.gpus[1].address, found.gpus[1].watts) == (second.address, None)


@pytest.mark.parametrize("name", FILES)
def test_without_its_beginning_it_is_not_whole(name: str) -> None:
    whole = text(name)
    for start in range(_after_its_beginning(whole), len(whole), 89):
        assert not nvidia_smi_xml.parse(whole[start:]).is_complete


def _after_its_beginning(whole: str) -> int:
    """Within the line that says the driver's version, which every fixture has."""
    if "</" in whole:
        return whole.index("driver_version>")
    return whole.index("MD Version" if "KMD Version" in whole else "river Version")


def test_a_process_list_that_may_go_on_is_no_end() -> None:
    whole = text("2080-610-windows.txt")
    to_the_process = whole[: whole.index("    Capabilities")]

    assert not nvidia_smi_xml.parse(to_the_process).is_complete
    assert nvidia_smi_xml.parse(to_the_process + "\n").is_complete


def test_fewer_cards_than_attached_is_no_whole_text() -> None:
    assert not nvidia_smi_xml.parse(
        text("v100-384.txt").replace(": 2\nGPU", ": 3\nGPU", 1)
    ).is_complete


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_values_in_each_others_place_never_raise(name: str, data: st.DataObject) -> None:
    whole = text(name)
    values = _VALUE.findall(whole)
    order = iter(data.draw(st.permutations(values)))
    mixed = _VALUE.sub(lambda _: next(order), whole)

    assert len(nvidia_smi_xml.parse(mixed).gpus) == len(read(name).gpus)


@pytest.mark.parametrize("name", FILES)
@given(
    at=st.integers(0, 12_000),
    rubbish=st.one_of(
        st.text(), st.binary().map(lambda some: some.decode("utf-8", "replace")),
        st.sampled_from(["<!--", "-->", "<gpu id='", "]>", "</gpu>", "<!DOCTYPE x [", "9" * 5000,
                         "GPU 0000:01:00.0\n", "\n" + " " * 5000 + "x : 1\n", "&#99999999999;"]),
    ),
)  # fmt: skip
def test_rubbish_anywhere_never_raises(name: str, at: int, rubbish: str) -> None:
    whole = text(name)

    nvidia_smi_xml.parse(whole[:at] + rubbish + whole[at:])
    nvidia_smi_xml.parse(rubbish)


@pytest.mark.parametrize(
    "entities",
    [
        '<!ENTITY a "0"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">' * 50,
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
    ],
)
def test_entities_stay_as_they_are(entities: str) -> None:
    xml = f"<?xml version='1.0'?>\n<!DOCTYPE nvidia_smi_log [{entities}]>\n<nvidia_smi_log>"
    xml += '<gpu id="0000:01:00.0"><product_name>&a;</product_name></gpu></nvidia_smi_log>'

    report = nvidia_smi_xml.parse(xml)
    assert report.gpus[0].name == "&a;"
    assert report.is_complete


@pytest.mark.parametrize(
    "head", ["", "<nvidia_smi_log><gpu id='0000:01:00.0'><processes>", "GPU 0000:01:00.0\n  a"]
)
def test_twice_the_text_takes_twice_the_time(head: str) -> None:
    for unit in (
        "<a", "<gpu id='0000:01:00.0'>", "<a>", "</a>", "<!--", "-->", "<!DOCTYPE x [", "&amp;",
        "]", "\x1b[", " ", "a : b\n", "    a : b\n", "GPU 0000:01:00.0\n    a : b\n", "\n",
        "<nvidia_smi_log>", "Unable to ", "0000:", "nvidia-smi $ ", "<process_info><pid>1</pid>",
    ):  # fmt: skip

        def repeated(size: int, unit: str = unit) -> str:
            return head + unit * (size // len(unit))

        assert slow_growth(nvidia_smi_xml.parse, repeated, 16 * 1024) is None


def test_more_cards_than_any_machine_has_are_not_taken_for_cards() -> None:
    one = text("v100-384.txt")
    card = one[one.index("GPU 0") : one.index("GPU 00000000:05")]

    report = nvidia_smi_xml.parse(card * 300)
    assert len(report.gpus) == 256
    assert report.unparsed == ("GPU 00000000:04:00.0",) * 44


@pytest.mark.parametrize("name", ["two-3090-525.xml", "v100-384.txt"])
def test_the_longest_answer_that_a_probe_lets_through_is_read_whole(name: str) -> None:
    whole = text(name)
    one = "        More  : 1 MHz\n" if "GPU UUID" in whole else "<more_mhz>1 MHz</more_mhz>\n"
    at = whole.index("    Processes") if "GPU UUID" in whole else whole.index("<processes>")

    report = nvidia_smi_xml.parse(whole[:at] + one * (MOST_BYTES // len(one)) + whole[at:])
    assert report.gpus[1] == read(name).gpus[1]
    assert report.is_complete
