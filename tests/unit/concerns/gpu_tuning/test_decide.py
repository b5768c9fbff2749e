"""Which settings cards get from a declaration, and which declarations no card accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops import catalog
from rigops.concerns.gpu_tuning import decide, record
from rigops.concerns.gpu_tuning.state import Wanted
from rigops.concerns.registry import read
from rigops.probe.lost_cards import ADVICE, LostCard
from rigops.probe.smi.report import SmiGpu, SmiReport

if TYPE_CHECKING:
    from rigops.concerns.gpu_tuning.decide import TunedCard, Tuning

A, B = "0000:0a:00.0", "0000:42:00.0"
UUIDS: Final = {
    A: "GPU-3d5bdb46-1111-5b0e-bf7a-4b3f2a1b0c0d",
    B: "GPU-3d5bdb46-2222-5b0e-bf7a-4b3f2a1b0c0d",
}
GEFORCE: Final = SmiGpu(
    address=A,
    uuid=UUIDS[A],
    name="NVIDIA GeForce RTX 3090",
    persistence=True,
    watts_limit=350,
    watts_requested=350,
    watts_default=350,
    watts_min=100,
    watts_max=366,
    mhz_graphics=210,
    mhz_memory=405,
    mhz_max_graphics=2100,
    mhz_max_memory=9751,
    listed_mhz={9751: (2100, 1410, 210), 405: (420, 210)},
)
SECOND: Final = replace(GEFORCE, address=B, uuid=UUIDS[B])
TESLA: Final = replace(
    GEFORCE,
    name="Tesla V100-SXM2-16GB",
    watts_min=150,
    watts_max=300,
    watts_default=300,
    mhz_application_graphics=1312,
    mhz_application_memory=877,
    mhz_max_graphics=1530,
    mhz_max_memory=877,
    listed_mhz={877: (1530, 1312, 1005, 997, 135)},
)
PASCAL: Final = replace(TESLA, name="Tesla P100-PCIE-16GB", listed_mhz={715: (1328, 1303, 544)},
                        mhz_application_memory=715, mhz_max_memory=715)  # fmt: skip
LAPTOP: Final = replace(
    GEFORCE, watts_limit=None, watts_requested=None, watts_default=None, watts_min=None,
    watts_max=None,
)  # fmt: skip
BLACKWELL: Final = replace(GEFORCE, name="NVIDIA GeForce RTX 5090", watts_min=400, watts_max=600)


def tuned(*cards: SmiGpu, **keys: Any) -> Tuning:
    return decide.resolve(read(keys), _known(*cards))


def _known(*cards: SmiGpu) -> tuple[TunedCard, ...]:
    return decide.find_cards(SmiReport(gpus=cards, is_complete=True), catalog.load())


def lines(tuning: Tuning) -> dict[tuple[str, str], str]:
    assert not tuning.blockers
    return {(one.address, one.setting): one.value for one in tuning.wanted}


def test_cards_are_named_by_uuid_and_persistence_comes_first() -> None:
    found = tuned(GEFORCE, gpu_power_limit=285, gpu_clocks="graphics=210,1410 memory=405,9751")

    assert [one.line for one in found.wanted] == [
        f"{UUIDS[A]} persistence 1",
        f"{UUIDS[A]} power 285",
        f"{UUIDS[A]} graphics 210,1410",
        f"{UUIDS[A]} memory 405,9751",
    ]
    assert not found.notices


def test_a_card_without_a_uuid_goes_by_its_address() -> None:
    found = tuned(replace(GEFORCE, uuid=None), gpu_power_limit=285)

    assert found.wanted[1].line == f"{A} power 285"


def test_each_card_gets_what_names_it_most_closely() -> None:
    found = tuned(
        GEFORCE, SECOND, gpu_power_limit={"default": 200, "3090": 285, B: 300, UUIDS[A]: "80%"}
    )

    assert lines(found)[A, "power"] == "280"
    assert lines(found)[B, "power"] == "300"


def test_persistence_is_turned_on_for_what_the_driver_would_forget_and_that_is_said() -> None:
    found = tuned(replace(GEFORCE, persistence=False), gpu_power_limit=285)

    assert lines(found)[A, "persistence"] == "1"
    assert "persistence is turned on too" in found.notices[0]


def test_what_holds_for_several_cards_is_said_once() -> None:
    said = tuned(GEFORCE, SECOND, gpu_power_limit=500).blockers
    noticed = tuned(
        replace(GEFORCE, persistence=False), replace(SECOND, persistence=False), gpu_power_limit=285
    ).notices

    assert len(said) == len(noticed) == 1
    assert f"each of GPUs {A}, {B} (NVIDIA GeForce RTX 3090)" in said[0]
    assert f"each of GPUs {A}, {B} (NVIDIA GeForce RTX 3090)" in noticed[0]


def test_cards_with_different_ranges_are_refused_each() -> None:
    said = tuned(GEFORCE, replace(SECOND, watts_max=350), gpu_power_limit=500).blockers

    assert len(said) == 2


def test_persistence_alone_is_set_alone() -> None:
    assert lines(tuned(GEFORCE, gpu_persistence=False)) == {(A, "persistence"): "0"}


def test_a_card_that_has_no_persistence_gets_none() -> None:
    found = tuned(replace(GEFORCE, persistence=None), gpu_power_limit=285)

    assert lines(found) == {(A, "power"): "285"}


def test_cards_before_volta_get_application_clocks_for_a_lock() -> None:
    found = tuned(PASCAL, gpu_clocks="graphics=544,1310")

    assert lines(found)[A, "application"] == "715,1303"


def test_memory_clocks_of_blackwell_are_noticed_with_what_they_cost() -> None:
    found = tuned(BLACKWELL, gpu_clocks="memory=405,9751")

    assert "16 to 32 %" in found.notices[0]


REFUSED: Final[tuple[tuple[SmiGpu, dict[str, Any], tuple[str, ...]], ...]] = (
    (BLACKWELL, {"gpu_power_limit": 350}, ("gpu_power_limit = 350", A, "RTX 5090", "400 to 600 W")),
    (GEFORCE, {"gpu_power_limit": 367}, ("100 to 366 W",)),
    (GEFORCE, {"gpu_power_limit": "20%"}, ('"20%"', "70 W", "100 to 366 W")),
    (LAPTOP, {"gpu_power_limit": 80}, ("takes no power limit", '"gpu_clocks": "graphics=')),
    (
        replace(GEFORCE, watts_default=None),
        {"gpu_power_limit": "80%"},
        ("does not report its default",),
    ),
    (GEFORCE, {"gpu_clocks": "graphics=210,2500"}, ('"graphics=210,2500"', "210 to 2100 MHz")),
    (GEFORCE, {"gpu_clocks": "memory=405,12000"}, ("405 to 9751 MHz",)),
    (TESLA, {"gpu_clocks": "memory=877"}, ("Ampere", "application=MEMORY,GRAPHICS")),
    (TESLA, {"gpu_clocks": "application=877,1004"}, ("135 to 1530 MHz", "997 or 1005")),
    (TESLA, {"gpu_clocks": "application=810,1005"}, ("no memory clock of 810 MHz, but 877",)),
    (GEFORCE, {"gpu_clocks": "application=9751,1410"}, ("graphics=LOWEST,1410",)),
    (GEFORCE, {"gpu_power_limit": {"0000:99:00.0": 200}}, (f'1x RTX 3090. fix: write "{A}"',)),
    (GEFORCE, {"gpu_power_limit": {f"{UUIDS[A][:-1]}f": 200}}, (f'fix: write "{UUIDS[A]}"',)),
    (
        GEFORCE,
        {"gpu_power_limit": {"RTX30": 200, "TX309": 300}},
        ("'RTX30' and 'TX309' fit", "equally", UUIDS[A]),
    ),
    (GEFORCE, {"gpu_power_limit": 285, "gpu_persistence": False}, ("forgets its power limit",)),
)


@pytest.mark.parametrize(("card", "keys", "words"), REFUSED)
def test_what_no_card_accepts_blocks_with_key_card_and_what_is_accepted(
    card: SmiGpu, keys: dict[str, Any], words: tuple[str, ...]
) -> None:
    (reason,) = tuned(card, **keys).blockers

    assert all(word in reason for word in words), reason
    assert "fix: " in reason


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (SmiReport(failure="not-installed"), "declare driver"),
        (SmiReport(failure="mismatch"), "reboot"),
        (SmiReport(gpus=(GEFORCE,)), "is cut"),
    ],
)
def test_cards_that_could_not_be_read_are_not_judged(report: SmiReport, words: str) -> None:
    assert words in decide.unreadable(report)


def test_a_lost_card_blocks_in_the_words_and_with_the_advice_of_all_commands() -> None:
    report = SmiReport(failure="lost", failure_lines=("GPU is lost",))
    card = LostCard("0000:84:00.0", "", since="03:12 UTC")

    assert decide.unreadable(report) == f"a card is lost, so nothing is set. fix: {ADVICE}"
    assert decide.unreadable(report, [card]).startswith("card 84:00.0 is lost since 03:12 UTC, ")


def test_a_whole_report_is_read() -> None:
    assert decide.unreadable(SmiReport(gpus=(GEFORCE,), is_complete=True)) == ""


def test_what_changes_is_said_with_its_values_and_how_many_cards_have_it() -> None:
    cards = decide.find_cards(SmiReport(gpus=(GEFORCE, SECOND)), catalog.load())
    wanted = [Wanted(one.key, one.identity.address, "power", "285") for one in cards]
    wanted.append(Wanted(cards[0].key, A, "persistence", "0"))
    judged = decide.judged(wanted, cards, {}, "boot")

    assert list(decide.headlines(judged)) == [
        "power limit 350 W -> 285 W on 2 cards",
        "persistence on -> off on 1 card",
    ]


@pytest.mark.parametrize(
    ("is_declared", "ends"), [(True, " (no longer declared here)"), (False, "")]
)
def test_a_limit_that_is_no_longer_declared_is_said_with_the_one_that_comes_back(
    *, is_declared: bool, ends: str
) -> None:
    records = {
        record.PATH: json.dumps(
            {
                "schema": "rigops.gpu_tuning/1",
                "boot_id": "boot",
                "settings": [
                    {
                        "card": uuid,
                        "address": at,
                        "setting": "power",
                        "value": "240",
                        "was": "300.00",
                    }
                    for at, uuid in UUIDS.items()
                ],
            }
        )
    }
    judged = decide.judged((), (), records, "boot")

    assert list(decide.headlines(judged, is_declared=is_declared)) == [
        f"power limit 240 W -> 300 W on 2 cards{ends}"
    ]
