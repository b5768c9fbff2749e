"""Rarer faults: each is found by name on every pair that has it and on no other, and in time."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from tests.shards import PREFLIGHT
from tests.unit.preflight.rigs import ADDRESSES

if TYPE_CHECKING:
    from tests.unit.preflight.rigs import Rig, Run

pytestmark = pytest.mark.shard(PREFLIGHT)

SMALL_BAR1 = "often a BAR1 that is too small for peer mappings"
ALL = tuple(permutations(range(3), 2))
# Of sizes that simulated cards take for large.
SMALLER = {
    "WHOLE: Final = 4 << 20": "WHOLE: Final = 256 << 10",
    "_MOST_S: Final = 3.0": "_MOST_S: Final = 60.0",
}
# Copies that are timed while others copy too.
FEWER = {"_WINDOW_MS: Final = 10.0": "_WINDOW_MS: Final = 0.1"}
AT_MOST_S = 60  # of what is not waited for: whole runs of these rigs take 2


def found(run: Run) -> dict[tuple[int, int], str]:
    return {pair: run.pair(*pair)["verdict"] for pair in ALL}


def test_peer_access_that_cannot_be_mapped(rig: Rig) -> None:
    rig.write(3, copies={(0, 2): "map-fails", (1, 2): "map-fails"})

    run = rig.run()

    expected = {pair: "error" if pair[1] == 2 else "ok" for pair in ALL}
    assert found(run) == expected
    for pair in ((0, 2), (1, 2)):
        assert run.pair(*pair)["evidence"] == [
            f"cuCtxEnablePeerAccess: CUDA_ERROR_MAP_FAILED 205 ({SMALL_BAR1})",
            "the driver granted it and then refused",
        ]
    assert run.pair(2, 0)["both_ways_gb_per_s"] is None
    assert run.pair(0, 1)["both_ways_gb_per_s"] > 20


def test_a_card_that_gets_wrong_bytes_from_the_host(rig: Rig) -> None:
    rig.write(3, corrupt=1)

    run = rig.run()

    assert found(run) == {pair: "hardware" if 1 in pair else "ok" for pair in ALL}
    for pair in ALL:
        if 1 in pair:
            assert "staged through the host: " in run.pair(*pair)["evidence"][0]


def test_a_card_that_falls_as_the_first_copy_begins(rig: Rig) -> None:
    rig.write(3, more=f"falls 2 1 {rig.folder / 'copies'}")

    run = rig.run()

    assert found(run) == {pair: "error" if 2 in pair else "ok" for pair in ALL}
    for pair in ALL:
        if 2 in pair:
            assert "CUDA_ERROR_UNKNOWN 999" in run.pair(*pair)["evidence"][0]


def test_a_card_that_falls_later_fails_where_each_pair_was_then(rig: Rig) -> None:
    copies = rig.folder / "copies"
    rig.write(3, copy="loads-wrong", more=f"falls 2 99999 {copies}")
    rig.run()
    of_each_pair = copies.stat().st_size // 4
    copies.unlink()
    rig.write(3, more=f"falls 2 {of_each_pair + of_each_pair // 2} {copies}")

    run = rig.run()

    assert found(run) == {pair: "error" if 2 in pair else "ok" for pair in ALL}
    levels = {pair: run.pair(*pair)["level"] for pair in ALL if 2 in pair}
    assert levels == {(0, 2): "L4", (1, 2): "L1", (2, 0): "L1", (2, 1): "L1"}
    assert run.pair(0, 2)["evidence"][0] == "all pairs at once"


def test_a_card_that_falls_and_is_not_listed_any_more_changes_the_names_of_no_other(
    rig: Rig,
) -> None:
    """Others get its number: by numbers, a pair of others would be tried under its name."""
    rig.write(3, more=f"falls 0 1 {rig.folder / 'copies'}\nlost are gone")

    run = rig.run()

    assert found(run) == {pair: "error" if 0 in pair else "ok" for pair in ALL}
    assert run.pair(1, 2)["level"] == run.pair(2, 1)["level"] == "L5"
    gone = "cuDeviceGetByPCIBusId: CUDA_ERROR_INVALID_DEVICE 101"
    assert run.pair(2, 0)["evidence"] == [gone]


def test_a_card_that_falls_at_any_step_of_a_pair_is_an_error_there(rig: Rig) -> None:
    """Whatever the copy is for: none is the last thing that is done with the card."""
    copies = rig.folder / "copies"
    rig.write(more=f"falls 1 99999 {copies}", refused=frozenset({(1, 0)}))
    rig.run(changes=FEWER)
    of_the_pair = copies.stat().st_size
    steps = set()
    for number in range(1, of_the_pair + 1, 3):
        copies.unlink()
        rig.write(more=f"falls 1 {number} {copies}", refused=frozenset({(1, 0)}))

        run = rig.run(changes=FEWER)

        assert run.verdicts() == ["error", "one_way"], number
        steps.add([event["step"] for event in run.events if event.get("pair") == [0, 1]][-1])
    assert {"timing copies staged by the driver", "copy of 1 MiB", "timing direct copies"} <= steps


@pytest.mark.parametrize("level", ["quick", "p2p"])
def test_a_hang_at_init_ends_in_time_and_tries_nothing(rig: Rig, level: str) -> None:
    rig.write(3, more="init hang")

    run = rig.run(level=level, init_s=1)

    assert run.seconds < 1 + AT_MOST_S
    assert run.result["pairs"] == []
    (trouble,) = run.result["troubles"]
    assert trouble == {"kind": "hang", "message": "cuInit: did not end in time"}


def test_a_hang_that_not_even_kill_ends_stops_everything(rig: Rig) -> None:
    """A process in state D is as one that gets no signal and says nothing."""
    rig.write(3, copies={(0, 2): "hang"})
    changes = {
        "os.killpg(child, number)": "pass",
        "_NEWS_EVERY: Final = 2.0": "_NEWS_EVERY: Final = 60.0",
    }

    run = rig.run(pair_s=1, dead_s=1, changes=changes)

    assert run.seconds < 1 + AT_MOST_S
    assert found(run) == {
        pair: "ok" if pair == (0, 1) else "hang" if pair == (0, 2) else "skipped" for pair in ALL
    }
    assert any(line.startswith("KILL did not end") for line in run.pair(0, 2)["evidence"])
    hang = f"the hang of {ADDRESSES[0]} to {ADDRESSES[2]}"
    assert run.pair(1, 0)["evidence"] == [
        f"not tried after {hang}, which nothing but a reboot ends"
    ]
    assert run.result["needs_reboot"]


def test_a_window_that_ends_before_the_largest_size(rig: Rig) -> None:
    """Copies of that size are right, and so are kernels below it."""
    rig.write(3, copies={(1, 2): "wraps"})

    run = rig.run(changes=SMALLER)

    assert found(run) == {pair: "wrong_data" if pair == (1, 2) else "ok" for pair in ALL}
    pair = run.pair(1, 2)
    assert (pair["level"], pair["evidence"][0]) == ("L2", "1 MiB: 1 of 1 passes wrong")
    assert "5 times 64 KiB, 256 KiB, 1 MiB stored" in str(run.pair(0, 1)["evidence"])


def test_where_kernels_are_slow_the_largest_size_is_left_out(rig: Rig) -> None:
    rig.write()

    run = rig.run(changes={**SMALLER, "_MOST_S: Final = 3.0": "_MOST_S: Final = 0.0"})

    assert run.verdicts() == ["ok", "ok"]
    assert "4 times 64 KiB, 256 KiB stored" in str(run.pair(0, 1)["evidence"])


def test_memory_that_another_process_may_not_open(rig: Rig) -> None:
    refused = ((0, 2), (2, 1))
    rig.write(3, copies=dict.fromkeys(refused, "ipc-refused"))

    run = rig.run()

    assert found(run) == {pair: "error" if pair in refused else "ok" for pair in ALL}
    for pair in refused:
        assert run.pair(*pair)["level"] == "L5"
        assert run.pair(*pair)["gb_per_s"] > 10
        assert run.pair(*pair)["evidence"][0].startswith("cuIpcOpenMemHandle_v2: ")


def test_a_fault_that_only_all_pairs_at_once_show(rig: Rig) -> None:
    rig.write(3, copies={(0, 1): "crowd-wrong"})

    run = rig.run()

    assert found(run) == {pair: "wrong_data" if pair == (0, 1) else "ok" for pair in ALL}
    assert run.pair(0, 1)["level"] == "L4"
    assert run.pair(0, 1)["evidence"][0] == "all pairs at once"


def test_a_hang_that_only_all_pairs_at_once_show(rig: Rig) -> None:
    rig.write(3, copies={(0, 1): "crowd-hang"})

    run = rig.run(pair_s=4)

    assert run.seconds < 4 + AT_MOST_S
    assert run.pair(0, 1)["verdict"] == "hang"
    assert run.pair(0, 1)["level"] == "L4"
    assert not run.result["needs_reboot"]


def test_what_leaves_a_switch_for_two_places_at_once_is_slow(rig: Rig) -> None:
    rig.write(4, copy="crowd-slow", more="switch 0 1")

    run = rig.run(pairs=("0:2", "1:3", "3:2"))

    assert {run.pair(*pair)["verdict"] for pair in ((0, 2), (1, 3), (3, 2))} == {"ok"}
    share = {
        (flow["from"], flow["to"]): flow["gb_per_s"] / run.pair(0, 2)["gb_per_s"]
        for flow in run.result["flows"]
    }
    assert share == {
        (ADDRESSES[0], ADDRESSES[2]): pytest.approx(1 / 8, rel=0.01),
        (ADDRESSES[1], ADDRESSES[3]): pytest.approx(1 / 8, rel=0.01),
        (ADDRESSES[3], ADDRESSES[2]): pytest.approx(1, rel=0.01),
    }


def test_what_leaves_a_switch_shares_its_link(rig: Rig) -> None:
    rig.write(4, more="switch 0 1")

    run = rig.run(pairs=("0:2", "1:3"))

    half = pytest.approx(run.pair(0, 2)["gb_per_s"] / 2, rel=0.01)
    assert [flow["gb_per_s"] for flow in run.result["flows"]] == [half, half]
