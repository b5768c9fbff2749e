from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.hostside.p2p.verdict import (
    GRAVEST_FIRST,
    PAGE,
    REFUSED,
    STATUS_OF,
    VERDICTS,
    Copied,
    Demand,
    Reading,
    classify,
    exit_code,
    gravest,
    judge_data,
    judge_host,
    judge_speed,
    pattern,
    poison,
)

RIGHT = Reading("right")
GARBAGE = Reading("other", 0, 1, 1)
NOTHING = Reading("nothing", 0, 1, 1)
SIZE = 5 * PAGE
BIG = (1 << 20) * 2 + PAGE


def test_the_words_of_the_contract_and_how_grave_they_are() -> None:
    assert {verdict for verdict in VERDICTS if STATUS_OF[verdict] == "fail"} == {
        *("hang", "wrong_data", "mirror", "unstable", "error", "hardware")
    }
    assert {verdict for verdict in VERDICTS if STATUS_OF[verdict] == "warn"} == {
        "one_way",
        "slower_than_staged",
    }
    assert {verdict for verdict in VERDICTS if STATUS_OF[verdict] == "ok"} == {"ok", "not_granted"}
    assert STATUS_OF["skipped"] == "skipped"
    assert STATUS_OF["unknown"] == "unknown"
    assert set(STATUS_OF.values()) == set(GRAVEST_FIRST)


@pytest.mark.parametrize(
    ("statuses", "status", "code"),
    [
        ([], "ok", 0),
        (["ok", "warn"], "warn", 0),
        (["ok", "skipped"], "ok", 0),
        (["skipped"], "skipped", 0),
        (["warn", "unknown", "ok"], "unknown", 3),
        (["unknown", "fail"], "fail", 1),
    ],
)
def test_the_gravest_status_decides_the_exit_code(
    statuses: list[str], status: str, code: int
) -> None:
    assert gravest(statuses) == status
    assert exit_code(gravest(statuses)) == code


def test_no_two_copies_and_no_two_places_are_alike() -> None:
    sent = [
        pattern(0, 1, 1, BIG),
        pattern(1, 0, 1, BIG),
        pattern(0, 1, 2, BIG),
        pattern(0, 2, 1, BIG),
    ]
    pages = [data[at : at + PAGE] for data in sent for at in range(0, BIG, PAGE)]

    assert len(set(pages)) == len(pages)
    assert poison(PAGE) not in pages
    assert all(len(data) == BIG for data in sent)


