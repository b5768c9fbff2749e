"""A child that hangs or faults in a kernel is ended, and the card goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rigops.hostside.p2p.accesses import Accessor
from rigops.hostside.p2p.card import Card, Gpu
from rigops.hostside.p2p.cuda import Cuda, CudaError
from rigops.hostside.p2p.kernels import Kernels, Talk
from rigops.hostside.p2p.meanwhile import mark_log, read_new_lines
from rigops.hostside.p2p.verdict import POISON
from rigops.hostside.p2p.words import words_of
from tests.shards import SILICON
from tests.silicon import cards

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.hostside.p2p.watched import Job, Say

pytestmark = pytest.mark.shard(SILICON)

XID = "RIGOPS_SILICON_XID"
SPINS_S = 60.0  # then it ends by itself, so that no card is left with it
WORDS = words_of(0, 1, 1)
COUNT, GUARDS = 40_000, 16


def opened(gpu: Gpu) -> tuple[Card, Kernels]:
    cuda = Cuda()
    cuda.do("cuInit", 0)
    card = Card(cuda, gpu)
    return card, Kernels(cuda)


def spin(gpu: Gpu) -> Job:
    def job(say: Say) -> None:
        card, kernels = opened(gpu)
        mailboxes = card.memory(4096)
        card.fill(mailboxes, 0, 4096)
        kernels.clear_report()
        kernels.talk(
            Talk(mailboxes, mailboxes + 2048, 1, SPINS_S, 1, WORDS, WORDS, serves=False),
            card.stream,
        )
        say(step="waiting for a flag that never comes", ready=True)
        card.wait(say)
        say(answer="the kernel ended")

    return job


def compute(gpu: Gpu) -> Job:
    def job(say: Say) -> None:
        card, kernels = opened(gpu)
        say(step="computing", ready=True)
        accessor = Accessor(card, kernels, say)
        size = 4 * (COUNT + 2 * GUARDS)
        guarded = card.memory(size)
        card.fill(guarded, POISON, size)
        accessor.store(guarded + 4 * GUARDS, COUNT, WORDS)
        kernels.load(guarded, COUNT, GUARDS, WORDS, card.stream)
        card.wait(say)
        say(answer=kernels.loaded().is_right(COUNT, GUARDS))

    return job


def test_a_kernel_that_spins_is_ended_and_the_card_computes_afterwards(
    gpu: Gpu, record_property: Callable[[str, object], None]
) -> None:
    ended = cards.run(spin(gpu), done_s=3.0)
    began = time.monotonic()
    after = cards.run(compute(gpu))
    seconds = time.monotonic() - began

    assert (ended.overdue, ended.stuck, ended.how) == (True, False, "ended by signal 15"), str(
        ended
    )
    assert ended.step == "waiting for a flag that never comes"
    assert after.last("answer") is True, str(after)
    record_property(
        "a kernel that spins", f"ended by the watch, the card right {seconds:.1f} s later"
    )


def test_a_store_to_nowhere_is_an_xid_31(
    gpu: Gpu, record_property: Callable[[str, object], None]
) -> None:
    if os.environ.get(XID) != "1":
        pytest.skip(f"a real Xid 31: {XID}=1 is not set")

    def store(say: Say) -> None:
        card, kernels = opened(gpu)
        say(step="a store to address 64", ready=True)
        try:
            kernels.store(64, 16, WORDS, card.stream)
            card.wait(say)
            say(answer="no error")
        except CudaError as error:
            say(answer=str(error))

    mark = cards.run(mark_log).last("answer")
    assert "why" not in mark, f"the kernel log cannot be read: {mark}"
    said = cards.run(store).last("answer")
    log = cards.run(read_new_lines(mark)).last("answer")
    words = [sys.executable, "-m", "rigops", "doctor", "@local", "--only", "xid", "--json"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    (host,) = json.loads(done.stdout)["hosts"]

    assert "CUDA_ERROR_ILLEGAL_ADDRESS 700" in said
    where = gpu.address.rpartition(".")[0]
    lines = [one for one in log["lines"] if f"Xid (PCI:{where}): 31" in one]
    assert lines, str(log)
    found = [(one["status"], one["subject"], one["data"].get("xid")) for one in host["findings"]]
    assert ("warn", f"gpu {gpu.address}", 31) in found, str(host)
    record_property("a store to nowhere", lines[0].partition("NVRM: ")[2])
