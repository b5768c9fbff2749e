"""The fake libcuda, seen by a program that knows nothing of the lab."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.lab.silicon.cuda.build import HERE, build
from tests.shards import LAB_ITSELF
from tests.unit.lab.cuda_rig import CARD, VERSION, Rig, go_on, line_of, still_runs, uuid

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.shard(LAB_ITSELF),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]

MIB = 1 << 20


# ---- the library itself


def test_it_exports_what_its_list_says_and_nothing_else(libraries: dict[str, Path]) -> None:
    for soname, exports in (("libcuda.so.1", "libcuda.map"), ("libnccl.so.2", "libnccl.map")):
        listed = (HERE / exports).read_text().partition("global:")[2].partition("local:")[0]
        table = subprocess.run(
            ["nm", "-D", "--defined-only", libraries[soname]],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

        assert {line.split()[2] for line in table.splitlines()} == {
            name.strip() for name in listed.split(";") if name.strip()
        }


def test_it_has_no_legacy_forms_of_the_32_bit_interface(rig: Rig) -> None:
    table = subprocess.run(
        ["nm", "-D", "--defined-only", rig.libcuda], check=True, capture_output=True, text=True
    ).stdout

    names = {line.split()[2] for line in table.splitlines()}
    assert "cuMemAlloc_v2" in names
    assert "cuMemAlloc" not in names


def test_it_is_compiled_once_and_again_for_another_version(tmp_path: Path) -> None:
    first = build(tmp_path, VERSION)["libcuda.so.1"]
    made = first.stat().st_mtime_ns
    assert build(tmp_path, VERSION)["libcuda.so.1"].stat().st_mtime_ns == made

    other = build(tmp_path, "545.29.06")["libcuda.so.1"]
    assert other.name == "libcuda.so.545.29.06"
    assert first.exists()


def test_its_version_and_error_texts_are_those_of_the_driver(rig: Rig) -> None:
    version, texts, unknown = rig.run("version_and_errors")

    assert version == 12020
    assert unknown == 1
    assert texts == {
        "0": ["CUDA_SUCCESS", "no error"],
        "217": [
            "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
            "peer access is not supported between these two devices",
        ],
        "600": ["CUDA_ERROR_NOT_READY", "device not ready"],
        "704": ["CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"],
        "803": [
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            "system has unsupported display driver / cuda driver combination",
        ],
        "999": ["CUDA_ERROR_UNKNOWN", "unknown error"],
    }


def test_proc_addresses_are_found_by_base_name(rig: Rig) -> None:
    assert rig.run("newest_address") == [[True, 0], [False, 1]]


# ---- initialisation and devices


def test_devices_are_what_the_configuration_says(rig: Rig) -> None:
    assert rig.run("devices") == [
        ["NVIDIA GeForce RTX 3090", f"0000:0{place}:00.0", "8.6", CARD] for place in "AB"
    ]


def test_no_driver_is_no_device(rig: Rig) -> None:
    rig.conf.unlink()
    assert rig.run("init") == 100


def test_a_driver_of_another_version_is_a_mismatch(rig: Rig) -> None:
    rig.configure(driver="545.29.06")
    assert rig.run("init") == 803


def test_a_configuration_that_makes_no_sense_is_not_silently_ignored(rig: Rig) -> None:
    rig.configure(copy="sideways")
    assert rig.run("init") == 999


def test_nothing_works_before_init_or_after_a_fork(rig: Rig) -> None:
    assert rig.run("before_init_and_after_fork") == [3, 3]


def mixed_cards(rig: Rig) -> None:
    rig.configure()
    text = rig.conf.read_text()
    rig.write(text.replace(f"{uuid(0)} 8.6", f"{uuid(0)} 6.1", 1))


def addresses(rig: Rig) -> list[str]:
    return [address for _, address, _, _ in rig.run("devices")]


def test_the_fastest_card_comes_first_unless_told_otherwise(rig: Rig) -> None:
    mixed_cards(rig)
    assert addresses(rig) == ["0000:0B:00.0", "0000:0A:00.0"]

    rig.environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert addresses(rig) == ["0000:0A:00.0", "0000:0B:00.0"]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("1", ["0000:0B:00.0"]),
        ("1,0", ["0000:0B:00.0", "0000:0A:00.0"]),
        ("0,7,1", ["0000:0A:00.0"]),
        (uuid(1)[:12], ["0000:0B:00.0"]),
    ],
)
def test_visible_devices_are_obeyed(rig: Rig, visible: str, expected: list[str]) -> None:
    rig.environment = {"CUDA_VISIBLE_DEVICES": visible}
    assert addresses(rig) == expected


def test_with_no_visible_device_there_is_none(rig: Rig) -> None:
    rig.environment = {"CUDA_VISIBLE_DEVICES": ""}
    assert rig.run("init") == 100


def test_contexts_are_current_by_thread_and_die_on_reset(rig: Rig) -> None:
    assert rig.run("current_contexts") == [201, True, 709, 201]


# ---- who may reach whom


def test_grants_and_attributes_agree(rig: Rig) -> None:
    rig.configure(pairs={(1, 0): {"granted": 0}})
    assert rig.run("grants") == [[1, 0], [1, 0], [0, 0]]

    rig.configure(link="nvlink")
    assert rig.run("grants") == [[1, 1], [1, 1], [1, 1]]


def test_peer_access_is_one_directional_and_given_once(rig: Rig) -> None:
    assert rig.run("peer_access") == [0, 704, 0, 0, 705]


def test_a_grant_of_one_direction_refuses_the_other(rig: Rig) -> None:
    rig.configure(pairs={(1, 0): {"granted": 0}})
    assert rig.run("peer_access") == [0, 704, 217, 0, 705]


def test_a_grant_that_cannot_be_mapped_fails_when_it_is_used(rig: Rig) -> None:
    rig.configure(pairs={(0, 1): {"copy": "map-fails"}})
    assert rig.run("grants")[0] == [1, 1]
    assert rig.run("peer_access") == [205, 205, 0, 705, 705]


def test_a_refused_pair_is_refused_both_ways(rig: Rig) -> None:
    rig.configure(granted=0)
    assert rig.run("peer_access") == [217, 217, 217, 705, 705]


def test_a_context_has_eight_peers_at_most(rig: Rig) -> None:
    rig.configure(cards=10)
    assert rig.run("many_peers") == [0] * 8 + [711]


# ---- what copies do


@pytest.mark.parametrize("function", ["dtod", "peer"])
def test_a_good_pair_copies_right(rig: Rig, function: str) -> None:
    assert rig.run("copy", str(MIB), function) == {
        "enabled": [0, 0],
        "owner": "right",
        "first_wrong": None,
        "round_trip": True,
        "guards": True,
    }


@pytest.mark.parametrize("behaviour", ["hang", "wrong", "mirror", "stale", "slow"])
def test_without_peer_access_every_copy_is_right(rig: Rig, behaviour: str) -> None:
    rig.configure(copy=behaviour)
    assert rig.run("without_peer_access") is True


def test_wrong_data_starts_at_a_page_and_is_what_the_owner_sees(rig: Rig) -> None:
    rig.configure(copy="wrong")
    seen = rig.run("copy", str(MIB))

    assert seen["owner"] == "other"
    assert not seen["round_trip"]
    assert seen["first_wrong"] % 4096 == 0
    assert 0 < seen["first_wrong"] < MIB
    assert seen["guards"]
    assert rig.run("copy", str(MIB))["first_wrong"] == seen["first_wrong"]


def test_wrong_data_hides_from_small_copies(rig: Rig) -> None:
    rig.configure(copy="wrong")
    assert rig.run("copy", "4096")["owner"] == "right"
    assert rig.run("copy", "65536")["owner"] == "other"


def test_a_mirror_passes_a_round_trip_and_leaves_the_owner_with_the_old(rig: Rig) -> None:
    rig.configure(copy="mirror")
    seen = rig.run("copy", str(MIB))

    assert seen["round_trip"]
    assert seen["owner"] == "old"


def test_a_stale_path_delivers_what_came_before(rig: Rig) -> None:
    rig.configure(copy="stale")
    assert rig.run("successive_copies") == ["zeros", "pattern 1", "pattern 2"]


def test_a_repeated_copy_brings_what_has_changed_since(rig: Rig) -> None:
    assert rig.run("repeated_copies") == [True] * 10


def test_time_goes_on_when_an_event_is_asked_for_again(rig: Rig) -> None:
    assert rig.run("events_asked_in_turn") == [600, 600, 600, 0]


def test_a_hang_is_never_ready_and_its_wait_never_ends(rig: Rig) -> None:
    rig.configure(copy="hang")
    with rig.start("start_copy_and_poll") as process:
        assert line_of(process) == "600 600 True"
        assert still_runs(process)


def test_a_hung_peer_copy_blocks_its_target_as_well(rig: Rig) -> None:
    rig.configure(copy="hang")
    with rig.start("peer_copy_then_read") as process:
        assert line_of(process) == "queued"
        assert still_runs(process)


def test_a_copy_that_does_not_hang_is_ready_at_once(rig: Rig) -> None:
    with rig.start("start_copy_and_poll") as process:
        assert line_of(process) == "0 0 False"
        assert process.wait(timeout=60) == 0


def test_a_hang_may_be_told_to_write_where_a_write_blocks(rig: Rig) -> None:
    written = rig.folder / "frozen"
    rig.configure(f"unkillable {written}", copy="hang")
    with rig.start("poll_until_killed") as process:
        assert line_of(process) == "polling"
        until = time.monotonic() + 60
        while not (written.exists() and written.read_text() == "x"):
            assert time.monotonic() < until
            time.sleep(0.01)
        assert still_runs(process)


# ---- time


def test_events_tell_the_rates_of_the_configuration(rig: Rig) -> None:
    assert rig.run("rates") == {
        "staged": pytest.approx(9.8, rel=0.01),
        "direct": pytest.approx(12.9, rel=0.01),
        "latency": pytest.approx(1.1, rel=0.01),
        "both": pytest.approx(24.1, rel=0.01),
    }


def test_a_slow_pair_is_right_and_below_what_the_host_does(rig: Rig) -> None:
    rig.configure(copy="slow", rate=2.9, both=2.9)
    rates = rig.run("rates")

    assert rates["direct"] == pytest.approx(2.9, rel=0.01)
    assert rates["both"] == pytest.approx(2.9, rel=0.01)
    assert rates["direct"] < rates["staged"]
    assert rig.run("copy", str(MIB))["owner"] == "right"


# ---- memory


def test_sizes_and_bounds_are_kept_and_freed_memory_is_gone(rig: Rig) -> None:
    assert rig.run("memory") == {
        "too much": 2,
        "nothing": 1,
        "beyond": 1,
        "before": 1,
        "inside": 1,
        "files": 1,
        "free": 0,
        "again": 1,
        "taken": MIB,
        "back": 0,
        "left": [],
    }


def test_words_are_set_where_they_should_be(rig: Rig) -> None:
    assert rig.run("set_words") == "00" * 16 + "feca0000" * 4 + "00" * 32


def test_a_device_pointer_is_of_no_use_on_the_host(rig: Rig) -> None:
    with rig.start("touch_on_host") as process:
        assert process.wait(timeout=60) == -11


def test_a_process_that_ends_leaves_no_memory(rig: Rig) -> None:
    with rig.start("leave_memory_behind") as process:
        assert line_of(process) == "allocated"
        assert len(list(rig.shm.iterdir())) == 1
        go_on(process)
    assert list(rig.shm.iterdir()) == []


def test_memory_of_a_killed_process_goes_when_the_next_one_starts(rig: Rig) -> None:
    with rig.start("leave_memory_behind") as process:
        assert line_of(process) == "allocated"
    assert len(list(rig.shm.iterdir())) == 1

    rig.run("init")
    assert list(rig.shm.iterdir()) == []


def test_memory_of_a_living_process_stays(rig: Rig) -> None:
    with rig.start("leave_memory_behind") as process:
        assert line_of(process) == "allocated"
        rig.run("init")
        assert len(list(rig.shm.iterdir())) == 1


# ---- between processes


@pytest.mark.parametrize(
    ("behaviour", "imported", "owned"),
    [("ok", True, "right"), ("mirror", True, "old"), ("wrong", False, "?")],
)
def test_memory_opened_by_another_process_obeys_the_pair(
    rig: Rig, behaviour: str, imported: object, owned: str
) -> None:
    rig.configure(copy=behaviour)
    with rig.start("export_memory") as process:
        assert rig.run("import_memory", line_of(process)) == [0, imported, [0, 1]]
        assert go_on(process) == [201, owned]


def test_memory_of_a_refused_pair_cannot_be_opened(rig: Rig) -> None:
    rig.configure(granted=0)
    with rig.start("export_memory") as process:
        assert rig.run("import_memory", line_of(process)) == [217]


def test_memory_whose_handle_is_refused_is_reached_within_a_process_only(rig: Rig) -> None:
    rig.configure(copy="ipc-refused")
    assert rig.run("copy", str(MIB))["owner"] == "right"
    with rig.start("export_memory") as process:
        assert rig.run("import_memory", line_of(process)) == [101]


def test_a_handle_of_memory_that_is_gone_is_invalid(rig: Rig) -> None:
    with rig.start("export_memory") as process:
        handle = line_of(process)
        go_on(process)
    assert rig.run("import_memory", handle) == [400]


# ---- what changes while a program runs


def test_a_card_lost_while_a_program_runs_fails_its_next_calls(rig: Rig) -> None:
    with rig.start("lose_a_card") as process:
        assert line_of(process) == "ready"
        rig.configure(lost=frozenset({1}))
        assert go_on(process) == [0, 999, 999, 999]


def test_a_lost_card_refuses_a_context(rig: Rig) -> None:
    rig.configure(lost=frozenset({1}))
    assert rig.run("first_error") == 999


# ---- kernels


def test_a_kernel_does_what_its_text_says_until_it_leaves_the_memory(rig: Rig) -> None:
    assert rig.run("launch") == [200, 500, 0, 1, 0, 2, 0, 700, 700]


KERNEL = """.version 6.0
.target sm_50
.address_size 64
.visible .entry one(.param .u64 to) {
    .reg .b32 %a;
    .reg .b64 %to;
    LINE
    ret;
}
"""


def test_a_kernel_that_is_right_compiles(rig: Rig) -> None:
    assert rig.run("compile_text", KERNEL.replace("LINE", ""))[:2] == [0, ""]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("sin.approx.f32 %a, %a;", "Not a name of any known instruction: 'sin.approx.f32'"),
        ("ld.acquire.sys.global.u32 %a, [%to];", "known instruction: 'ld.acquire.sys.global.u32'"),
        ("add.u32 %a, %a, %b;", "Unknown symbol '%b'"),
        ("add.u64 %to, %to, %a;", "Arguments mismatch for instruction: '%a'"),
        ("ld.param.u32 %a, [to];", "Arguments mismatch for instruction 'ld': 'to'"),
        ("bra nowhere;", "Unknown symbol 'nowhere'"),
        ("add.u32 %a, %a;", "',' expected"),
        ("add.u32 %a, %a, 1, 1;", "';' expected"),
        (".reg .b32 %a;", "Duplicate definition of variable '%a'"),
        (".shared .b32 %s;", "Unexpected directive '.shared'"),
        ("mov.u32 %a, %smid;", "Unknown symbol '%smid'"),
    ],
)
def test_what_is_unknown_is_an_error_with_its_line(rig: Rig, line: str, why: str) -> None:
    code, log, length = rig.run("compile_text", KERNEL.replace("LINE", line))
    assert code == 218
    assert "ptxas application ptx input, line " in log
    assert why in log
    assert length == len(log)
    assert "line 7;" in log


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [(".version 6.0", ".version 8.3", 222), ("sm_50", "sm_90", 209), ("sm_50", "sm_86", 0)],
)
def test_a_text_for_newer_drivers_or_cards_is_refused(
    rig: Rig, old: str, new: str, code: int
) -> None:
    assert rig.run("compile_text", KERNEL.replace("LINE", "").replace(old, new))[0] == code
