"""Classes made by rigops' own decorator behave as those of the standard library."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, asdict, field, replace
from inspect import signature
from threading import Barrier

import pytest

from rigops.dataclass import dataclass, make_classes


@dataclass(frozen=True)
class Card:
    slot: str
    watts: int = 0
    note: str = field(default="", compare=False)
    raw: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class NamedCard(Card):
    """A card that somebody gave a name."""

    name: str = ""


@dataclass
class Counter:
    _: KW_ONLY
    counts: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Nothing:
    pass


@dataclasses.dataclass(frozen=True)
class Standard:
    slot: str
    watts: int = 0
    note: str = field(default="", compare=False)
    raw: bytes = field(default=b"", repr=False)


Standard.__qualname__ = "Card"


def test_a_card_reads_as_one_of_the_standard_library() -> None:
    assert repr(Card("0a", 285, "hot", b"x")) == repr(Standard("0a", 285, "hot", b"x"))


def test_cards_are_compared_by_what_is_compared() -> None:
    assert Card("0a", 285, "hot") == Card("0a", 285, "cold")
    assert Card("0a", 285) != Card("0a", 350)
    assert hash(Card("0a", 285, "hot")) == hash(Card("0a", 285, "cold"))
    assert {Card("0a"), Card("0a"), Card("0b")} == {Card("0a"), Card("0b")}


def test_a_subclass_is_another_thing() -> None:
    card: Card = NamedCard("0a", name="left")
    assert card != Card("0a")
    assert card != NamedCard("0a", name="right")
    assert card == NamedCard("0a", name="left")


def test_classes_without_values_are_equal_to_themselves_alone() -> None:
    others: list[object] = [Nothing(), Counter()]
    assert [Nothing() == other for other in others] == [True, False]


def test_what_may_change_has_no_hash() -> None:
    counter = Counter(counts=[1])
    counter.counts = [2]
    assert counter == Counter(counts=[2])
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_the_functions_of_the_standard_library_take_them() -> None:
    card = NamedCard("0a", 285, name="left")
    assert replace(card, watts=350) == NamedCard("0a", 350, name="left")
    assert asdict(Counter(counts=[1])) == {"counts": [1]}
    assert [one.name for one in dataclasses.fields(card)][-1] == "name"


def test_no_method_but_init_is_compiled_for_a_class() -> None:
    own = {
        name
        for name in ("__eq__", "__hash__", "__repr__")
        if vars(Card)[name] is not vars(NamedCard)[name]
    }
    assert own == set()
    assert "__setattr__" not in vars(Card)


def test_a_class_has_its_fields_and_defaults_before_its_first_instance() -> None:
    @dataclass
    class Fan:
        rpm: int = field(default=900, metadata={"unit": "1/min"})
        curve: list[int] = field(default_factory=list)

    @dataclass
    class Pump(Fan):
        flow: int = 0

    assert [one.name for one in dataclasses.fields(Pump)] == ["rpm", "curve", "flow"]
    assert dataclasses.fields(Fan)[0].metadata == {"unit": "1/min"}
    assert Fan.rpm == 900
    assert not hasattr(Fan, "curve")


def test_classes_of_a_package_are_made_when_there_is_time_for_it() -> None:
    @dataclass
    class Fan:
        rpm: int = 900

    assert "rpm" not in signature(Fan).parameters
    make_classes("tests.unit.another.")
    assert "rpm" not in signature(Fan).parameters
    make_classes("tests.unit.")
    assert "rpm" in signature(Fan).parameters


def test_threads_that_make_the_first_instances_at_once_get_whole_ones() -> None:
    threads, tries = 8, 100
    begin = Barrier(threads)
    classes = []
    for _ in range(tries):

        @dataclass(frozen=True)
        class Slot:
            name: str
            lanes: int = 16

        classes.append(Slot)

    def made() -> list[str]:
        found = []
        for cls in classes:
            begin.wait()
            found.append(f"{cls('0a') == cls('0a')} {cls('0a').lanes}")
        return found

    with ThreadPoolExecutor(threads) as pool:
        found = [one.result() for one in [pool.submit(made) for _ in range(threads)]]
    assert found == [["True 16"] * tries] * threads
