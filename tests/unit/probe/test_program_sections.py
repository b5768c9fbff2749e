"""What programs print that people run to try their cards."""

from __future__ import annotations

import pytest

from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.registry import PASTED
from rigops.probe.sections import gpu_burn, nccl_log, nccl_tests, nvbandwidth
from tests.unit.probe.pasted import OUTPUTS


def test_each_program_has_outputs_here() -> None:
    assert {*OUTPUTS, "pasted"} == {section.name for section in PASTED}


def test_tables_of_nvbandwidth() -> None:
    found = nvbandwidth.parse(OUTPUTS["nvbandwidth"]["three-cards"])

    assert [one.name for one in found.tests] == [
        "host_to_device_memcpy_ce",
        "device_to_device_memcpy_read_ce",
        "device_local_copy",
    ]
    assert found.tests[1].cells[0, 1] == pytest.approx(26.34)
    assert found.tests[1].cells[0, 0] is None
    assert all(one.is_finished for one in found.tests)


@pytest.mark.parametrize(
    ("name", "waived", "wrong", "finished", "checks"),
    [
        ("waived", True, 0, False, True),
        ("wrong-values", False, 1, False, True),
        ("ends-in-a-copy", False, 0, False, True),
        ("slow-peers", False, 0, True, False),
    ],
)
def test_how_the_last_test_of_nvbandwidth_ended(
    name: str, *, waived: bool, wrong: int, finished: bool, checks: bool
) -> None:
    found = nvbandwidth.parse(OUTPUTS["nvbandwidth"][name])
    last = found.tests[-1]

    assert (last.is_waived, len(last.wrong), last.is_finished) == (waived, wrong, finished)
    assert found.checks_data is checks


@pytest.mark.parametrize(
    ("name", "sizes", "validates", "wrong"),
    [
        ("values-right", 4, True, {"0"}),
        ("values-wrong", 3, True, {"0", "4", "262142", "262144"}),
        ("not-validated", 3, False, {"N/A"}),
        ("old-layout", 2, True, {"0e+00", "2e-07"}),
    ],
)
def test_tables_of_nccl_tests(name: str, sizes: int, *, validates: bool, wrong: set[str]) -> None:
    (run,) = nccl_tests.parse(OUTPUTS["nccl-tests"][name]).runs

    assert (len(run.rows), run.validates) == (sizes, validates)
    assert {cell for row in run.rows for cell in row.wrong} == wrong
    assert run.has_ended


@pytest.mark.parametrize(
    "row",
    [
        "1024 256 float 20.86 0.05 0.25 0",
        "1024 256 float sum 20.86 0.05 0.25 0",
        "1024 256 float sum -1 20.86 0.05 0.25 0",
        "1024 256 float 0 20.86 0.05 0.25 0 20.86 0.05 0.24 0",
        "1024 256 float sum 20.86 0.05 0.25 0 20.86 0.05 0.24 0",
        "1024 256 float sum -1 20.86 0.05 0.25 0 20.86 0.05 0.24 0",
    ],
)
def test_a_row_with_any_columns(row: str) -> None:
    (run,) = nccl_tests.parse(row).runs

    assert run.rows[0].bus_gb_s == pytest.approx(0.25)
    assert set(run.rows[0].wrong) == {"0"}


def test_runs_one_after_the_other_are_runs_of_their_own() -> None:
    outputs = OUTPUTS["nccl-tests"]
    found = nccl_tests.parse(
        outputs["values-right"] + outputs["failure"] + outputs["ends-in-the-table"]
    )

    assert [(one.ranks, len(one.rows), one.has_ended) for one in found.runs] == [
        (2, 4, True),
        (2, 0, False),
        (2, 1, False),
    ]
    assert len(found.runs[1].failures) == 2


def test_a_log_of_nccl() -> None:
    found = nccl_log.parse(OUTPUTS["nccl-log"]["peers-complete"])

    assert found.version == "2.26.2"
    assert set(found.ways) == {"P2P/CUMEM"}
    assert found.settings == {"NCCL_P2P_LEVEL": "SYS"}
    assert (found.started, found.completed) == (2, 2)


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        ("P2P/CUMEM", "P2P"),
        ("P2P/IPC/read", "P2P"),
        ("P2P/direct pointer", "P2P"),
        ("SHM/direct/direct", "SHM"),
        ("direct shared memory", "SHM"),
        ("NET/Socket/0", "NET"),
        ("NET/IB/9/GDRDMA/Shared", "NET"),
    ],
)
def test_ways_between_cards(way: str, kind: str) -> None:
    line = f"rig:1:1 [0] NCCL INFO Channel 00/0 : 0[1000] -> 1[c1000] [send] via {way}"
    found = nccl_log.parse(line)

    assert found.transports == {kind}


@pytest.mark.parametrize(
    ("name", "errors", "results", "has_ended"),
    [
        ("ok", {}, {0: True, 1: True}, True),
        ("faulty", {0: "-524288000  (WARNING!)"}, {0: False, 1: True}, True),
        ("died", {0: "-533715488  (DIED!)"}, {}, False),
        ("ends-early", {}, {}, False),
    ],
)
def test_gpu_burn(
    name: str, errors: dict[int, str], results: dict[int, bool], *, has_ended: bool
) -> None:
    found = gpu_burn.parse(OUTPUTS["gpu-burn"][name])

    assert found.progress[-1].errors == errors
    assert (found.results, found.has_ended) == (results, has_ended)


def test_gpu_burn_overwrites_its_own_lines() -> None:
    found = gpu_burn.parse(OUTPUTS["gpu-burn"]["ok"])

    assert [one.percent for one in found.progress] == [20, 50, 100]
    assert found.progress[0].idle == {1}
    assert found.progress[-1].celsius == (69, 67)


@pytest.mark.parametrize("section", ["nccl-log", "nccl-tests"])
def test_the_host_in_a_log_is_redacted(section: str) -> None:
    texts = {name: Collected(text) for name, text in OUTPUTS[section].items()}
    bundles = [Bundle("x", None, root=False, sections={section: one}) for one in texts.values()]

    redaction = Redaction(bundles)
    redacted = "\n".join(redaction.bundle(one).sections[section].text for one in bundles)

    assert "tower" not in redacted


@pytest.mark.parametrize(
    "text",
    [
        (
            "Driver Version: 545.29.06\n\nDevice 0: NVIDIA GeForce RTX 4090\n"
            "Device 1: NVIDIA L4 (00000000:41:00)\n"
        ),
        (
            '"Driver Version" : "545.29.06",\n"0: NVIDIA GeForce RTX 4090: 00000000:01:00.0",\n'
            '"1: NVIDIA L4"\n'
        ),
    ],
)
def test_nvbandwidth_names_the_driver_and_the_cards(text: str) -> None:
    found = nvbandwidth.parse(
        f"CUDA Driver Version: 12030\n{text}Running host_to_device_memcpy_ce.\n"
    )

    assert found.driver == "545.29.06"
    assert found.devices == {0: "NVIDIA GeForce RTX 4090", 1: "NVIDIA L4"}
