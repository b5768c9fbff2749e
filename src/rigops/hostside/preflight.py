"""Proves peer-to-peer between the GPUs of this host, rung by rung (L0 to L5), then collectives.

Runs as the login user and touches no setting. This process never loads CUDA: whatever may hang
runs in a child of its own. Progress and the result are JSON lines on stdout, the result last; the
exit code is 0 whenever there is a result.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.card import Gpu
from rigops.hostside.p2p.census import take_census
from rigops.hostside.p2p.collectives import find_nccl, prove_collectives
from rigops.hostside.p2p.ladder import PairPlan, pair_job
from rigops.hostside.p2p.machine import (
    describe_machine,
    file_text,
    find_jobs,
    nvidia_gpus,
    processor,
    shared_memory,
    smi_job,
)
from rigops.hostside.p2p.meanwhile import Meanwhile
from rigops.hostside.p2p.processes import processes_job
from rigops.hostside.p2p.together import PlanOfAll, together_job
from rigops.hostside.p2p.verdict import ALL_REDUCE, FAIL, STATUS_OF, UNKNOWN
from rigops.hostside.p2p.watched import Ended, Patience, watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rigops.hostside.p2p.answers import (
        CollectivesAnswer,
        FlowAnswer,
        GpuAnswer,
        JobAnswer,
        LogAnswer,
        PairAnswer,
        PeerAnswer,
        Result,
        Trouble,
    )
    from rigops.hostside.p2p.watched import Job

SCHEMA: Final = "rigops.preflight-payload/1"
_SMI_S: Final = 10.0
_AROUND_S: Final = 10.0  # for each program before and after the copies
_SHARE_FOR_COPIES: Final = 0.4  # of a pair's time
_AT_LEAST_SILENT: Final = 0.25  # of it without a new step, or it was slow and did not hang


def say_line(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def _say_pair(pair: PairAnswer) -> None:
    """Again after each rung, so that it is known of a host that is lost later."""
    say_line(event="pair", pair=pair)


class _Host:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._until = time.monotonic() + options.all_s
        self._gpus: list[GpuAnswer] = []
        self._peers: list[list[PeerAnswer | None]] = []
        self._wedged: dict[int, str] = {}  # GPUs that hung, and in which pair
        self._stop = ""  # why no further pair may be tried
        self._meanwhile: Meanwhile | None = None  # where something is copied
        self._flows: list[FlowAnswer] = []
        self.troubles: list[Trouble] = []
        self.needs_reboot = False

    def result(self) -> Result:
        self._take_census()
        topology = "" if self._stop or len(self._gpus) < 2 else self._read_smi("topo", "-m")  # noqa: PLR2004 - a pair
        jobs = self._read_jobs() if topology and self._options.level == "quick" else []
        system = Path(self._options.system)
        if self._copies():
            self._meanwhile = Meanwhile(
                system, [gpu["address"] for gpu in self._gpus], self._ask, self._read_cards
            )
            self._meanwhile.begin()
        pairs = list(self._pairs())
        self._go_on(pairs)
        collectives = self._try_collectives()
        return {
            "schema": SCHEMA,
            "boot_id": file_text(Path("/proc/sys/kernel/random/boot_id")),
            "at": round(time.time()),
            "processor": processor(),
            "machine": describe_machine(system),
            "gpus": self._gpus,
            "on_bus": nvidia_gpus(system),
            "shared_memory": shared_memory(),
            "topology": topology,
            "jobs": jobs,
            "pairs": pairs,
            "flows": self._flows,
            "collectives": collectives,
            "meanwhile": self._meanwhile.end() if self._meanwhile else None,
            "troubles": self.troubles,
            "needs_reboot": self.needs_reboot,
        }

    # ---- L0

    def _take_census(self) -> None:
        options = self._options
        ended = self._watch(take_census, Patience(options.init_s, options.init_s, options.dead_s))
        found = ended.last("answer")
        if found is None:
            self._trouble("hang" if ended.overdue else "error", _how_ended(ended))
        elif "trouble" in found:
            self._trouble(*found["trouble"])
        else:
            self._gpus, self._peers = found["gpus"], found["peers"]
        if ended.stuck:
            self._give_up(f"{ended.step} hangs")

    def _read_jobs(self) -> list[JobAnswer]:
        return find_jobs(self._read_smi("--query-compute-apps=gpu_bus_id,pid", "--format=csv"))

    def _read_smi(self, *words: str) -> str:
        ended = self._nvidia_smi(words, _SMI_S)
        return "" if ended.overdue or ended.how else ended.text

    def _nvidia_smi(self, words: tuple[str, ...], most_s: float) -> Ended:
        patience = Patience(most_s, most_s, self._options.dead_s)
        ended = self._watch(smi_job(*words), patience)
        if ended.stuck:
            self._trouble("hang", _how_ended(ended))
            self._give_up("nvidia-smi hangs in the driver")
        elif ended.overdue:
            self._trouble("note", _how_ended(ended))
        return ended

    # ---- around the copies

    def _copies(self) -> bool:
        if self._stop or self._options.level == "quick":
            return False
        count = range(len(self._gpus))
        return any(i != j and self._granted(i, j) for i in count for j in count)

    def _read_cards(self) -> str:
        """Nothing where a driver hangs: another program would hang in it as well."""
        if self._stop or self._wedged:
            return ""
        ended = self._nvidia_smi(("-q", "-d", "MEMORY,PERFORMANCE"), _AROUND_S)
        return "" if ended.overdue else ended.text

    def _ask(self, job: Job) -> LogAnswer | None:
        patience = Patience(_AROUND_S, _AROUND_S, self._options.dead_s)
        answer: LogAnswer | None = self._watch(job, patience).last("answer")
        return answer

    # ---- pairs

    def _pairs(self) -> Iterator[PairAnswer]:
        for i in range(len(self._gpus)):
            for j in range(len(self._gpus)):
                if i != j and (not self._options.pairs or f"{i}:{j}" in self._options.pairs):
                    pair = self._pair(i, j)
                    _say_pair(pair)
                    yield pair

    def _pair(self, i: int, j: int) -> PairAnswer:
        pair: PairAnswer = {
            "from": self._gpus[i]["address"],
            "to": self._gpus[j]["address"],
            "verdict": "unknown",
            "level": "L0",
            "gb_per_s": None,
            "both_ways_gb_per_s": None,
            "staged_gb_per_s": None,
            "latency_us": None,
            "round_trip_us": None,
            "evidence": [],
        }
        there, back = self._granted(i, j), self._granted(j, i)
        if not there:
            pair.update(self._refused(i, j, back=back))
        elif self._options.level == "quick":
            pair.update(
                {"verdict": "skipped", "evidence": [f"{self._grant(i, j)}; copies were not tried"]}
            )
        else:
            pair.update(self._try(i, j))
        return pair

    def _gpu(self, i: int) -> Gpu:
        return Gpu(i, self._gpus[i]["address"])

    def _granted(self, i: int, j: int) -> bool:
        peer = self._peers[i][j]
        return peer is not None and bool(peer["granted"])

    def _grant(self, i: int, j: int) -> str:
        peer = self._peers[i][j]
        shown = (("rank", peer["rank"]), ("atomics", peer["atomics"])) if peer else ()
        known = [f"{name} {value}" for name, value in shown if value is not None]
        return "granted by the driver" + (f" ({', '.join(known)})" if known else "")

    def _refused(self, i: int, j: int, *, back: bool) -> PairAnswer:
        one, other = self._gpus[i]["name"], self._gpus[j]["name"]
        evidence = ["cuDeviceCanAccessPeer says no"]
        if back:
            evidence.append("the opposite direction is granted")
        if one != other:
            evidence.append(f"different cards ({one}, {other}) seldom reach each other")
        return {"verdict": "one_way" if back else "not_granted", "evidence": evidence}

    def _try(self, i: int, j: int) -> PairAnswer:
        wedged = self._wedged.get(i) or self._wedged.get(j)
        if self._stop or wedged:
            return {"verdict": "skipped", "evidence": [self._stop or f"not tried after {wedged}"]}
        options = self._options
        if time.monotonic() >= self._until:
            late = f"not tried: the {options.all_s:g} s for all pairs were over"
            return {"verdict": "unknown", "evidence": [late]}
        early = options.pair_s * _SHARE_FOR_COPIES
        plan = PairPlan(
            self._gpu(i), self._gpu(j), tuple(sorted(options.sizes)), options.passes, early
        )
        patience = Patience(options.init_s, options.pair_s, options.dead_s)
        ended = self._watch(pair_job(plan), patience, [i, j])
        return {"level": ended.last("rung") or "L1", **self._judge(ended, i, j)}

    def _judge(self, ended: Ended, i: int, j: int) -> PairAnswer:
        found: PairAnswer | None = ended.last("answer")
        silent = ended.at_step_s >= self._options.pair_s * _AT_LEAST_SILENT
        if ended.overdue and not found and not silent and not ended.stuck:
            return {"evidence": [f"{_how_ended(ended)}, but went on until then: a very slow host?"]}
        if ended.overdue:
            name = f"the hang of {self._gpus[i]['address']} to {self._gpus[j]['address']}"
            self._wedged.update(dict.fromkeys((i, j), name))
            if ended.stuck:
                self._give_up(f"not tried after {name}, which nothing but a reboot ends")
            late = "its process hung after the copies" if found else _how_ended(ended)
            rest = found["evidence"] if found else []
            nothing: PairAnswer = {}
            measured = found or ended.last("measured") or nothing
            return {**measured, "verdict": "hang", "evidence": [late, *ended.evidence, *rest]}
        return found or {"verdict": "error", "evidence": [_how_ended(ended)]}

    # ---- all pairs, and other processes

    def _go_on(self, pairs: list[PairAnswer]) -> None:
        """To the rungs that come when each pair has passed alone."""
        proven = [pair for pair in pairs if pair["level"] == "L3" and not _has_failed(pair)]
        self._try_together(proven)
        for pair in proven:
            _say_pair(pair)
        together = [pair for pair in proven if pair["level"] == "L4" and not _has_failed(pair)]
        for count, pair in enumerate(together, 1):
            text = f"between processes, pair {count} of {len(together)}"
            self._try_between_processes(pair, text)
            _say_pair(pair)

    def _indices(self, pair: PairAnswer) -> tuple[int, int]:
        number = {gpu["address"]: i for i, gpu in enumerate(self._gpus)}
        return number[pair["from"]], number[pair["to"]]

    def _not_now(self, cards: Iterable[int]) -> str:
        """Why nothing more may be tried with these cards; empty: it may."""
        wedged = next((self._wedged[card] for card in cards if card in self._wedged), "")
        late = time.monotonic() >= self._until
        over = f"the {self._options.all_s:g} s for all pairs were over" if late else ""
        return self._stop or (f"after {wedged}" if wedged else over)

    def _try_together(self, pairs: list[PairAnswer]) -> None:
        by_cards = {self._indices(pair): pair for pair in pairs}
        why = self._not_now(card for both in by_cards for card in both)
        if why or not pairs:
            for pair in pairs:
                pair["evidence"].append(f"all pairs at once were not tried: {why}")
            return
        say_line(event="stage", rung="L4", text="all pairs at once")
        options = self._options
        patience = Patience(options.init_s, options.pair_s, options.dead_s)
        alone = [
            (self._gpu(i), self._gpu(j), pair["gb_per_s"] or 0.0)
            for (i, j), pair in by_cards.items()
        ]
        early = options.pair_s * _SHARE_FOR_COPIES
        ended = self._watch(together_job(PlanOfAll(alone, max(options.sizes), early)), patience)
        found = ended.last("answer")
        if found is None or ended.overdue:
            self._judge_unfinished(ended, by_cards)
            return
        for one in found:
            pair = by_cards[tuple(one["pair"])]
            pair["level"] = "L4"
            if one["turn"]:
                flow: FlowAnswer = {
                    "turn": one["turn"],
                    "from": pair["from"],
                    "to": pair["to"],
                    "gb_per_s": one["gb_per_s"],
                }
                self._flows.append(flow)
            if one["error"] is not None:
                pair.update({"verdict": "error", "evidence": ["all pairs at once", one["error"]]})
            elif one["wrong"]:
                pair.update(
                    {"verdict": "wrong_data", "evidence": ["all pairs at once", *one["wrong"]]}
                )

    def _judge_unfinished(self, ended: Ended, pairs: dict[tuple[int, int], PairAnswer]) -> None:
        verdict = "hang" if ended.overdue else "error"
        waited_for = ended.last("waiting") if ended.overdue else None
        affected = [tuple(both) for both in waited_for] if waited_for else list(pairs)
        evidence = ["all pairs at once", _how_ended(ended), *ended.evidence]
        for both in affected:
            pairs[both].update({"level": "L4", "verdict": verdict, "evidence": evidence})
            if ended.overdue:
                self._wedged.update(dict.fromkeys(both, "the hang of all pairs at once"))
        if ended.stuck:
            self._give_up("not tried after the hang of all pairs, which nothing but a reboot ends")

    def _try_between_processes(self, pair: PairAnswer, text: str) -> None:
        i, j = self._indices(pair)
        why = self._not_now((i, j))
        if why:
            pair["evidence"].append(f"other processes were not tried: {why}")
            return
        say_line(event="stage", rung="L5", text=text)
        options = self._options
        patience = Patience(options.init_s, options.pair_s, options.dead_s)
        job = processes_job(self._gpu(i), self._gpu(j))
        found = self._judge(self._watch(job, patience, [i, j]), i, j)
        verdict = found.get("verdict", "unknown")
        pair["level"] = "L5"
        if verdict == "ok":
            pair["evidence"] += found["evidence"]
        else:
            pair.update({"verdict": verdict, "evidence": found["evidence"]})

    # ---- collectives

    def _try_collectives(self) -> CollectivesAnswer | None:
        """None: it was not asked for, or there is nothing to reduce."""
        options = self._options
        patience = Patience(options.init_s, options.pair_s, options.dead_s)
        if options.find_nccl and not self._stop:
            return find_nccl(lambda job: self._watch(job, patience))
        if options.level == "quick" or options.pairs or len(self._gpus) < 2:  # noqa: PLR2004 - a pair
            return None

        def watch_arm(job: Job) -> Ended:
            ended = self._watch(job, patience)
            if ended.overdue:
                self._wedged.update(dict.fromkeys(range(len(gpus)), f"the hang of {ended.step}"))
            if ended.stuck:
                self._give_up(f"{ended.step} hangs")
            return ended

        gpus = [self._gpu(i) for i in range(len(self._gpus))]
        say_line(event="stage", rung=ALL_REDUCE, text="all-reduce by NCCL")
        return prove_collectives(
            gpus,
            find=lambda job: self._watch(job, patience),
            try_arm=watch_arm,
            why_not=lambda: self._not_now(()),
            why_not_p2p=lambda: self._not_now(self._wedged),
        )

    # ---- both

    def _watch(self, job: Job, patience: Patience, pair: list[int] | None = None) -> Ended:
        def on_step(step: str, rung: str) -> None:
            say_line(event="step", pair=pair, step=step, rung=rung)
            if pair and self._meanwhile:
                self._meanwhile.bytes_move(self._gpus[i]["address"] for i in pair)

        return watch(job, patience, on_step)

    def _trouble(self, kind: str, message: str) -> None:
        self.troubles.append({"kind": kind, "message": message})

    def _give_up(self, why: str) -> None:
        self.needs_reboot = True
        self._stop = why


def _has_failed(pair: PairAnswer) -> bool:
    return STATUS_OF[pair["verdict"]] in (FAIL, UNKNOWN)


def _how_ended(ended: Ended) -> str:
    last = ended.text.strip().rpartition("\n")[2]
    how = "did not end in time" if ended.overdue else ended.how or "ended without an answer"
    return f"{ended.step}: {how}" + (f": {last}" if last else "")


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="preflight")
    parser.add_argument("--level", choices=("quick", "p2p"), required=True)
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    parser.add_argument("--passes", type=int, required=True)
    parser.add_argument("--pairs", nargs="*", default=[], help="only these, such as 0:1 1:0")
    parser.add_argument("--find-nccl", action="store_true", help="try no all-reduce")
    for name in ("init", "pair", "all", "dead"):
        parser.add_argument(f"--{name}-s", type=float, required=True)
    parser.add_argument("--system", default="/sys")
    return parser.parse_args(words)


def main() -> None:
    options = _options(sys.argv[1:])
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # compiled kernels would stay in the user's home
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        say_line(event="result", result=_Host(options).result())
    except BrokenPipeError:
        os._exit(1)  # the reader is gone: the children go with this process


if __name__ == "__main__":
    main()
