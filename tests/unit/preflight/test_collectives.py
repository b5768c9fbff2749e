"""The all-reduce of preflight, with a simulated NCCL on simulated cards."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest

from rigops.hostside.p2p.collectives import ArmFound, judge_arm, judge_arms, sum_of
from rigops.hostside.p2p.nccl import candidates, own_names, remove_new, version_text, writers
from rigops.hostside.p2p.verdict import pattern
from rigops.hostside.p2p.watched import Ended
from rigops.hostside.packing import pack
from tests.lab.silicon.cuda import build
from tests.shards import PREFLIGHT
from tests.unit.hostside.trees import oldest_python
from tests.unit.preflight.rigs import ADDRESSES, SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.preflight.rigs import Rig, Run

pytestmark = pytest.mark.shard(PREFLIGHT)

SITE = "lib/python3.11/site-packages/nvidia/nccl/lib"
WITH, WITHOUT = "all-reduce with P2P", "all-reduce without P2P (NCCL_P2P_DISABLE=1)"
SIZES = "4 KiB, 1 MiB, 16 MiB"
SMALLER = {"(4 << 10, 1 << 20, 16 << 20)": "(4 << 10,)"}
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def library(rig: Rig, libraries: Path) -> Path:
    """NCCL in a virtual environment of the user."""
    (built,) = (libraries / "built").glob(f"libnccl.so.{build.NCCL_VERSION[0]}.*")
    folder = rig.folder / "work/venv" / SITE
    folder.mkdir(parents=True)
    python = rig.folder / "work/venv/bin/python3"
    python.parent.mkdir()
    python.symlink_to("/usr/bin/python3")
    shutil.copy(built, folder / "libnccl.so.2")
    return folder / "libnccl.so.2"


def text_with(**changes: str) -> str:
    """The program with other texts in the place of some."""
    text = pack("preflight").text
    for now, then in changes.items():
        assert text.count(now) == 1
        text = text.replace(now, then)
    return text


def collectives(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = run.result["collectives"]
    return found


def exact(name: str, times: int = 9, sizes: str = SIZES) -> str:
    return f"{name}: {times} times {sizes}, all sums exact"


@pytest.mark.parametrize("granted", [True, False])
def test_exact_sums_with_and_without_p2p_are_a_proof(
    rig: Rig, library: Path, *, granted: bool
) -> None:
    rig.write(3, granted=granted)

    found = collectives(rig.run())

    assert found["verdict"] == "proven"
    assert found["evidence"] == [exact(WITHOUT), exact(WITH)]
    assert (found["library"], found["version"]) == (str(library), "2.18.5")
    assert 0 < found["control_gb_per_s"] < 30
    assert 0 < found["p2p_gb_per_s"] < 30


def test_it_runs_on_the_oldest_python(rig: Rig, library: Path) -> None:
    rig.write(granted=False)

    found = collectives(rig.run(python=oldest_python()))

    assert (found["verdict"], found["library"]) == ("proven", str(library))


@pytest.mark.usefixtures("library")
def test_wrong_sums_with_p2p_alone_are_its_fault(rig: Rig) -> None:
    rig.write(copies={(0, 1): "wrong", (1, 0): "wrong"})

    found = collectives(rig.run())

    assert (found["verdict"], found["cause"]) == ("failed", "p2p")
    assert found["evidence"][0] == exact(WITHOUT)
    assert found["evidence"][1].startswith(f"{WITH} of 1 MiB, round 1 of 3: {ADDRESSES[0]} has ")
    assert "words wrong: word " in found["evidence"][1]


@pytest.mark.usefixtures("library")
def test_wrong_sums_in_both_arms_are_not_the_fault_of_p2p(rig: Rig) -> None:
    rig.write(corrupt=1)

    found = collectives(rig.run())

    assert (found["verdict"], found["cause"]) == ("failed", "other")
    assert found["evidence"][0].startswith(f"{WITHOUT} of 1 MiB, round 1 of 3: {ADDRESSES[0]} has ")


@pytest.mark.usefixtures("library")
def test_without_the_arm_through_the_host_p2p_would_be_blamed(rig: Rig) -> None:
    rig.write(corrupt=1)
    arms = "control, p2p = arms[False], arms[True]"

    found = collectives(rig.run(text=text_with(**{arms: f"{arms}; control = ArmFound('ok', ())"})))

    assert (found["verdict"], found["cause"]) == ("failed", "p2p")


@pytest.mark.usefixtures("library")
def test_bytes_beside_the_sums_would_go_unnoticed_without_guard_words(rig: Rig) -> None:
    rig.write(copy="overrun")
    guards = "elif received[:GUARD] != guard or received[-GUARD:] != guard:"

    found = collectives(rig.run())
    unguarded = collectives(rig.run(text=text_with(**{guards: "elif False:"})))

    assert (found["verdict"], found["cause"]) == ("failed", "p2p")
    assert "has bytes overwritten beside the sums" in found["evidence"][1]
    assert unguarded["verdict"] == "proven"


@pytest.mark.usefixtures("library")
def test_a_hang_with_p2p_ends_in_time_and_says_where(rig: Rig) -> None:
    """Pairs do not show it: here, because they are not tried."""
    rig.write(copy="hang")
    text = text_with(**{"pair.update(self._try(i, j))": "pass", **SMALLER})

    run = rig.run(pair_s=5, text=text)

    assert run.seconds < 30
    found = collectives(run)
    assert (found["verdict"], found["cause"]) == ("failed", "p2p")
    assert found["evidence"][:2] == [
        exact(WITHOUT, 3, "4 KiB"),
        f"{WITH} of 4 KiB, round 1 of 3: did not end in time",
    ]
    assert "in state" in found["evidence"][2]
    assert not run.result["needs_reboot"]
    assert "with P2P of 4 KiB" in str(run.events[-2])


@pytest.mark.usefixtures("library")
def test_after_a_hang_of_a_pair_only_the_way_without_p2p_is_tried(rig: Rig) -> None:
    rig.write(copy="hang")

    found = collectives(rig.run(pair_s=5, text=text_with(**SMALLER)))

    assert (found["verdict"], found["cause"]) == ("not proven", "")
    assert found["evidence"] == [
        exact(WITHOUT, 3, "4 KiB"),
        f"{WITH}: not tried: after the hang of {ADDRESSES[0]} to {ADDRESSES[1]}",
    ]


@pytest.mark.usefixtures("library")
def test_nothing_is_tried_when_all_time_is_over(rig: Rig) -> None:
    rig.write()

    found = collectives(rig.run(all_s=0))

    assert found["verdict"] == "not proven"
    assert found["evidence"] == ["not tried: the 0 s for all pairs were over"]


@pytest.mark.usefixtures("library")
def test_a_lost_card_proves_nothing(rig: Rig) -> None:
    rig.write(lost=1)

    found = collectives(rig.run())

    assert found["verdict"] == "not proven"
    assert "CUDA_ERROR_UNKNOWN 999" in found["evidence"][0]


@pytest.mark.parametrize("how", [{"level": "quick"}, {"gpus": 1}])
def test_it_is_left_out_where_nothing_is_to_be_tried(rig: Rig, how: dict[str, Any]) -> None:
    rig.write(how.get("gpus", 2))

    assert collectives(rig.run(level=how.get("level", "p2p"))) is None


# ---- finding the library


def test_the_library_can_be_found_without_an_all_reduce(rig: Rig, library: Path) -> None:
    rig.write()

    found = collectives(rig.run(level="quick", more=("--find-nccl",)))

    assert (found["library"], found["verdict"]) == (str(library), "not proven")
    assert found["version"] == ".".join(map(str, build.NCCL_VERSION))
    assert found["evidence"] == []


def test_no_library(rig: Rig) -> None:
    rig.write(granted=False)

    found = collectives(rig.run())

    assert found["verdict"] == "not proven"
    assert found["evidence"] == ["no libnccl.so.2 was found"]
    assert (found["library"], found["version"]) == ("", "")


def test_a_library_that_does_not_load_is_passed_over(rig: Rig, library: Path) -> None:
    rig.write(granted=False)
    first = rig.folder / ".local" / SITE / "libnccl.so.2"
    first.parent.mkdir(parents=True)
    first.write_text("no library")

    assert collectives(rig.run())["library"] == str(library)

    library.unlink()
    (why,) = collectives(rig.run())["evidence"]
    assert why.startswith(f"{first} cannot be used: ")


@ROOT
@pytest.mark.parametrize("whose", ["file", "folder", "writable"])
def test_root_loads_nothing_that_a_user_can_replace(
    rig: Rig, library: Path, tmp_path: Path, whose: str
) -> None:
    rig.write(granted=False)
    if whose == "file":
        os.chown(library, 1000, 1000)
    elif whose == "folder":
        os.chown(tmp_path / "work", 1000, 1000)
    else:
        library.parent.chmod(0o777)

    found = collectives(rig.run())

    assert found["verdict"] == "not proven"
    who = {
        "file": f"{library} belongs to user 1000",
        "folder": f"{tmp_path / 'work'} belongs to user 1000",
        "writable": f"everybody can write {library.parent}",
    }
    assert found["evidence"] == [f"{library} is not loaded as root: {who[whose]}"]


@ROOT
def test_who_can_write_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "file"
    file.touch()

    assert writers(file) == ""
    os.chown(folder, 0, 54321)
    folder.chmod(0o775)
    assert writers(file) == ""  # a group without members
    folder.chmod(0o1777)
    assert writers(file) == f"everybody can write {folder}"  # anybody could add another there
    folder.chmod(0o755)
    file.chmod(0o666)
    assert writers(file) == f"everybody can write {file}"


def test_where_libraries_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, linked = tmp_path / "home", tmp_path / "linked"
    places = [
        linked / "libnccl.so.2",
        home / ".local/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
        home / "conda/lib/libnccl.so.2",
        home / "conda/envs/one/lib/python3.9/site-packages/torch/lib/libnccl.so.2",
        home / "a/b/.venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
    ]
    others = [
        home / "a/b/c/d/.venv/lib/libnccl.so.2",  # too deep
        home / "conda/pkgs/nccl/lib/libnccl.so.2",  # not an environment
    ]
    for place in (*places, *others):
        place.parent.mkdir(parents=True)
        place.touch()
    for environment in ("conda", "conda/envs/one", "a/b/.venv", "a/b/c/d/.venv"):
        (home / environment / "bin").mkdir()
        (home / environment / "bin/python3").touch()
    (home / "a/again").symlink_to(home)
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{linked}:/nowhere")

    found = [path for path in candidates(home) if path.is_relative_to(tmp_path)]

    assert found[:2] == places[:2]
    assert sorted(found) == sorted(places)


# ---- what it leaves behind


def test_new_shared_memory_that_nobody_uses_is_removed(tmp_path: Path) -> None:
    (tmp_path / "nccl-before").touch()
    before = own_names(tmp_path)
    for name in ("nccl-left", "nccl-used", "other"):
        (tmp_path / name).write_bytes(bytes(4096))

    with (tmp_path / "nccl-used").open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        remove_new(before, tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["nccl-before", "nccl-used", "other"]


# ---- judging


@pytest.mark.parametrize(
    ("control", "p2p", "verdict", "cause"),
    [
        ("ok", "ok", "proven", ""),
        ("ok", "wrong_data", "failed", "p2p"),
        ("ok", "hang", "failed", "p2p"),
        ("ok", "error", "failed", "p2p"),
        ("ok", "skipped", "not proven", ""),
        ("wrong_data", "wrong_data", "failed", "other"),
        ("hang", "ok", "failed", "other"),
        ("hang", "skipped", "failed", "other"),
        ("error", "error", "not proven", ""),
        ("error", "ok", "not proven", ""),
        ("error", "hang", "failed", ""),
        ("skipped", "skipped", "not proven", ""),
    ],
)
def test_both_arms_decide(control: str, p2p: str, verdict: str, cause: str) -> None:
    assert judge_arms(ArmFound(control, ()), ArmFound(p2p, ())) == (verdict, cause)


def test_what_nccl_logs_says_which_way_it_took_and_what_it_warns_of() -> None:
    log = (
        "rig:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n"
        "rig:7:9 [0] NCCL INFO Channel 01/0 : 1[1] -> 0[0] via P2P/direct pointer\n"
        "rig:7:9 [0] NCCL WARN Cuda failure 'out of memory'\n"
    )
    answer = {"answer": {"wrong": [], "rounds": 9, "gb_per_s": 1.5}}

    assert judge_arm(Ended([answer], log), is_p2p=True) == ArmFound(
        "ok", (f"{exact(WITH)}, by NCCL over P2P, SHM",), 1.5
    )
    assert judge_arm(Ended([], log, "ncclCommInitAll", how="ended by signal 11"), is_p2p=True) == (
        ArmFound(
            "error",
            ("ncclCommInitAll: ended by signal 11", "NCCL: Cuda failure 'out of memory'"),
        )
    )


def test_sums_are_those_of_words() -> None:
    buffers = [pattern(rank, rank, 1, SMALL[0]) for rank in range(5)]
    words = zip(*(struct.unpack(f"<{SMALL[0] // 4}I", one) for one in buffers), strict=True)

    assert sum_of(buffers) == struct.pack(
        f"<{SMALL[0] // 4}I", *(sum(word) % (1 << 32) for word in words)
    )


@pytest.mark.parametrize(
    ("code", "text"), [(2708, "2.7.8"), (20903, "2.9.3"), (21805, "2.18.5"), (22304, "2.23.4")]
)
def test_versions_are_read_as_nccl_numbers_them(code: int, text: str) -> None:
    assert version_text(code) == text
