"""How fast hosts are examined, against peers on the same lab hosts: `python -m benchmarks.doctor`.

Needs root for the lab, and for the fleet an `ansible` on the PATH (or named by $ANSIBLE).

cost        what a probe takes of a host of that fleet: processes, and processor time by the host's
            control group
one-host    connecting, probing and reading the answer, against `ssh HOST sh -s < probe.sh`; and
            the whole command, start-up and report included
fleet       `rigops doctor` of 24 hosts, against `ansible -m setup` of the same: seconds, where the
            hosts share the cores of the controller; and the processor time of the controller alone,
            which is what a fleet of real machines waits for
judging     a saved bundle, from text to findings; no peer, so milliseconds
pastes      ten megabytes of what people paste, and of what breaks readers; the whole command
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.catalog import load
from rigops.doctor.registry import examine
from rigops.probe.bundles.reading import read_all
from rigops.probe.collect import collect
from rigops.probe.registry import SECTIONS
from rigops.probe.script import script
from rigops.probe.snapshot import HostSnapshot
from rigops.transport import HostKeyPolicy, Target, connect
from tests.lab import clients, cost, hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.lab.hosts import Host

CHOICES = ("cost", "one-host", "fleet", "judging")
RUNS = 5
FLEET = 24
RIG = "fresh-install"
ONE_HOST_BOUND = 1.5
FLEET_BOUND = 10.0
JUDGING_BOUND_MS = 50.0
PASTE_BYTES = 10_000_000
PASTE_BOUND_S = 5.0  # of the processor
PASTES = {
    "dmesg": "[  812.500000] NVRM: Xid (PCI:0000:41:00): 31, pid=47, name=python, MMU Fault\n",
    "journal": '{"_TRANSPORT": "kernel", "MESSAGE": "NVRM: Xid (PCI:0000:41:00): 31, pid=47"}\n',
    "cut objects": '{"MESSAGE": {"a": [\n',
    "prose": "I have two cards, and when I start the training it hangs. > see above | and\n",
    "marked prose": '- See `nvidia-smi` and `lspci -vv`: "the card hangs" **each day**.\n',
    "one line": "NVRM: Xid ",
    "empty lines": "\n",
    "braces": "{",
    "rows without a head": "GPU0\t X \tPHB\t0-31\t0\n",
}
PROCESSES_BOUND = 150
CPU_BOUND_S = 0.25


def run(command: Sequence[str], stdin: bytes = b"") -> None:
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    # 1: something is wrong with a rig, which is what doctor is for.
    if done.returncode not in {0, 1}:
        sys.exit(f"{command[0]} failed: {done.stderr.decode()[-2000:]}")


def alternating(*ways: Callable[[], None]) -> list[float]:
    """Median seconds of each, in turn: a machine whose speed drifts must not change the ratio."""
    for way in ways:
        way()
    rounds = []
    for _ in range(RUNS):
        took = []
        for way in ways:
            began = time.perf_counter()
            way()
            took.append(time.perf_counter() - began)
        rounds.append(took)
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def rigops(folder: Path, names: Sequence[str], *more: str) -> list[str]:
    inventory = folder / "inventory.py"
    data = {"ssh_config_file": str(clients.config())}
    inventory.write_text(f"rigs = ({list(names)!r}, {data!r})\n")
    return [sys.executable, "-m", "rigops", "doctor", "-i", str(inventory), *more]


def one_host(folder: Path, name: str) -> bool:
    probe = script(SECTIONS).encode()
    whole = rigops(folder, [name])
    plain = ["ssh", "-F", str(clients.config()), name, "sh", "-s"]
    target = Target(name=name, config_file=str(clients.config()))

    def ours() -> None:
        with connect(target, host_keys=HostKeyPolicy()) as connection:
            HostSnapshot(collect(connection, SECTIONS).bundle)

    mine, theirs, command = alternating(ours, lambda: run(plain, probe), lambda: run(whole))
    print(f"one host   probe {mine:.2f} s, ssh sh -s {theirs:.2f} s, medians of {RUNS}")
    print(f"           ratio {mine / theirs:.2f}, promised at most {ONE_HOST_BOUND}")
    print(f"           the whole command {command:.2f} s, ratio {command / theirs:.2f},")
    print(f"           promised at most {ONE_HOST_BOUND}")
    return max(mine, command) / theirs <= ONE_HOST_BOUND


def probe_cost(host: Host) -> bool:
    text = script(SECTIONS)
    found = [cost.of_script(host, text) for _ in range(RUNS + 1)][1:]
    processes = min(one.processes for one in found)
    cpu_s = statistics.median(one.cpu_s for one in found)
    print(f"cost       a probe starts {processes} processes, promised at most {PROCESSES_BOUND}")
    print(f"           {cpu_s:.2f} s of processor time, promised at most {CPU_BOUND_S} s")
    return processes <= PROCESSES_BOUND and cpu_s <= CPU_BOUND_S


def fleet(folder: Path, names: Sequence[str]) -> bool:
    ansible = os.environ.get("ANSIBLE") or shutil.which("ansible")
    if ansible is None:
        print("fleet      could not run: no ansible on the PATH, and $ANSIBLE is not set")
        return False
    listed = folder / "hosts.ini"
    common = f"ansible_ssh_common_args=-F {clients.config()}"
    listed.write_text("[all]\n" + "\n".join(names) + f"\n[all:vars]\n{common}\n")
    ours = rigops(folder, names)
    peer = [ansible, "-i", str(listed), "all", "-m", "setup"]
    mine, theirs = alternating(lambda: run(ours), lambda: run(peer))
    print(f"{len(names)} hosts   rigops doctor {mine:.2f} s, ansible -m setup {theirs:.2f} s")
    print(f"           ratio {theirs / mine:.1f}, promised at least {FLEET_BOUND}")
    mine_alone, theirs_alone = own_work(lambda: run(ours)), own_work(lambda: run(peer))
    print(f"           the controller alone works {mine_alone:.2f} s, and {theirs_alone:.2f} s")
    print(f"           ratio {theirs_alone / mine_alone:.1f}")
    return theirs / mine >= FLEET_BOUND


def own_work(way: Callable[[], object]) -> float:
    """Processor time of the commands that it runs; hosts of the lab are none of them."""
    before = os.times()
    way()
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def judging(folder: Path, name: str) -> bool:
    saved = folder / "saved"
    run(rigops(folder, [name], "--save", str(saved)))
    (bundle,) = read_all(saved)
    catalog = load(None)

    def judge() -> None:
        examine(HostSnapshot(bundle), None, catalog)

    (took,) = alternating(judge)
    print(f"judging    a bundle of {name}: {took * 1000:.1f} ms, promised {JUDGING_BOUND_MS} ms")
    return took * 1000 <= JUDGING_BOUND_MS


def pastes(folder: Path) -> bool:
    paste, slowest = folder / "paste.txt", 0.0
    for name, piece in PASTES.items():
        paste.write_text(piece * (PASTE_BYTES // len(piece)))
        command = [sys.executable, "-m", "rigops", "doctor", "--from", str(paste)]
        # 2: nothing is recognized
        took = own_work(partial(subprocess.run, command, capture_output=True, check=False))
        print(f"pastes     10 MB, {name}: {took:.2f} s, promised at most {PASTE_BOUND_S:g} s")
        slowest = max(slowest, took)
    return slowest <= PASTE_BOUND_S


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="*", help=f"{', '.join(CHOICES)} [default: all]")
    chosen = set(parser.parse_args().what) or set(CHOICES)
    held = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if "cost" in chosen:
            with hosts.running([f"{RIG}=bench-cost"]) as (host,):
                held.append(probe_cost(host))
        if chosen & {"one-host", "judging"}:
            with hosts.running(["threadripper-3x3090=bench-rig"]):
                if "one-host" in chosen:
                    held.append(one_host(folder, "bench-rig"))
                if "judging" in chosen:
                    held.append(judging(folder, "bench-rig"))
        if "pastes" in chosen:
            held.append(pastes(folder))
        if "fleet" in chosen:
            names = [f"bench{number:02}" for number in range(1, FLEET + 1)]
            with hosts.running([f"{RIG}={name}" for name in names]):
                held.append(fleet(folder, names))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
