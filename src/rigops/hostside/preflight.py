"""Proves peer-to-peer between the GPUs of this host: rung L0 (grants) and rung L1 (copies).

Runs as the login user and touches no setting. This process never loads CUDA: whatever may hang
runs in a child of its own. Progress and the result are JSON lines on stdout, the result last; the
exit code is 0 whenever there is a result.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops.hostside.p2p.copies import CopyPlan, copy_job
from rigops.hostside.p2p.cuda import (
    NATIVE_ATOMICS,
    NO_DEVICE,
    PERFORMANCE_RANK,
    Cuda,
    CudaError,
    NoLibraryError,
)
from rigops.hostside.p2p.watched import Ended, Patience, watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.hostside.p2p.watched import Job, Say

SCHEMA: Final = "rigops.preflight-payload/1"
_TOPOLOGY_S: Final = 10.0
_SHARE_FOR_COPIES: Final = 0.4  # of a pair's time
_AT_LEAST_SILENT: Final = 0.25  # of it without a new step, or it was slow and did not hang


_NVIDIA: Final = "0x10de"
_DISPLAY: Final = "0x03"


def say_line(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


class _Host:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._until = time.monotonic() + options.all_s
        self._gpus: list[dict[str, Any]] = []
        self._peers: list[list[dict[str, Any] | None]] = []
        self._wedged: dict[int, str] = {}  # GPUs that hung, and in which pair
        self._stop = ""  # why no further pair may be tried
        self.troubles: list[dict[str, str]] = []
        self.needs_reboot = False

    def result(self) -> dict[str, Any]:
        self._take_census()
        topology = "" if self._stop or len(self._gpus) < 2 else self._read_topology()  # noqa: PLR2004 - a pair
        pairs = list(self._pairs())
        system = Path(self._options.system)
        return {
            "schema": SCHEMA,
            "boot_id": _file_text(Path("/proc/sys/kernel/random/boot_id")),
            "processor": _processor(),
            "gpus": self._gpus,
            "on_bus": nvidia_gpus(system),
            "topology": topology,
            "pairs": pairs,
            "troubles": self.troubles,
            "needs_reboot": self.needs_reboot,
        }

    # ---- L0

    def _take_census(self) -> None:
        options = self._options
        ended = self._watch(take_census, Patience(options.init_s, options.init_s, options.dead_s))
        found = ended.answer()
        if found is None:
            self._trouble("hang" if ended.overdue else "error", _how_ended(ended))
        elif "trouble" in found:
            self._trouble(*found["trouble"])
        else:
            self._gpus, self._peers = found["gpus"], found["peers"]
        if ended.stuck:
            self._give_up(f"{ended.step} hangs")

    def _read_topology(self) -> str:
        patience = Patience(_TOPOLOGY_S, _TOPOLOGY_S, self._options.dead_s)
        ended = self._watch(read_topology, patience)
        if ended.stuck:
            self._trouble("hang", _how_ended(ended))
            self._give_up("nvidia-smi hangs in the driver")
        elif ended.overdue:
            self._trouble("note", _how_ended(ended))
        return "" if ended.overdue or ended.how else ended.text

    # ---- pairs

    def _pairs(self) -> Iterator[dict[str, Any]]:
        for i in range(len(self._gpus)):
            for j in range(len(self._gpus)):
                if i != j:
                    pair = self._pair(i, j)
                    say_line(event="pair", pair=pair)
                    yield pair

    def _pair(self, i: int, j: int) -> dict[str, Any]:
        pair = {
            "from": self._gpus[i]["address"],
            "to": self._gpus[j]["address"],
            "verdict": "unknown",
            "level": "L0",
            "gb_per_s": None,
            "both_ways_gb_per_s": None,
            "staged_gb_per_s": None,
            "latency_us": None,
            "evidence": [],
        }
        there, back = self._granted(i, j), self._granted(j, i)
        if not there:
            pair.update(self._refused(i, j, back=back))
        elif self._options.level == "quick":
            pair.update(verdict="skipped", evidence=[f"{self._grant(i, j)}; copies were not tried"])
        else:
            pair.update(self._try(i, j, back=back))
        return pair

    def _granted(self, i: int, j: int) -> bool:
        return bool((self._peers[i][j] or {}).get("granted"))

    def _grant(self, i: int, j: int) -> str:
        peer = self._peers[i][j] or {}
        known = [
            f"{name} {peer[name]}" for name in ("rank", "atomics") if peer.get(name) is not None
        ]
        return "granted by the driver" + (f" ({', '.join(known)})" if known else "")

    def _refused(self, i: int, j: int, *, back: bool) -> dict[str, Any]:
        one, other = self._gpus[i]["name"], self._gpus[j]["name"]
        evidence = ["cuDeviceCanAccessPeer says no"]
        if back:
            evidence.append("the opposite direction is granted")
        if one != other:
            evidence.append(f"different cards ({one}, {other}) seldom reach each other")
        return {"verdict": "one_way" if back else "not_granted", "evidence": evidence}

    def _try(self, i: int, j: int, *, back: bool) -> dict[str, Any]:
        wedged = self._wedged.get(i) or self._wedged.get(j)
        if self._stop or wedged:
            return {"verdict": "skipped", "evidence": [self._stop or f"not tried after {wedged}"]}
        options = self._options
        if time.monotonic() >= self._until:
            late = f"not tried: the {options.all_s:g} s for all pairs were over"
            return {"verdict": "unknown", "evidence": [late]}
        early = options.pair_s * _SHARE_FOR_COPIES
        plan = CopyPlan(i, j, tuple(sorted(options.sizes)), options.passes, back, early)
        patience = Patience(options.init_s, options.pair_s, options.dead_s)
        ended = self._watch(copy_job(plan), patience, [i, j])
        return {"level": "L1", **self._judge(ended, i, j)}

    def _judge(self, ended: Ended, i: int, j: int) -> dict[str, Any]:
        found = ended.answer()
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
            return {**(found or {}), "verdict": "hang", "evidence": [late, *ended.evidence, *rest]}
        return found or {"verdict": "error", "evidence": [_how_ended(ended)]}

    # ---- both

    def _watch(self, job: Job, patience: Patience, pair: list[int] | None = None) -> Ended:
        return watch(job, patience, lambda step: say_line(event="step", pair=pair, step=step))

    def _trouble(self, kind: str, message: str) -> None:
        self.troubles.append({"kind": kind, "message": message})

    def _give_up(self, why: str) -> None:
        self.needs_reboot = True
        self._stop = why


def _how_ended(ended: Ended) -> str:
    last = ended.text.strip().rpartition("\n")[2]
    how = "did not end in time" if ended.overdue else ended.how or "ended without an answer"
    return f"{ended.step}: {how}" + (f": {last}" if last else "")


def take_census(say: Say) -> None:
    """Job of a watched child."""
    say(step="loading libcuda.so.1")
    try:
        cuda = Cuda()
        say(step="cuInit")
        cuda.do("cuInit", 0)
        say(step="looking at the devices", ready=True)
        say(answer=_census(cuda))
    except NoLibraryError as error:
        say(answer={"trouble": ["no_library", str(error)]})
    except CudaError as error:
        kind = "no_device" if error.code == NO_DEVICE else "error"
        say(answer={"trouble": [kind, str(error)]})


def _census(cuda: Cuda) -> dict[str, Any]:
    devices = [cuda.number("cuDeviceGet", i) for i in range(cuda.number("cuDeviceGetCount"))]
    gpus = [
        {
            "address": pci_address(cuda.device_text("cuDeviceGetPCIBusId", device)),
            "name": cuda.device_text("cuDeviceGetName", device),
            "memory": cuda.size("cuDeviceTotalMem_v2", device),
        }
        for device in devices
    ]
    peers = [
        [_peer(cuda, one, other) if one != other else None for other in devices] for one in devices
    ]
    return {"cuda": cuda.number("cuDriverGetVersion"), "gpus": gpus, "peers": peers}


def _peer(cuda: Cuda, one: int, other: int) -> dict[str, int | None]:
    return {
        "granted": cuda.number("cuDeviceCanAccessPeer", one, other),
        "rank": _attribute(cuda, PERFORMANCE_RANK, one, other),
        "atomics": _attribute(cuda, NATIVE_ATOMICS, one, other),
    }


def _attribute(cuda: Cuda, attribute: int, one: int, other: int) -> int | None:
    try:
        return cuda.number("cuDeviceGetP2PAttribute", attribute, one, other)
    except CudaError:
        return None


def pci_address(text: str) -> str:
    """Make it 0000:0a:00.0, however many digits and capitals the driver likes."""
    found = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]+:[0-9a-f]+\.[0-9a-f])", text.strip().lower())
    return f"{int(found[1] or '0', 16):04x}:{found[2]}" if found else text


def read_topology(say: Say) -> None:
    """Job of a watched child, which becomes nvidia-smi."""
    say(step="nvidia-smi topo -m", ready=True)
    try:
        os.execvp("nvidia-smi", ("nvidia-smi", "topo", "-m"))  # noqa: S606 - no shell is needed
    except OSError as error:
        say(answer=str(error))


def nvidia_gpus(system: Path) -> list[dict[str, str]]:
    """Cards on the bus, with the kernel driver that each is bound to."""
    found = []
    for device in sorted(system.glob("bus/pci/devices/*")):
        if _file_text(device / "vendor") == _NVIDIA and _file_text(device / "class").startswith(
            _DISPLAY
        ):
            driver = device / "driver"
            bound = driver.resolve().name if driver.exists() else ""
            found.append({"address": device.name.lower(), "driver": bound})
    return found


def _processor() -> str:
    for line in _file_text(Path("/proc/cpuinfo")).split("\n"):
        if line.startswith("vendor_id"):
            return line.partition(":")[2].strip()
    return ""


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="preflight")
    parser.add_argument("--level", choices=("quick", "p2p"), required=True)
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    parser.add_argument("--passes", type=int, required=True)
    for name in ("init", "pair", "all", "dead"):
        parser.add_argument(f"--{name}-s", type=float, required=True)
    parser.add_argument("--system", default="/sys")
    return parser.parse_args(words)


def main() -> None:
    options = _options(sys.argv[1:])
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        say_line(event="result", result=_Host(options).result())
    except BrokenPipeError:
        os._exit(1)  # the reader is gone: the children go with this process


if __name__ == "__main__":
    main()
