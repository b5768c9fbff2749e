from __future__ import annotations

import pytest

from rigops.preflight.judge import connections, predicted_transport

TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV4\tPHB\t0-23\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\t0-23\t0\t\tN/A\n"
    "GPU2\tPHB\tSYS\t X \t0-23\t0\t\tN/A\n"
    "\nLegend:\n\n  X    = Self\n"
)
NIC_FIRST = (
    "\tNIC0\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
    "NIC0\t X \tPHB\tPHB\tNODE\t\t\n"
    "GPU0\tPHB\t X \tNV4\tPHB\t0-23\t0\n"
    "GPU1\tPHB\tNV4\t X \tSYS\t0-23\t0\n"
    "GPU2\tNODE\tPHB\tSYS\t X \t0-23\t0\n"
    "\nLegend:\n\n  X    = Self\n"
)
ALL = {(one, other) for one in "abc" for other in "abc" if one != other}


@pytest.mark.parametrize("topology", [TOPOLOGY, NIC_FIRST])
def test_the_table_is_read(topology: str) -> None:
    ways = connections(topology, "abc")

    assert ways is not None
    assert set(ways) == ALL
    assert {pair for pair, way in ways.items() if way == "NV"} == {("a", "b"), ("b", "a")}
    assert ways["a", "c"] == "PHB"
    assert ways["c", "b"] == "SYS"


@pytest.mark.parametrize(
    ("topology", "addresses"),
    [
        ("", "ab"),
        (TOPOLOGY, "ab"),
        (TOPOLOGY.replace("NV4", "???"), "abc"),
        (TOPOLOGY.replace("GPU2\tPHB\tSYS\t X \t0-23\t0\t\tN/A\n", ""), "abc"),
        ("\tGPU0\tGPU1\nGPU0\nGPU1\n", "ab"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "ab"),
    ],
)
def test_a_table_that_does_not_fit_is_not_guessed_at(topology: str, addresses: str) -> None:
    assert connections(topology, addresses) is None


@pytest.mark.parametrize(
    ("way", "gpus", "processor", "expected"),
    [
        ("PHB", 3, "AuthenticAMD", "SHM (before NCCL 2.23.4: P2P)"),
        ("PHB", 2, "AuthenticAMD", "P2P"),
        ("PHB", 2, "GenuineIntel", "SHM"),
        ("PIX", 3, "GenuineIntel", "P2P"),
        ("NV", 3, "GenuineIntel", "P2P"),
        ("NV", 1, "AuthenticAMD", None),
    ],
)
def test_what_nccl_will_use(way: str, gpus: int, processor: str, expected: str | None) -> None:
    names = "abc"[:gpus]
    ways = {(one, other): way for one in names for other in names if one != other}

    assert predicted_transport(ways, ways, gpus=gpus, processor=processor) == expected


def test_some_pairs_only() -> None:
    ways = connections(TOPOLOGY, "abc")

    said = predicted_transport(ways, ALL, gpus=3, processor="GenuineIntel")

    assert said == "P2P for 2 of 6 pairs, else SHM"
    assert predicted_transport(None, ALL, gpus=3, processor="GenuineIntel") is None
    assert predicted_transport(None, (), gpus=3, processor="GenuineIntel") == "SHM"
