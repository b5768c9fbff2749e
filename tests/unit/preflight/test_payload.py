"""The program that is sent to hosts, whole, against every way in which a rig can be broken."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from rigops.hostside.p2p import watched
from rigops.hostside.packing import pack
from rigops.preflight.payload import Above, Port, Slot, read_answer
from tests.shards import PREFLIGHT
from tests.unit.hostside.trees import oldest_python
from tests.unit.preflight.rigs import ADDRESSES, DRIVER, TOPOLOGY, Rig, Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def good(libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    rig = Rig(tmp_path_factory.mktemp("good"), libraries / "libcuda.so.1")
    rig.programs()
    rig.write()
    return rig.run()


def assert_is_read(run: Run) -> None:
    answer = read_answer(json.dumps({"event": "result", "result": run.result}).encode())

    assert answer is not None
    assert [pair.verdict for pair in answer.pairs] == run.verdicts()
    assert [gpu.address for gpu in answer.gpus] == list(ADDRESSES[:2])
    assert [pair.gb_per_s for pair in answer.pairs] == [
        one["gb_per_s"] for one in run.result["pairs"]
    ]


def test_a_good_pair_is_proven_and_measured(good: Run) -> None:
    run = good

    assert run.verdicts() == ["ok", "ok"]
    pair = run.pair(0, 1)
    assert pair["level"] == "L5"
    assert 10 < pair["gb_per_s"] <= 12.9
    assert 20 < pair["both_ways_gb_per_s"] <= 24.1
    assert 5 < pair["staged_gb_per_s"] <= 9.8
    assert 1 <= pair["latency_us"] < 2
    assert 2 < pair["round_trip_us"] < 10
    assert pair["evidence"] == [
        "6 copies of 4 KiB, 1 MiB arrived whole, as their owner reads them",
        "4 times 64 KiB, 1 MiB stored and loaded by kernels, all words right",
        "1000 rounds of flags, all seen and the words before them right",
        "1 MiB and 200 rounds of flags right between processes",
    ]
    assert run.result["topology"].split() == TOPOLOGY.split()
    assert [gpu["address"] for gpu in run.result["gpus"]] == list(ADDRESSES[:2])
    assert not run.result["needs_reboot"]


def test_its_result_is_read(good: Run) -> None:
    assert_is_read(good)


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
    assert_is_read(run)


def test_only_named_pairs_are_tried(rig: Rig) -> None:
    rig.write(3, copy="wrong")

    run = rig.run(pairs=("2:0", "0:2"))

    pairs = [(pair["from"], pair["to"], pair["verdict"]) for pair in run.result["pairs"]]
    assert pairs == [
        (ADDRESSES[0], ADDRESSES[2], "wrong_data"),
        (ADDRESSES[2], ADDRESSES[0], "wrong_data"),
    ]


def test_refused_is_not_tried(rig: Rig) -> None:
    rig.write(granted=False, copy="hang")

    run = rig.run(pair_s=1)

    assert run.verdicts() == ["not_granted", "not_granted"]
    assert run.pair(0, 1)["level"] == "L0"
    assert_is_read(run)


def test_only_the_refused_direction_is_marked(rig: Rig) -> None:
    rig.write(refused=frozenset({(1, 0)}))

    run = rig.run()

    assert run.pair(0, 1)["verdict"] == "ok"
    assert run.pair(0, 1)["both_ways_gb_per_s"] is None
    assert run.pair(1, 0)["verdict"] == "one_way"


def test_a_hang_ends_in_time_and_its_gpus_are_left_alone(rig: Rig) -> None:
    rig.write(3, copy="hang")

    run = rig.run(pair_s=2)

    assert run.seconds < 40  # what has a limit of its own here is given 60
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
    assert_is_read(run)


def test_slower_than_through_the_host(rig: Rig) -> None:
    rig.write(copy="slow", rate=3, refused=frozenset({(1, 0)}))

    pair = rig.run().pair(0, 1)

    assert pair["verdict"] == "slower_than_staged"
    assert pair["gb_per_s"] < pair["staged_gb_per_s"]


@pytest.mark.parametrize(
    ("fault", "verdict", "level", "evidence"),
    [
        (
            "loads-wrong",
            "wrong_data",
            "L2",
            "loads: 16384 of 16384 words wrong, the first is",
        ),
        ("no-flags", "hang", "L3", "flags: 0 of 1000 rounds"),
        pytest.param(
            *("kernel-hang", "hang", "L2", "stores of 64 KiB: did not end in time"),
            marks=pytest.mark.shard(PREFLIGHT),
        ),
    ],
)
def test_what_copies_do_not_show(
    rig: Rig, fault: str, verdict: str, level: str, evidence: str
) -> None:
    rig.write(copies={(0, 1): fault})

    run = rig.run(pair_s=10 if fault == "kernel-hang" else 60)

    assert (run.pair(0, 1)["verdict"], run.pair(0, 1)["level"]) == (verdict, level)
    assert any(evidence in line for line in run.pair(0, 1)["evidence"])
    assert run.pair(0, 1)["gb_per_s"] > 10
    assert run.pair(1, 0)["verdict"] == ("skipped" if fault == "kernel-hang" else "ok")


def test_without_a_compiler_copies_are_all_that_is_tried(rig: Rig) -> None:
    rig.write()
    text = pack("preflight").text.replace(".version 6.0", ".version 9.9")

    run = rig.run(text=text)

    assert run.verdicts() == ["ok", "ok"]
    pair = run.pair(0, 1)
    assert pair["level"] == "L1"
    assert pair["evidence"][1].startswith(
        "kernels cannot be compiled, so that only copies were tried: cuModuleLoadDataEx: "
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION 222"
    )


def test_a_lost_card(rig: Rig) -> None:
    rig.write(3, lost=1, copy="wrong")

    run = rig.run()

    assert run.pair(0, 1)["verdict"] == run.pair(1, 2)["verdict"] == "error"
    assert run.pair(0, 1)["evidence"] == ["cuDevicePrimaryCtxRetain: CUDA_ERROR_UNKNOWN 999"]
    assert run.pair(0, 2)["verdict"] == run.pair(2, 0)["verdict"] == "wrong_data"


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
    assert run.result["on_bus"] == [
        {
            "address": ADDRESSES[0],
            "driver": "nvidia",
            "max_links": [],
            "is_gone": False,
            "ports": [],
            "node": None,
        }
    ]
    answer = read_answer(json.dumps({"result": run.result}).encode())
    assert answer is not None
    assert (answer.on_bus, answer.driven) == (1, (ADDRESSES[0],))


def test_the_links_of_a_card_and_the_port_above_it(rig: Rig) -> None:
    rig.write(gpus=1)
    port = rig.folder / "sys/devices/pci0000:00/0000:00:03.1"
    card = port / ADDRESSES[0]
    card.mkdir(parents=True)
    for device, speed, width in ((port, "8.0", "8"), (card, "16.0", "16")):
        (device / "max_link_speed").write_text(f"{speed} GT/s PCIe\n")
        (device / "max_link_width").write_text(f"{width}\n")
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030000\n")
    (card / "numa_node").write_text("1\n")
    (port / "vendor").write_text("0x1022\n")
    (port / "device").write_text("0x1453\n")
    (rig.folder / "sys/bus/pci/devices").mkdir(parents=True)
    (rig.folder / "sys/bus/pci/devices" / ADDRESSES[0]).symlink_to(card)

    run = rig.run(level="quick")

    assert run.result["on_bus"][0]["max_links"] == ["16.0 GT/s PCIe x16", "8.0 GT/s PCIe x8"]
    answer = read_answer(json.dumps(run.events[-1]).encode())
    assert answer is not None
    assert answer.slots == {ADDRESSES[0]: Slot(3, 8)}
    assert answer.above == {ADDRESSES[0]: Above((Port("0000:00:03.1", "1022:1453"),), 1)}


SMI = f"""case $1 in
topo) printf '{TOPOLOGY}' ;;
*) printf 'pci.bus_id, pid\\n00000000:0A:00.0, %s\\n00000000:0B:00.0, [N/A]\\n' $PPID ;;
esac"""


def test_who_computes_on_the_cards_is_asked_before_the_copies(rig: Rig) -> None:
    rig.write(copy="wrong")
    rig.program("nvidia-smi", SMI)

    run = rig.run(level="quick")

    (job,) = run.result["jobs"]
    assert (job["address"], job["name"][:6]) == (ADDRESSES[0], "python")
    assert rig.run().result["jobs"] == []


def test_the_machine_and_its_room_for_shared_memory_are_described(rig: Rig) -> None:
    rig.write(gpus=1)
    for path, text in (
        ("class/dmi/id/board_vendor", "ASUSTeK COMPUTER INC."),
        ("class/dmi/id/board_name", "PRIME X399-A"),
        ("module/nvidia/version", DRIVER),
    ):
        file = rig.folder / "sys" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    run = rig.run(level="quick")

    assert run.result["machine"] == {
        "board": "ASUSTeK COMPUTER INC. PRIME X399-A",
        "kernel": os.uname().release,
        "driver": DRIVER,
    }
    room = os.statvfs("/dev/shm")
    assert run.result["shared_memory"] == room.f_blocks * room.f_frsize
    answer = read_answer(json.dumps(run.events[-1]).encode())
    assert answer is not None
    assert answer.shared_memory == run.result["shared_memory"]


def test_one_gpu(rig: Rig) -> None:
    rig.write(1)

    run = rig.run()

    assert len(run.result["gpus"]) == 1
    assert run.result["pairs"] == run.result["troubles"] == []


def test_a_silent_nvidia_smi_costs_its_time_and_no_more(rig: Rig) -> None:
    rig.write(granted=False)
    rig.program("nvidia-smi", "exec sleep 60")

    run = rig.run(changes={"_SMI_S: Final = 10.0": "_SMI_S: Final = 0.5"})

    assert run.result["topology"] == ""
    assert [trouble["kind"] for trouble in run.result["troubles"]] == ["note"]
    assert run.verdicts() == ["not_granted", "not_granted"]


def test_no_new_pair_begins_when_all_time_is_over(rig: Rig) -> None:
    rig.write()

    run = rig.run(all_s=0)

    assert run.verdicts() == ["unknown", "unknown"]


def test_progress_is_said_while_it_goes(good: Run) -> None:
    steps = [event for event in good.events if event["event"] == "step"]

    assert {"event": "step", "pair": [0, 1], "step": "copy of 1 MiB", "rung": "L1"} in steps
    assert {"event": "step", "pair": None, "step": "cuInit", "rung": ""} in steps


def test_nothing_stays_in_the_home_of_the_login(good: Run) -> None:
    assert not good.left_behind


@pytest.mark.shard(PREFLIGHT)
def test_without_a_word_to_the_driver_its_cache_would_stay_there(rig: Rig) -> None:
    rig.write()

    run = rig.run(changes={'os.environ["CUDA_CACHE_DISABLE"] = "1"': "pass"})

    assert run.verdicts() == ["ok", "ok"]
    assert run.left_behind == {".nv"}


def test_a_pair_is_said_again_with_each_rung_that_it_reaches(good: Run) -> None:
    said = [one["pair"] for one in good.events if one["event"] == "pair"]
    levels = [one["level"] for one in said if one["to"] == ADDRESSES[1]]
    assert levels == ["L3", "L4", "L5"]
    assert said[-1] == good.pair(1, 0)


def sleep_deaf(say: Callable[..., None]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(step="sleeping", ready=True)
    time.sleep(60)


def test_a_child_that_nothing_kills_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for state D: the signals are sent, and nothing comes of them."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(watched, "_signal", lambda child, number: sent.append((child, number)))
    monkeypatch.setattr(watched, "_AFTER_TERM", 0.1)
    try:
        ended = watched.watch(sleep_deaf, watched.Patience(60, 0.1, 0.1), lambda *_: None)
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
    ended = watched.watch(crash, watched.Patience(60, 60), lambda *_: None)

    assert not ended.overdue
    assert ended.how == "ended by signal 6"
    assert ended.last("answer") is None
