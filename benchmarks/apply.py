"""How fast hosts are converged, against peers on the same lab hosts: `python -m benchmarks.apply`.

Needs root for the lab, and an `ansible-playbook` on the PATH (or named by $ANSIBLE_PLAYBOOK).

All sides manage the same fifteen files and five units, in deploys/: rigops like `rigops apply`,
with start-up and report, but without preflight, which no peer has; stock `pyinfra -y` with the same
deploy; ansible with pipelining, without gathering facts, with a fork for each host and with
connections that stay open between rounds, which is its default.

converged   nothing to do, at each number of hosts: start-up and facts. Many hosts share the cores
            of the controller, so the work of all sides is compared
first       everything to do, at one host; undone in between, outside the timing
latency     nothing to do, 50 ms away, against only connecting
memory      the controller's, at the largest number of hosts, in a first apply and a converged one
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
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import clients, hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.lab.hosts import Host

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "benchmarks/deploys/many_files.py"
PLAYBOOK = DEPLOY.with_suffix(".yml")
RIG = "fresh-install"
CHOICES = ("converged", "first", "latency", "memory")
RUNS = 5
MANY = 8  # hosts, from which on the peers take minutes and get fewer rounds
RTT_MS = 50

CONVERGED_BOUNDS = {1: (10.0, 3.0), 24: (30.0, 8.0)}  # against ansible and pyinfra
FIRST_BOUND = 5.0
LATENCY_BOUND_S = 0.5
MEMORY_BOUND_MB = 200.0

_PATHS = "/etc/rigops-bench-*.conf /etc/systemd/system/rigops-bench-*.service"
_UNITS = " ".join(f"rigops-bench-{number:02}.service" for number in range(1, 6))
WHAT = f"""
sha256sum {_PATHS}; stat -c '%a %U %n' {_PATHS}
systemctl show -p Id,ActiveState,UnitFileState,NeedDaemonReload {_UNITS}
"""
WHEN = f"""
stat -c '%i %y %n' {_PATHS}
systemctl show -p Id,ActiveEnterTimestampMonotonic {_UNITS}
"""
UNDO = f"""
systemctl disable --quiet --now {_UNITS} 2>/dev/null
rm -rf {_PATHS} /var/lib/rigops
systemctl daemon-reload
"""


class AbsentError(Exception):
    """A peer to measure against is not here."""


@dataclass(frozen=True)
class Ran:
    seconds: float
    megabytes: float  # at its largest


@dataclass(frozen=True)
class Way:
    name: str
    command: Sequence[str]
    runs: int = RUNS

    @property
    def rounds(self) -> str:
        return f"median of {self.runs}" if self.runs > 1 else "one round"


@dataclass(frozen=True)
class Fleet:
    """Booted hosts, and the files by which each side finds them."""

    folder: Path
    hosts: Sequence[Host]
    environment: Mapping[str, str]

    @property
    def ours(self) -> Way:
        return Way("rigops", (*self.reaching.command, str(DEPLOY)))

    @property
    def reaching(self) -> Way:
        once = (sys.executable, "-m", "benchmarks.apply_once")
        return Way("reaching", (*once, str(self.folder / "inventory.py")))

    @property
    def pyinfra(self) -> Way:
        beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        program = shutil.which("pyinfra", path=beside)
        if program is None:
            raise AbsentError("no pyinfra beside python or on the PATH")
        command = (program, "-y", str(self.folder / "inventory.py"), str(DEPLOY))
        return Way("pyinfra", command, 1 if len(self.hosts) >= MANY else RUNS)

    @property
    def ansible(self) -> Way:
        program = os.environ.get("ANSIBLE_PLAYBOOK") or shutil.which("ansible-playbook")
        if program is None:
            raise AbsentError("no ansible-playbook on the PATH, and $ANSIBLE_PLAYBOOK is not set")
        command = (program, "-i", str(self.folder / "hosts.ini"), str(PLAYBOOK))
        return Way("ansible", command, 3 if len(self.hosts) >= MANY else RUNS)

    def run(self, way: Way) -> Ran:
        with tempfile.TemporaryFile() as output:
            began = time.perf_counter()
            process = subprocess.Popen(
                way.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=self.environment,
            )
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                output.seek(0)
                sys.exit(f"{way.name} failed: {output.read().decode()[-2000:]}")
        return Ran(seconds, used.ru_maxrss / 1024)

    def medians(
        self, *ways: Way, before: Callable[[], None] = lambda: None, after: Callable[[], None]
    ) -> list[float]:
        """Of each, in turn: a machine whose speed drifts must not change the ratio."""
        took: dict[str, list[float]] = {way.name: [] for way in ways}
        for number in range(1 + max(way.runs for way in ways)):
            for way in ways:
                is_warm_up = number == 0
                if number > way.runs or (is_warm_up and way.runs == 1):
                    continue
                before()
                ran = self.run(way)
                after()
                if not is_warm_up:
                    took[way.name].append(ran.seconds)
        return [statistics.median(took[way.name]) for way in ways]

    def ask(self, command: str) -> list[str]:
        answers = [host.run(command) for host in self.hosts]
        for answer in answers:
            answer.check_returncode()
        return [answer.stdout for answer in answers]

    def undo(self) -> None:
        self.ask(UNDO)

    def converge(self) -> Ran:
        """By rigops: what a peer has written is as declared, but not owned."""
        self.undo()
        return self.run(self.ours)


def find_by(folder: Path, running: Sequence[Host]) -> Fleet:
    config = clients.config()
    names = [host.name for host in running]
    data = {
        "ssh_config_file": str(config),
        "ssh_known_hosts_file": str(config.with_name("known_hosts")),
    }
    (folder / "inventory.py").write_text(f"rigs = ({names!r}, {data!r})\n")
    common = f"[all:vars]\nansible_ssh_common_args=-F {config}\n"
    (folder / "hosts.ini").write_text("\n".join(["[all]", *names, common]))
    settings = folder / "ansible.cfg"
    settings.write_text(
        f"[defaults]\nforks = {len(names)}\ninterpreter_python = /usr/bin/python3\n"
        "[ssh_connection]\npipelining = true\n"
    )
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(settings),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    return Fleet(folder, running, environment)


def converged(fleet: Fleet) -> bool:
    ours, pyinfra, ansible = fleet.ours, fleet.pyinfra, fleet.ansible
    count = len(fleet.hosts)
    fleet.converge()
    before = fleet.ask(WHEN)

    def is_untouched() -> None:
        if fleet.ask(WHEN) != before:
            sys.exit("converged hosts were changed")

    mine, stock, peer = fleet.medians(ours, pyinfra, ansible, after=is_untouched)
    plural = "s" if count > 1 else ""
    print(f"{f'{count} host{plural}':<11} converged: rigops {mine:.2f} s, {ours.rounds}")
    bounds = CONVERGED_BOUNDS.get(count, (0.0, 0.0))
    for way, took, bound in ((ansible, peer, bounds[0]), (pyinfra, stock, bounds[1])):
        promised = f"promised at least {bound:.0f}" if bound else "nothing is promised"
        print(f"            {way.name} {took:.2f} s, {way.rounds}")
        print(f"            ratio {took / mine:.1f}, {promised}")
    return peer / mine >= bounds[0] and stock / mine >= bounds[1]


def first(fleet: Fleet) -> bool:
    ours, ansible = fleet.ours, fleet.ansible
    fleet.converge()
    made = fleet.ask(WHAT)

    def is_made() -> None:
        if fleet.ask(WHAT) != made:
            sys.exit("the two sides do not bring a host to the same state")

    mine, peer = fleet.medians(ours, ansible, before=fleet.undo, after=is_made)
    print(f"first       20 files and units: rigops {mine:.2f} s, ansible {peer:.2f} s,")
    print(
        f"            medians of {RUNS}; ratio {peer / mine:.1f}, promised at least {FIRST_BOUND}"
    )
    return peer / mine >= FIRST_BOUND


def latency(fleet: Fleet) -> bool:
    fleet.converge()
    for host in fleet.hosts:
        host.set(f"latency={RTT_MS}")
    try:
        whole, reaching = fleet.medians(fleet.ours, fleet.reaching, after=lambda: None)
    finally:
        for host in fleet.hosts:
            host.set("latency=")
    more = whole - reaching
    print(f"latency     {RTT_MS} ms: rigops {whole:.2f} s, reaching alone {reaching:.2f} s,")
    print(f"            medians of {RUNS}; {more:.2f} s more, promised at most {LATENCY_BOUND_S}")
    return more <= LATENCY_BOUND_S


def memory(fleet: Fleet) -> bool:
    sizes = [ran.megabytes for ran in (fleet.converge(), fleet.run(fleet.ours))]
    print(
        f"memory      of the controller at {len(fleet.hosts)} hosts: first apply {sizes[0]:.0f} MB,"
    )
    print(f"            converged {sizes[1]:.0f} MB, promised less than {MEMORY_BOUND_MB:.0f} MB")
    return max(sizes) < MEMORY_BOUND_MB


def _measured(measure: Callable[[Fleet], bool], fleet: Fleet) -> bool:
    try:
        return measure(fleet)
    except AbsentError as error:
        print(f"{measure.__name__:<11} could not run: {error}")
        return False


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="*", help=f"{', '.join(CHOICES)} [default: all]")
    parser.add_argument("--hosts", default="1,24", help="how many, in turn [default: 1,24]")
    arguments = parser.parse_args()
    chosen = set(arguments.what) or set(CHOICES)
    if unknown := chosen - set(CHOICES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    counts = [int(word) for word in arguments.hosts.split(",")]
    held = []
    for count in counts:
        names = [f"bench{number:02}" for number in range(1, count + 1)]
        measures = [
            measure
            for measure, is_due in (
                (converged, "converged" in chosen),
                (first, "first" in chosen and count == 1),
                (latency, "latency" in chosen and count == 1),
                (memory, "memory" in chosen and count == max(counts)),
            )
            if is_due
        ]
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            booted = stack.enter_context(hosts.running([f"{RIG}={name}" for name in names]))
            held += [_measured(measure, find_by(folder, booted)) for measure in measures]
    return 0 if held and all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
