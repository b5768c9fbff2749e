"""The program that is sent to hosts, whole, against every way in which a rig can be broken."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from rigops.hostside.p2p import watched
from rigops.hostside.packing import pack
from rigops.preflight.payload import read_answer
from tests.lab.silicon.cuda import build
from tests.unit.hostside.trees import oldest_python
from tests.unit.preflight.rigs import ADDRESSES, DRIVER, Rig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOPOLOGY = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libcuda.so.1, as the linker looks for it."""
    if not (shutil.which("gcc")):
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "libcuda.so.1").symlink_to(build.build(folder / "built", DRIVER)["libcuda.so.1"])
    return folder


@pytest.fixture
def rig(libraries: Path, tmp_path: Path) -> Rig:
    made = Rig(tmp_path, libraries / "libcuda.so.1")
    made.program("nvidia-smi", f"printf '{TOPOLOGY}'")
    return made


def test_a_good_pair_is_proven_and_measured(rig: Rig) -> None:
    rig.write()

    run = rig.run()

    assert run.verdicts() == ["ok", "ok"]
    pair = run.pair(0, 1)
    assert pair["level"] == "L1"
    assert 10 < pair["gb_per_s"] <= 12.9
    assert 20 < pair["both_ways_gb_per_s"] <= 24.1
    assert 5 < pair["staged_gb_per_s"] <= 9.8
    assert 1 <= pair["latency_us"] < 2
    assert pair["evidence"] == ["6 copies of 4 KiB, 1 MiB arrived whole, as their owner reads them"]
    assert run.result["topology"].split() == TOPOLOGY.split()
    assert [gpu["address"] for gpu in run.result["gpus"]] == list(ADDRESSES[:2])
    assert not run.result["needs_reboot"]


@pytest.mark.parametrize(
    ("level", "how"),
    [("p2p", {}), ("quick", {}), ("p2p", {"copy": "wrong"}), ("p2p", {"granted": False})],
)
def test_its_result_is_read(rig: Rig, level: str, how: dict[str, Any]) -> None:
    rig.write(**how)
    run = rig.run(level=level)

    answer = read_answer(json.dumps({"event": "result", "result": run.result}).encode())

    assert answer is not None
    assert [pair.verdict for pair in answer.pairs] == run.verdicts()
    assert [gpu.address for gpu in answer.gpus] == list(ADDRESSES[:2])
    assert [pair.gb_per_s for pair in answer.pairs] == [
        one["gb_per_s"] for one in run.result["pairs"]
    ]


def test_no_gpu_is_read(rig: Rig) -> None:
    rig.write(0)
    rig.put_on_bus(ADDRESSES[0])

    answer = read_answer(json.dumps({"result": rig.run().result}).encode())

    assert answer is not None
    assert (answer.on_bus, answer.driven) == (1, (ADDRESSES[0],))


def test_it_runs_on_the_oldest_python(rig: Rig) -> None:
    rig.write(copy="wrong")

    assert rig.run(python=oldest_python()).verdicts() == ["wrong_data", "wrong_data"]


def test_quick_copies_nothing(rig: Rig) -> None:
    rig.write(copy="hang")

    run = rig.run(level="quick", pair_s=1)

    assert run.verdicts() == ["skipped", "skipped"]
    assert run.pair(0, 1)["evidence"] == [
        "granted by the driver (rank 1, atomics 0); copies were not tried"
    ]


def test_refused_is_not_tried(rig: Rig) -> None:
    rig.write(granted=False, copy="hang")

    run = rig.run(pair_s=1)

    assert run.verdicts() == ["not_granted", "not_granted"]
    assert run.pair(0, 1)["level"] == "L0"


def test_only_the_refused_direction_is_marked(rig: Rig) -> None:
    rig.write(refused=frozenset({(1, 0)}))

    run = rig.run()

    assert run.pair(0, 1)["verdict"] == "ok"
    assert run.pair(0, 1)["both_ways_gb_per_s"] is None
    assert run.pair(1, 0)["verdict"] == "one_way"


def test_a_hang_ends_in_time_and_its_gpus_are_left_alone(rig: Rig) -> None:
    rig.write(3, copy="hang")

    run = rig.run(pair_s=2)

    assert run.seconds < 10
    assert run.verdicts() == ["hang", *["skipped"] * 5]
    assert run.pair(0, 1)["level"] == "L1"
    assert run.pair(0, 1)["evidence"][0] == "copy of 4 KiB: did not end in time"
    assert "in state" in run.pair(0, 1)["evidence"][1]
    assert run.pair(2, 1)["evidence"] == [
        f"not tried after the hang of {ADDRESSES[0]} to {ADDRESSES[1]}"
    ]
    assert not run.result["needs_reboot"]


