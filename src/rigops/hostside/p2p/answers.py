"""Messages between the parts of preflight's program, and to the controller, in JSON.

For type checkers only: no program on a host has it.
"""

from __future__ import annotations

from typing import TypedDict


class GpuAnswer(TypedDict):
    address: str
    name: str
    memory: int


class PeerAnswer(TypedDict):
    """Of one GPU about another, as the driver says it."""

    granted: int
    rank: int | None
    atomics: int | None


class CensusAnswer(TypedDict):
    """`peers`: a row a GPU, in which it is itself None."""

    cuda: int
    gpus: list[GpuAnswer]
    peers: list[list[PeerAnswer | None]]


class JobAnswer(TypedDict):
    """A process that computes on a card."""

    address: str
    pid: int
    name: str


class PortAnswer(TypedDict):
    """`id`: of its vendor and device, as lspci -n has it."""

    address: str
    id: str


class BusAnswer(TypedDict):
    """A card on the bus. `max_links`: of it and the port above it. `is_gone`: it has left it.

    `ports`: above it, that of the CPU first. `node`: of its CPU.
    """

    address: str
    driver: str
    max_links: list[str]
    is_gone: bool
    ports: list[PortAnswer]
    node: int | None


PairAnswer = TypedDict(
    "PairAnswer",
    {
        "from": str,
        "to": str,
        "verdict": str,
        "level": str,
        "gb_per_s": float | None,
        "both_ways_gb_per_s": float | None,
        "staged_gb_per_s": float | None,
        "latency_us": float | None,
        "round_trip_us": float | None,
        "evidence": list[str],
    },
    total=False,  # a rung tells what it found
)


FlowAnswer = TypedDict(
    "FlowAnswer", {"turn": int, "from": str, "to": str, "gb_per_s": "float | None"}
)


class ArmAnswer(TypedDict, total=False):
    """Of an all-reduce. `wrong`: empty where all sums were right. `busy`: the GPUs, in an error."""

    error: str
    busy: bool
    wrong: list[str]
    gb_per_s: float | None
    rounds: int


class CollectivesAnswer(TypedDict):
    verdict: str
    cause: str
    evidence: list[str]
    library: str
    version: str
    p2p_gb_per_s: float | None
    control_gb_per_s: float | None


class ChangeAnswer(TypedDict):
    """A counter of bus errors, or what a link had before and after."""

    kind: str
    subject: str
    before: float
    after: float


class LinkAnswer(TypedDict):
    """While bytes moved."""

    gpu: str
    gt_per_s: float | None
    lanes: int | None


class MeanwhileAnswer(TypedDict):
    """`smi`: before and after. `unread`: what could not be read."""

    changes: list[ChangeAnswer]
    links: list[LinkAnswer]
    functions: list[str]
    kernel_log: list[str]
    smi: list[str]
    unread: list[str]


class LogAnswer(TypedDict, total=False):
    """Of the kernel log: its end now (`cursor`, `last` line) or its new lines, or why neither."""

    cursor: str
    last: str
    lines: list[str]
    left_out: int
    why: str


class Trouble(TypedDict):
    kind: str
    message: str


class Result(TypedDict):
    schema: str
    boot_id: str
    at: int
    processor: str
    machine: dict[str, str]
    gpus: list[GpuAnswer]
    on_bus: list[BusAnswer]
    shared_memory: int | None
    topology: str
    jobs: list[JobAnswer]
    pairs: list[PairAnswer]
    flows: list[FlowAnswer]
    collectives: CollectivesAnswer | None
    meanwhile: MeanwhileAnswer | None
    troubles: list[Trouble]
    needs_reboot: bool
