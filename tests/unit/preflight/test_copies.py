"""How long copies are timed: enough for a verdict, and no longer where they are slow."""

from __future__ import annotations

import pytest

from rigops.hostside.p2p import copies

SIZE = 64 << 20


@pytest.mark.parametrize(
    ("one_copy_ms", "least_ms", "most_copies"),
    [
        (0.04, 20.0, 512),  # between two halves of an H200
        (2.7, 20.0, 12),  # PCIe 4.0 x16
        (75.0, 20.0, 7),  # staged by a slow host
        (0.0, 0.0, 7),  # a clock that sees nothing
    ],
)
def test_a_rate_is_of_20_ms_at_least(one_copy_ms: float, least_ms: float, most_copies: int) -> None:
    asked: list[int] = []

    def sample(size: int, count: int) -> float:
        assert size == SIZE
        asked.append(count)
        return count * one_copy_ms

    rates = copies.rates_of(SIZE, sample)

    assert sum(asked[2:]) * one_copy_ms >= least_ms
    assert sum(asked) <= most_copies
    assert all(rate == pytest.approx(SIZE / one_copy_ms / 1e6) for rate in rates)
    assert len(rates) == (5 if one_copy_ms else 0)