@pytest.mark.parametrize(
    ("received", "found"),
    [
        (pattern(3, 1, 7, SIZE), "right"),
        (poison(SIZE), "nothing"),
        (bytes(SIZE), "zeros"),
        (pattern(1, 3, 7, SIZE), "reversed"),
        (pattern(3, 1, 6, SIZE), "stale"),
        (pattern(3, 2, 7, SIZE), "other"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_arrived_is_recognised(received: bytes, found: str) -> None:
    assert classify(received, 3, 1, 7).found == found


@given(
    start=st.integers(0, SIZE - 32),
    length=st.integers(32, SIZE),
    kind=st.sampled_from(["nothing", "zeros", "reversed", "stale"]),
)
def test_where_it_went_wrong_is_found_to_the_byte(start: int, length: int, kind: str) -> None:
    right = pattern(0, 1, 5, SIZE)
    wrong = {
        "nothing": poison(SIZE),
        "zeros": bytes(SIZE),
        "reversed": pattern(1, 0, 5, SIZE),
        "stale": pattern(0, 1, 4, SIZE),
    }[kind]
    end = min(start + length, SIZE)
    received = right[:start] + wrong[start:end] + right[end:]
    differing = [at for at in range(SIZE) if received[at] != right[at]]

    reading = classify(received, 0, 1, 5)

    assert reading.found == kind
    assert reading.first == differing[0]
    assert reading.bad_pages == len({at // PAGE for at in differing})
    assert reading.pages == SIZE // PAGE


@given(st.integers(0, SIZE * 8 - 1))
def test_a_single_flipped_bit_is_found(bit: int) -> None:
    received = bytearray(pattern(0, 1, 1, SIZE))
    received[bit // 8] ^= 1 << bit % 8

    assert classify(received, 0, 1, 1) == Reading("other", bit // 8, 1, SIZE // PAGE)


@pytest.mark.parametrize(
    ("copies", "control", "verdict"),
    [
        ([Copied(PAGE, RIGHT)] * 3, RIGHT, "ok"),
        ([Copied(PAGE, RIGHT)], GARBAGE, "hardware"),
        ([Copied(PAGE, GARBAGE)], GARBAGE, "hardware"),
        ([Copied(PAGE, RIGHT), Copied(SIZE, GARBAGE), Copied(SIZE, GARBAGE)], RIGHT, "wrong_data"),
        ([Copied(PAGE, RIGHT), Copied(PAGE, GARBAGE)], RIGHT, "unstable"),
        ([Copied(PAGE, NOTHING, writer_sees_it=True)] * 2, RIGHT, "mirror"),
        ([Copied(PAGE, GARBAGE, writer_sees_it=True)] * 2, RIGHT, "wrong_data"),
        ([Copied(PAGE, NOTHING)] * 2, RIGHT, "wrong_data"),
        ([Copied(PAGE, RIGHT, guards_intact=False)], RIGHT, "wrong_data"),
    ],
)
def test_the_bytes_decide(copies: list[Copied], control: Reading, verdict: str) -> None:
    found, evidence = judge_data(copies, control)

    assert found == verdict
    assert bool(evidence) == (verdict != "ok")


def test_the_evidence_says_how_much_is_wrong_and_from_where() -> None:
    copies = [Copied(PAGE, RIGHT), *[Copied(SIZE, Reading("stale", 8192, 3, 5))] * 2]

    (said,) = judge_data(copies, RIGHT)[1]
    where = "20 KiB: 2 of 2 wrong: 3 of 5 pages bad, from byte 8192 on"
    assert said == f"{where}; it is the data of the copy before"


@pytest.mark.parametrize(
    ("rate", "staged", "verdict"),
    [
        ([12.9, 12.8], [9.8, 9.7], "ok"),
        ([9.7], [9.8], "ok"),
        ([3.0, 3.1, 2.9], [9.8, 9.9, 9.7], "slower_than_staged"),
        ([3.0, 3.1, 9.8], [9.8, 9.9, 9.7], "ok"),
        ([], [9.8], "ok"),
        ([3.0], [], "ok"),
    ],
)
def test_peer_copies_should_not_be_slower_than_the_way_through_the_host(
    rate: list[float], staged: list[float], verdict: str
) -> None:
    assert judge_speed(rate, staged)[0] == verdict


SCATTER = st.lists(st.floats(0.85, 1.0), min_size=5, max_size=5)


@given(SCATTER, SCATTER, st.floats(1.0, 2000.0))
def test_scatter_of_15_percent_makes_no_path_slower_than_itself(
    direct: list[float], staged: list[float], rate: float
) -> None:
    assert judge_speed([rate * x for x in direct], [rate * x for x in staged])[0] == "ok"


def test_an_h200_that_copied_within_itself_both_ways_is_not_slower() -> None:
    """Rates of 64 MiB as they were seen there, the slowest and the fastest."""
    assert judge_speed([1330.0, 1412.0, 1390.0], [1561.0, 1672.0, 1640.0])[0] == "ok"


AB, BA = ("a", "b"), ("b", "a")


@pytest.mark.parametrize(
    ("verdicts", "demand", "status"),
    [
        ({AB: "ok", BA: "ok"}, Demand(), "ok"),
        ({AB: "not_granted", BA: "not_granted"}, Demand(), "ok"),
        ({AB: "ok", BA: "one_way"}, Demand(), "warn"),
        ({AB: "hang", BA: "skipped"}, Demand(), "fail"),
        ({AB: "ok", BA: "unknown"}, Demand(), "unknown"),
        ({AB: "ok", BA: "made up"}, Demand(), "unknown"),
        ({}, Demand(), "ok"),
        ({AB: "ok", BA: "slower_than_staged"}, Demand("required"), "warn"),
        ({AB: "not_granted", BA: "not_granted"}, Demand("required"), "fail"),
        ({AB: "ok", BA: "one_way"}, Demand("required"), "fail"),
        ({AB: "ok", BA: "skipped"}, Demand("required"), "unknown"),
        ({AB: "skipped", BA: "skipped"}, Demand("required", copies=False), "ok"),
        ({}, Demand("required"), "fail"),
        ({AB: "ok", BA: "ok"}, Demand("nvlink", wired=[AB, BA]), "ok"),
        ({AB: "not_granted", BA: "ok"}, Demand("nvlink", wired=[AB]), "fail"),
        ({AB: "not_granted", BA: "ok"}, Demand("nvlink", wired=[BA]), "ok"),
        ({AB: "ok", BA: "ok"}, Demand("nvlink", wired=[]), "fail"),
        ({AB: "ok", BA: "ok"}, Demand("nvlink", wired=None), "unknown"),
        ({BA: "ok"}, Demand("nvlink", wired=[AB]), "unknown"),
        ({AB: "ok", BA: "ok"}, Demand(gpus=3), "fail"),
        ({AB: "ok", BA: "ok"}, Demand(gpus=2), "ok"),
    ],
)
def test_a_host_is_judged_by_its_pairs_and_by_what_is_declared(
    verdicts: dict[tuple[str, str], str], demand: Demand, status: str
) -> None:
    assert judge_host(verdicts, 2, demand)[0] == status


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), st.sampled_from(VERDICTS)
    ),
    st.sampled_from(["nvlink", "required"]),
)
def test_a_demand_never_makes_a_host_look_better(
    verdicts: dict[tuple[str, str], str], p2p: str
) -> None:
    demand = Demand(p2p, wired=list(verdicts))
    measured, demanded = judge_host(verdicts, 3, Demand())[0], judge_host(verdicts, 3, demand)[0]

    assert GRAVEST_FIRST.index(demanded) <= GRAVEST_FIRST.index(measured)
    if REFUSED & set(verdicts.values()):
        assert demanded == "fail"
