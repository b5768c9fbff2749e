"""What doctor makes of programs' outputs that a person gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.registry import PASTED
from tests.unit.doctor.examining import judge
from tests.unit.probe import answers
from tests.unit.probe.pasted import OUTPUTS

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

IDS = {
    "p2p-bandwidth-test": "bench.p2p",
    "nvbandwidth": "bench.nvbandwidth",
    "nccl-tests": "bench.nccl",
    "nccl-log": "nccl.log",
    "gpu-burn": "bench.burn",
}


def found(section: str, text: str) -> list[Finding]:
    return [one for one in judge({section: text}, root=False) if one.id == IDS[section]]


def test_where_nothing_was_pasted_nothing_is_said() -> None:
    assert {section.name for section in PASTED} == {*IDS, "pasted"}
    assert not {one.id for one in judge(answers.BROKEN)} & set(IDS.values())


@pytest.mark.parametrize(
    ("section", "name", "status", "summary"),
    [
        ("p2p-bandwidth-test", "granted-and-fast", "info", "reach 26.34 GB/s or more; whether"),
        ("p2p-bandwidth-test", "granted-and-slow", "fail", "far slower than without it"),
        ("p2p-bandwidth-test", "latency-of-a-timeout", "fail", "49204.8 us, 13.66 us without"),
        ("p2p-bandwidth-test", "not-granted", "info", "no P2P: GPU0 to GPU1, GPU1 to GPU0"),
        ("p2p-bandwidth-test", "ends-where-peers-begin", "unknown", "P2P=Enabled Bandwidth"),
        ("p2p-bandwidth-test", "ends-in-a-kernel", "unknown", "Run kernel on GPU1"),
        ("p2p-bandwidth-test", "values-lost", "fail", "arrive wrong"),
        ("p2p-bandwidth-test", "values-right", "info", "arrived right"),
        ("p2p-bandwidth-test", "waived", "info", "no P2P"),
        ("p2p-bandwidth-test", "tables-alone", "info", "274.55 GB/s"),
        ("p2p-bandwidth-test", "enable-fails", "fail", "error of CUDA"),
        ("nvbandwidth", "three-cards", "info", "21.82 GB/s"),
        ("nvbandwidth", "wrong-values", "fail", "copied the wrong values"),
        ("nvbandwidth", "waived", "info", "no P2P"),
        ("nvbandwidth", "ends-in-a-copy", "unknown", "ends in device_to_device_memcpy_read_ce"),
        ("nvbandwidth", "slow-peers", "fail", "GPU1 to GPU0 2.69 GB/s, from the host 51.29"),
        ("nccl-tests", "values-right", "ok", "4 sizes computed the right values, up to 12.66"),
        ("nccl-tests", "old-layout", "ok", "2 sizes computed the right values"),
        ("nccl-tests", "not-validated", "info", "no value was compared"),
        ("nccl-tests", "values-wrong", "fail", "compute wrong values"),
        ("nccl-tests", "failure", "fail", "ended with an error"),
        ("nccl-tests", "ends-in-the-table", "unknown", "ends after 8388608 bytes"),
        ("gpu-burn", "ok", "ok", "2 cards computed without an error, up to 69 °C"),
        ("gpu-burn", "faulty", "fail", "GPU0 computed wrong results"),
        ("gpu-burn", "died", "fail", "GPU0 stopped computing"),
        ("gpu-burn", "never-began", "fail", "could not test a card"),
        ("gpu-burn", "ends-early", "unknown", "ends at 30 %"),
        ("nccl-log", "peers-complete", "info", "NCCL 2.26.2 copies directly between the cards"),
        ("nccl-log", "host-memory", "info", "through the host's memory (SHM/direct/direct)"),
        ("nccl-log", "ends-in-init", "unknown", "NCCL began 2 communicators, and 0 came to be"),
        ("nccl-log", "no-peer-access", "fail", "peer access that the driver does not grant"),
        ("nccl-log", "no-shared-memory", "fail", "no shared memory in /dev/shm"),
        ("nccl-log", "warned", "warn", "misses iommu=pt"),
    ],
)
def test_what_an_output_proves(section: str, name: str, status: str, summary: str) -> None:
    worst = found(section, OUTPUTS[section][name])[0]

    assert (worst.status, summary in worst.summary) == (status, True), worst.summary
    assert worst.evidence
    assert worst.essential == (worst.status == "unknown")
    assert (worst.fix is not None) == (worst.status in {"fail", "warn"})


def test_every_output_here_is_judged_above() -> None:
    (marks,) = test_what_an_output_proves.pytestmark  # type: ignore[attr-defined]  # pytest's own
    judged = {(section, name) for section, name, *_ in marks.args[1]}

    assert judged == {(section, name) for section in OUTPUTS for name in OUTPUTS[section]}


def test_one_communicator_is_counted_as_one() -> None:
    (init,) = [one for one in OUTPUTS["nccl-log"]["ends-in-init"].splitlines() if "rank 0" in one]

    assert found("nccl-log", init)[0].summary == "NCCL began 1 communicator, and 0 came to be"


@pytest.mark.parametrize("section", IDS)
def test_what_is_none_of_these_outputs_is_never_healthy(section: str) -> None:
    (only,) = found(section, "hello\n")

    assert only.status in {"unknown", "info"}


def test_a_pair_without_access_is_not_called_slow() -> None:
    """What the tables call P2P=Enabled then goes through the host, at any speed."""
    text = OUTPUTS["p2p-bandwidth-test"]["granted-and-slow"].replace(" CAN ", " CANNOT ")

    (only,) = found("p2p-bandwidth-test", text)

    assert only.status == "info"


def test_an_output_of_which_only_some_tables_were_copied_does_not_end_in_a_hang() -> None:
    whole = OUTPUTS["p2p-bandwidth-test"]["granted-and-fast"]
    head, _, rest = whole.partition("Unidirectional P2P=Disabled")
    part = "Bidirectional" + rest.partition("Bidirectional")[2].partition("P2P=Disabled Lat")[0]

    (only,) = found("p2p-bandwidth-test", head + part)

    assert only.status == "info"
    assert "51.7 GB/s or more" in only.summary


def test_latencies_are_no_speeds() -> None:
    text = """\