@pytest.mark.parametrize(
    ("copy", "verdict", "evidence"),
    [
        ("wrong", "wrong_data", "1 MiB: 3 of 3 wrong: "),
        ("mirror", "mirror", "the writer reads its own data back, the owner does not have it"),
        ("stale", "wrong_data", "it is the data of the copy before"),
    ],
)
def test_data_that_the_owner_does_not_have(
    rig: Rig, copy: str, verdict: str, evidence: str
) -> None:
    rig.write(copy=copy)

    run = rig.run()

    assert run.verdicts() == [verdict, verdict]
    assert any(evidence in line for line in run.pair(0, 1)["evidence"])


def test_slower_than_through_the_host(rig: Rig) -> None:
    rig.write(copy="slow", rate=3)

    pair = rig.run().pair(0, 1)

    assert pair["verdict"] == "slower_than_staged"
    assert pair["gb_per_s"] < pair["staged_gb_per_s"]


def test_a_lost_card(rig: Rig) -> None:
    rig.write(3, lost=1)

    run = rig.run()

    assert run.pair(0, 1)["verdict"] == run.pair(1, 2)["verdict"] == "error"
    assert run.pair(0, 1)["evidence"] == ["cuDevicePrimaryCtxRetain: CUDA_ERROR_UNKNOWN 999"]
    assert run.pair(0, 2)["verdict"] == run.pair(2, 0)["verdict"] == "ok"


def test_a_kernel_module_of_another_version(rig: Rig) -> None:
    rig.write(driver="545.29.06")

    run = rig.run()

    assert run.result["pairs"] == []
    (trouble,) = run.result["troubles"]
    assert trouble["kind"] == "error"
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH 803" in trouble["message"]


def test_no_library(tmp_path: Path) -> None:
    run = Rig(tmp_path, None).run()

    assert run.result["pairs"] == []
    (trouble,) = run.result["troubles"]
    assert trouble["kind"] == "no_library"
    assert "libcuda.so.1" in trouble["message"]


def test_no_gpu(rig: Rig) -> None:
    rig.write(0)
    rig.put_on_bus(ADDRESSES[0])

    run = rig.run()

    assert [trouble["kind"] for trouble in run.result["troubles"]] == ["no_device"]
    assert run.result["on_bus"] == [{"address": ADDRESSES[0], "driver": "nvidia"}]


def test_one_gpu(rig: Rig) -> None:
    rig.write(1)

    run = rig.run()

    assert len(run.result["gpus"]) == 1
    assert run.result["pairs"] == run.result["troubles"] == []


def test_a_silent_nvidia_smi_costs_its_time_and_no_more(rig: Rig) -> None:
    rig.write(granted=False)
    rig.program("nvidia-smi", "exec sleep 60")
    text = pack("preflight").text.replace("_TOPOLOGY_S: Final = 10.0", "_TOPOLOGY_S: Final = 0.5")

    run = rig.run(text=text)

    assert run.result["topology"] == ""
    assert [trouble["kind"] for trouble in run.result["troubles"]] == ["note"]
    assert run.verdicts() == ["not_granted", "not_granted"]


def test_no_new_pair_begins_when_all_time_is_over(rig: Rig) -> None:
    rig.write()

    run = rig.run(all_s=0)

    assert run.verdicts() == ["unknown", "unknown"]


def test_progress_is_said_while_it_goes(rig: Rig) -> None:
    rig.write()

    steps = [event for event in rig.run().events if event["event"] == "step"]

    assert {"event": "step", "pair": [0, 1], "step": "copy of 1 MiB"} in steps
    assert {"event": "step", "pair": None, "step": "cuInit"} in steps


def sleep_deaf(say: Callable[..., None]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(step="sleeping", ready=True)
    time.sleep(60)


def test_a_child_that_nothing_kills_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for state D: the signals are sent, and nothing comes of them."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(watched, "_signal", lambda child, number: sent.append((child, number)))
    try:
        ended = watched.watch(sleep_deaf, watched.Patience(5, 0.3, 0.3), lambda _: None)
    finally:
        os.kill(sent[0][0], 9)
        os.waitpid(sent[0][0], 0)

    assert [number for _, number in sent] == [15, 9]
    assert ended.overdue
    assert ended.stuck
    assert ended.step == "sleeping"
    assert f"KILL did not end process {sent[0][0]}" in ended.evidence


def crash(say: Callable[..., None]) -> None:
    say(step="crashing")
    os.abort()


def test_a_child_that_crashes_is_told_from_one_that_hangs() -> None:
    ended = watched.watch(crash, watched.Patience(5, 5), lambda _: None)

    assert not ended.overdue
    assert ended.how == "ended by signal 6"
    assert ended.answer() is None
