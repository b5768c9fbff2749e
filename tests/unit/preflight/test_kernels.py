"""The kernels of preflight: their PTX itself, run by the simulated driver on rigs good and bad."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rigops.hostside.p2p.ptx import LOAD, PING_PONG, PTX, STORE
from rigops.hostside.p2p.verdict import POISON
from rigops.hostside.p2p.words import words_of
from tests.shards import PREFLIGHT
from tests.unit.lab.cuda_rig import ROOT, Rig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 40_000  # more than twice the threads of a launch
GUARDS = 16
ALL = COUNT + 2 * GUARDS
RIGHT = {"looked": ALL, "wrong": 0, "first": None, "guards_wrong": 0}
ROUNDS, WORDS = 50, 8
SOON = 0.2  # seconds after which what hangs is taken for hung


@dataclass
class Bench:
    rig: Rig

    def run(self, scenario: str, **options: Any) -> Any:
        environment = {
            **os.environ,
            "RIGSIM_CUDA_CONF": str(self.rig.conf),
            "RIGSIM_SHM": str(self.rig.shm),
            "LIBCUDA": str(self.rig.libcuda),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.unit.preflight.kernel_program", scenario],
            input=json.dumps(options),
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def store(self, **options: Any) -> Any:
        return self.run("store", count=COUNT, guards=GUARDS, **options)

    def load(self, **options: Any) -> Any:
        return self.run("load", count=COUNT, guards=GUARDS, **options)

    def talk(self, **options: Any) -> Any:
        return self.run("talk", rounds=ROUNDS, words=WORDS, **options)


@pytest.fixture
def bench(libraries: Path, tmp_path: Path) -> Bench:
    rig = Rig(tmp_path, libraries / "libcuda.so.1", libraries / "libnccl.so.2")
    rig.configure()
    return Bench(rig)


def stored_right(answer: Any) -> bool:
    return bool(answer == {"first_wrong_byte": None, "owner": RIGHT, "writer": RIGHT})


def talked_right(answer: Any) -> bool:
    return isinstance(answer, list) and all(
        (side["rounds"], side["wrong"], side["first"]) == (ROUNDS, 0, None) for side in answer
    )


# ---- a fine rig


def test_the_driver_compiles_them(bench: Bench) -> None:
    assert bench.run("compile_kernels") == [0, ""]


def test_stores_arrive_as_the_host_computes_them(bench: Bench) -> None:
    assert stored_right(bench.store())


@pytest.mark.parametrize("count", [1, 255, 16384, 16385])
def test_any_number_of_words_is_stored(bench: Bench, count: int) -> None:
    answer = bench.run("store", count=count, guards=1)
    assert answer["first_wrong_byte"] is None
    assert answer["owner"]["looked"] == count + 2


def test_loads_see_what_the_other_card_has(bench: Bench) -> None:
    assert bench.load() == RIGHT


def test_wrong_words_are_counted_and_the_first_is_named(bench: Bench) -> None:
    expected = words_of(1, 0, 1)

    found = bench.load(changed=[[39_999, 1], [777, 9], [20_000, 3]])

    assert (found["looked"], found["wrong"], found["guards_wrong"]) == (ALL, 3, 0)
    assert found["first"] == {"word": 777, "expected": expected.word(777), "seen": 9}


@pytest.mark.parametrize("word", [0, COUNT - 1])
def test_the_words_at_both_ends_are_looked_at(bench: Bench, word: int) -> None:
    assert bench.load(changed=[[word, 9]])["wrong"] == 1


@pytest.mark.parametrize("word", [-GUARDS, -1, COUNT, COUNT + GUARDS - 1])
def test_guard_words_are_looked_at(bench: Bench, word: int) -> None:
    found = bench.load(changed=[[word, POISON + 1]])
    assert (found["wrong"], found["guards_wrong"]) == (0, 1)


@pytest.mark.parametrize("pull", [False, True])
def test_flags_and_the_words_before_them_are_seen(bench: Bench, *, pull: bool) -> None:
    answer = bench.talk(pull=pull)
    assert talked_right(answer)
    assert all(2.2 < side["us"] < 40 for side in answer)


def test_a_round_trip_takes_as_long_as_the_link_does(bench: Bench) -> None:
    bench.rig.configure(latency=1.1)
    fast = bench.run("talk", rounds=ROUNDS, words=0)[0]["us"]
    bench.rig.configure(latency=11)
    slow = bench.run("talk", rounds=ROUNDS, words=0)[0]["us"]
    assert fast == pytest.approx(2.2, abs=2)
    assert slow == pytest.approx(22, abs=3)


def test_one_without_an_answer_gives_up(bench: Bench) -> None:
    begins, _ = bench.talk(alone=True, patience_s=0.005)
    assert begins["rounds"] == 0


# ---- bad rigs: the pair, and no other

STORE_FAULTS: dict[str, Callable[[Any], bool]] = {
    "wrong": lambda found: found["owner"]["wrong"] > 0 and found["owner"]["first"]["word"] > 0,
    "mirror": lambda found: found["owner"]["wrong"] == COUNT and not found["writer"]["wrong"],
    "stale": lambda found: found["owner"]["wrong"] == COUNT,
    "hang": lambda found: found == {"error": "hang"},
    "kernel-hang": lambda found: found == {"error": "hang"},
    "loads-wrong": lambda found: found["owner"] == RIGHT and found["writer"]["wrong"] == COUNT,
}


@pytest.mark.parametrize("fault", STORE_FAULTS)
def test_stores_find_the_fault_of_the_pair(bench: Bench, fault: str) -> None:
    bench.rig.configure(pairs={(0, 1): {"copy": fault}})
    how = {"hangs_after_s": SOON} if "hang" in fault else {}
    assert STORE_FAULTS[fault](bench.store(**how))
    assert stored_right(bench.store(swap=True))


@pytest.mark.parametrize("fault", STORE_FAULTS)
def test_loads_find_the_fault_of_the_pair(bench: Bench, fault: str) -> None:
    bench.rig.configure(pairs={(0, 1): {"copy": fault}})
    how = {"hangs_after_s": SOON} if "hang" in fault else {}
    found = bench.load(**how)
    assert found == {"error": "hang"} if how else found["wrong"] > 0
    assert bench.load(swap=True) == RIGHT


def test_stale_words_are_those_of_the_pass_before(bench: Bench) -> None:
    bench.rig.configure(copy="stale")
    first = bench.store(passes=2)["owner"]["first"]
    assert first == {
        "word": 0,
        "expected": words_of(0, 1, 1).word(0),
        "seen": words_of(0, 1, 0).word(0),
    }


def test_a_kernel_finds_the_wrong_words_that_the_host_finds(bench: Bench) -> None:
    bench.rig.configure(copy="wrong")
    found = bench.store()
    assert found["first_wrong_byte"] == 4 * (GUARDS + found["owner"]["first"]["word"])


@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize("fault", ["no-flags", "mirror", "hang", "kernel-hang", "stale"])
def test_flags_find_the_fault(bench: Bench, fault: str, *, pull: bool) -> None:
    bench.rig.configure(pairs={(0, 1): {"copy": fault}})
    how = {"hangs_after_s": SOON} if "hang" in fault else {}
    found = bench.talk(pull=pull, **how)
    assert found == {"error": "hang"} if how else not talked_right(found)


def test_flags_that_are_never_seen_are_found_by_nothing_else(bench: Bench) -> None:
    bench.rig.configure(copy="no-flags")
    assert stored_right(bench.store())
    assert bench.load() == RIGHT
    assert [side["rounds"] for side in bench.talk()] == [0, 0]


def test_a_slow_pair_takes_longer_and_is_right(bench: Bench) -> None:
    bench.rig.configure(copy="slow")
    assert stored_right(bench.store())


# ---- where none may go


@pytest.mark.parametrize("what", ["end", "peer"])
def test_a_store_to_where_none_may_go_ends_the_context(bench: Bench, what: str) -> None:
    assert bench.run("beyond", what=what) == [700, 700, True]


# ---- kernels that are broken on purpose


def mutant(kernel: str, old: str, new: str, which: int = 0) -> str:
    """`which`: of several places."""
    before, mark, text = PTX.partition(f".entry {kernel}(")
    body, brace, after = text.partition("\n}\n")
    parts = body.split(old)
    assert len(parts) > which + 1, f"{kernel} has no such line any more: {old}"
    body = old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])
    return before + mark + body + brace + after


STORE_MUTANTS = {
    "wrong stride of addresses": ("%k, 4, %to", "%k, 8, %to"),
    "wrong stride of threads": ("next:", "add.u32 %stride, %stride, %stride;\nnext:"),
    "one word too many": ("setp.ge.u32 %done", "setp.gt.u32 %done"),
    "one word too few": ("next:", "sub.u32 %words, %words, 1;\nnext:"),
    "every word alike": ("mad.lo.u32 %word, %k, %step, %start", "mov.u32 %word, %start"),
    "every pass alike": ("%k, %step, %start", "%k, 1, 0"),
    "nothing mixed in": ("xor.b32 %word, %word, %high;", ""),
}


@pytest.mark.shard(PREFLIGHT)
@pytest.mark.parametrize("name", STORE_MUTANTS)
def test_a_broken_store_is_caught(bench: Bench, name: str) -> None:
    assert not stored_right(bench.store(ptx=mutant(STORE, *STORE_MUTANTS[name])))


LOAD_MUTANTS = {
    "wrong stride of addresses": ("%k, 4, %from", "%k, 8, %from"),
    "wrong stride of threads": ("next:", "add.u32 %stride, %stride, %stride;\nnext:"),
    "threads overlap": ("next:", "mov.u32 %stride, %size;\nnext:"),
    "one word too many": ("setp.ge.u32 %done", "setp.gt.u32 %done"),
    "guards in front left out": ("add.u32 %looked", "@%inside add.u32 %looked"),
    "guards taken for words": (
        "setp.lt.u32 %inside, %at, %words",
        "setp.lt.u32 %inside, %at, %all",
    ),
    "nothing looked at": ("mov.u32 %looked, 0;", "mov.u32 %looked, 0; bra end;"),
}


@pytest.mark.shard(PREFLIGHT)
@pytest.mark.parametrize("name", LOAD_MUTANTS)
def test_a_broken_load_is_caught_on_a_fine_rig(bench: Bench, name: str) -> None:
    assert bench.load(ptx=mutant(LOAD, *LOAD_MUTANTS[name])) != RIGHT


BLIND_MUTANTS = {
    "reading its own copy": (
        "ld.volatile.global.u32 %seen, [%address]",
        "mov.u32 %seen, %expected",
    ),
    "wrong words not counted": ("red.global.add.u64 [%report+8], 1;", ""),
    "guard words not counted": ("red.global.add.u64 [%report+32], 1;", ""),
    "the last wrong word for the first": ("min.u64 [%report+16]", "max.u64 [%report+16]"),
    "guards never wrong": ("@%right bra next;", "@%right bra next; @!%inside bra next;"),
}


@pytest.mark.shard(PREFLIGHT)
@pytest.mark.parametrize("name", BLIND_MUTANTS)
def test_a_blind_load_is_caught_by_words_that_are_wrong(bench: Bench, name: str) -> None:
    changed = [[5, 9], [COUNT - 1, 8], [-1, 7]]
    right = bench.load(changed=changed)
    assert (right["wrong"], right["guards_wrong"], right["first"]["seen"]) == (2, 1, 9)
    assert bench.load(ptx=mutant(LOAD, *BLIND_MUTANTS[name]), changed=changed) != right


TALK_MUTANTS = {
    "no fence before the flag": ("membar.sys;", "", 0),
    "no fence after the flag": ("membar.sys;", "", 1),
    "a fence of the device before the flag": ("membar.sys;", "membar.gl;", 0),
    "reading its own copy": ("%k, 4, %inbox", "%k, 4, %outbox", 0),
    "waiting for its own flag": ("%seen, [%inbox]", "%seen, [%outbox]", 0),
    "every round alike": ("mul.lo.u32 %number, %round, %words", "mov.u32 %number, 0", 0),
    "one word too many": ("setp.ge.u32 %over, %k, %words", "setp.gt.u32 %over, %k, %words", 1),
    "one word too few": ("next_sent:", "next_sent: add.u32 %k, %k, 1;", 0),
    "no wait for the flag": ("@%right bra arrived;", "bra arrived;", 0),
}


@pytest.mark.shard(PREFLIGHT)
@pytest.mark.parametrize("name", TALK_MUTANTS)
def test_a_broken_ping_pong_is_caught(bench: Bench, name: str) -> None:
    assert not talked_right(bench.talk(ptx=mutant(PING_PONG, *TALK_MUTANTS[name])))


@pytest.mark.shard(PREFLIGHT)
@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_fence_is_caught_when_each_polls_the_other(bench: Bench, which: int) -> None:
    broken = mutant(PING_PONG, "membar.sys;", "", which)
    assert not talked_right(bench.talk(ptx=broken, pull=True))


@pytest.mark.shard(PREFLIGHT)
def test_a_wait_without_a_bound_is_caught(bench: Bench) -> None:
    broken = mutant(PING_PONG, "@!%over bra spin;", "bra spin;")
    assert bench.talk(ptx=broken, alone=True, hangs_after_s=SOON) == {"error": "hang"}


# ---- words as the host computes them


@pytest.mark.parametrize("count", [1, 3, 1024, 1025, 5000])
def test_many_words_at_once_are_the_words_one_by_one(count: int) -> None:
    words = words_of(2, 1, 7)
    one_by_one = b"".join(words.word(k).to_bytes(4, "little") for k in range(count))
    assert words.as_bytes(count) == one_by_one


def test_no_run_of_words_comes_out_of_two_passes() -> None:
    runs: set[bytes] = set()
    plans = [(0, 1, 1), (0, 1, 2), (1, 0, 1), (0, 2, 1)]
    for plan in plans:
        text = words_of(*plan).as_bytes(2000)
        runs |= {text[at : at + 8] for at in range(0, len(text) - 8, 4)}
    assert len(runs) == len(plans) * 1998
