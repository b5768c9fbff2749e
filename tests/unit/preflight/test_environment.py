"""What programs should be set to, by what a preflight found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigops.errors import HostError
from rigops.preflight.environment import environment
from rigops.preflight.found import CollectivesFound, HostFound, PairFound
from rigops.report.preflight import environment_lines


def found(
    *pairs: tuple[str, str], status: str = "fail", error: HostError | None = None
) -> HostFound:
    """Each pair: its verdict and its link."""
    return HostFound(
        host="rig",
        status=status,
        at="2026-11-26T02:00:00Z",
        level="L1",
        pairs=tuple(
            PairFound(f"0000:{n:02x}:00.0", "0000:ff:00.0", verdict, "L1", link=link)
            for n, (verdict, link) in enumerate(pairs)
        ),
        error=error,
    )


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (found(("hang", "PHB"), ("skipped", "PHB")), ("NCCL_P2P_DISABLE", "1")),
        (found(("wrong_data", "NV4"), ("ok", "SYS")), ("NCCL_P2P_DISABLE", "1")),
        (found(("wrong_data", ""), ("ok", "NV4")), ("NCCL_P2P_DISABLE", "1")),
        (found(("wrong_data", "PHB"), ("ok", "NV4")), ("NCCL_P2P_LEVEL", "PXB")),
        (found(("wrong_data", "PIX"), ("ok", "NV4")), ("NCCL_P2P_LEVEL", "NVL")),
        (found(("error", "NODE"), ("ok", "PIX")), ("NCCL_P2P_LEVEL", "PXB")),
        (found(("error", "SYS"), ("ok", "NODE")), ("NCCL_P2P_LEVEL", "PHB")),
        (found(("error", "SYS"), ("ok", "SYS")), ("NCCL_P2P_DISABLE", "1")),
        (found(("skipped", "PHB"), status="ok"), ("NCCL_P2P_DISABLE", "1")),
        (found(("unknown", "PHB"), status="unknown"), ("NCCL_P2P_DISABLE", "1")),
        (found(status="unknown"), ("NCCL_P2P_DISABLE", "1")),
        (found(status="fail"), ("NCCL_P2P_DISABLE", "1")),
    ],
)
def test_what_is_not_proven_is_turned_off(host: HostFound, expected: tuple[str, str]) -> None:
    (variable,) = environment(host).variables

    assert (variable.name, variable.value) == expected
    assert variable.until == "`rigops preflight rig` passes"


@pytest.mark.parametrize(
    ("host", "note"),
    [
        (found(("ok", "PHB"), status="ok"), "nothing to set"),
        (found(("ok", "PHB"), ("one_way", "PHB"), status="warn"), "nothing to set"),
        (found(("not_granted", "PHB"), status="ok"), "no peer access"),
        (found(("not_granted", "PHB"), status="fail"), "no peer access"),  # declared as required
        (found(status="ok"), "no pair of GPUs"),
    ],
)
def test_where_nothing_is_to_be_set_comments_say_why(host: HostFound, note: str) -> None:
    assert environment(host).variables == ()
    lines = environment_lines(host)
    assert all(line.startswith("# ") for line in lines)
    assert note in lines[-1]


@pytest.mark.parametrize(
    ("pairs", "cause", "expected"),
    [
        ([("ok", "PHB")], "p2p", [("NCCL_P2P_DISABLE", "1")]),
        ([("ok", "PHB")], "", [("NCCL_P2P_DISABLE", "1")]),
        ([("ok", "PHB")], "other", []),
        ([("not_granted", "PHB")], "", []),
        ([("wrong_data", "PHB"), ("ok", "NV4")], "p2p", [("NCCL_P2P_LEVEL", "PXB")]),
    ],
)
def test_collectives_that_fail_with_p2p_turn_it_off(
    pairs: list[tuple[str, str]], cause: str, expected: list[tuple[str, str]]
) -> None:
    failed = CollectivesFound(verdict="failed", cause=cause)
    host = replace(found(*pairs), collectives=failed, reasons=("all-reduce by NCCL fails",))

    variables = environment(host).variables

    assert [(variable.name, variable.value) for variable in variables] == expected


def test_slow_copies_are_a_hint_and_no_veto() -> None:
    given = environment(found(("slower_than_staged", "PHB"), ("ok", "PHB"), status="warn"))

    assert given.variables == ()
    assert "compare with NCCL_P2P_DISABLE=1" in given.notes[-1]


def test_why_names_the_worst_first_and_counts_the_rest() -> None:
    given = environment(found(("skipped", "PHB"), *[("hang", "PHB")] * 5))

    (variable,) = given.variables
    assert variable.why == (
        "hang 0000:01:00.0 to 0000:ff:00.0, hang 0000:02:00.0 to 0000:ff:00.0, "
        "hang 0000:03:00.0 to 0000:ff:00.0 and 2 more"
    )
    lost = environment(found(status="unknown", error=HostError("timeout", "no answer")))
    assert lost.variables[0].why == "no answer"