Running device_to_device_latency_sm.
Device to Device Latency SM GPU(row) <-> GPU(column) (ns)
           0         1
 0       N/A   1287.32
 1   1290.10       N/A

SUM device_to_device_latency_sm 2577.42
"""
    (only,) = found("nvbandwidth", text)

    assert only.summary == "nothing was copied from card to card"


def test_what_nccl_warns_everybody_of_is_not_told() -> None:
    line = "rig:1:1 [0] graph/search.cc:1135 NCCL WARN Could not find a path for pattern 4, "

    (only,) = found("nccl-log", f"NCCL version 2.25.1+cuda12.8\n{line}falling back to simple order")

    assert only.status == "info"


def test_a_hang_is_told_beside_a_line_that_does_not_explain_it() -> None:
    text = OUTPUTS["nccl-log"]["ends-in-init"]
    line = "rig:1:1 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0."

    assert {one.status for one in found("nccl-log", f"{line}\n{text}")} == {"unknown", "info"}


def test_two_runs_are_judged_each() -> None:
    outputs = OUTPUTS["p2p-bandwidth-test"]

    statuses = [
        one.status
        for one in found("p2p-bandwidth-test", outputs["values-lost"] + outputs["granted-and-fast"])
    ]

    assert statuses == ["fail", "info"]


@pytest.mark.parametrize("at", range(0, 1400, 100))
def test_a_failure_is_not_made_healthy_by_a_cut(at: int) -> None:
    text = OUTPUTS["p2p-bandwidth-test"]["values-lost"]

    assert "ok" not in {one.status for one in found("p2p-bandwidth-test", text[:at])}


@pytest.mark.parametrize(
    ("message", "status", "words"),
    [
        ("Cuda failure 'unspecified launch failure'", "fail", "unspecified launch failure"),
        ("Call to connect returned Connection refused", "fail", "Connection refused"),
        ("Something that nobody has read before", "warn", "nobody has read"),
        (
            "NUMA auto balancing enabled which can lead to variability in the RCCL performance!",
            "warn",
            "NUMA",
        ),
    ],
)
def test_a_warning_of_nccl_is_told(message: str, status: str, words: str) -> None:
    line = f"rig:1:1 [0] init.cc:1 NCCL WARN {message}"

    (only,) = found("nccl-log", line)

    assert (only.status, only.evidence[0].line) == (status, line)
    assert words in only.summary
