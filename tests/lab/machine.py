"""One booted host: its systemd-nspawn, its proxy, and ways in."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import cgroups, clients, disks, layers, namespace, runs, seed
from tests.lab.errors import LabError
from tests.lab.packages import change as driver_change
from tests.lab.packages.sources import AT, FILE, sources
from tests.lab.processes import Process, children
from tests.lab.requirements import lacks_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.rigs import Rig
    from tests.lab.runs import Record

_PATIENCE = 180.0
_RIGSIM = "/usr/lib/rigsim/bin/rigsim"
_RELOAD = f"""
unit=nvidia-persistenced.service
systemctl --quiet stop "$unit" 2>/dev/null || true
{_RIGSIM} driver unload
[ -n "$1" ] || exit 0
{_RIGSIM} driver load
! systemctl --quiet is-enabled "$unit" || systemctl start "$unit"
"""
_TELLING = (
    "ps -eo pid,stat,wchan:20,args", "systemctl list-jobs --no-pager",
    "journalctl -b _PID=1 -n 40 -o short-monotonic --no-pager",
)  # fmt: skip
_REBOOT = 133  # systemd-nspawn's status when its payload wants to start again
# Without bpf(2) systemd silently does not apply DevicePolicy; runtimes want keyrings.
_FOR_CONTAINERS = (
    "--system-call-filter=bpf", "--system-call-filter=@keyring",
    "--capability=CAP_NET_ADMIN,CAP_BPF,CAP_PERFMON",
)  # fmt: skip
_DISK_NAMES = ("/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd")


def boot(record: Record, rig: Rig, repository: Path) -> Record:
    """Start a host that has a record and a folder; it answers when this returns."""
    below = layers.below(rig, repository)
    upper, work, root = (record.folder / name for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        folder.mkdir()
    key = seed.sow(seed.Upper(upper, below), record, rig)
    options = _binds(repository, disks.make(record.folder, rig.disks))
    if rig.containers == "on":
        options += _FOR_CONTAINERS
    nspawn = shlex.join(_nspawn(record.name, root, options))
    group = record.group / "machine"
    cgroups.make(group)
    steps = [
        namespace.joining(group),
        # A reboot in place needs nspawn's own folder to be on a tmpfs.
        "mkdir -p /run/systemd",
        "mount -t tmpfs -o mode=755 rigops-lab /run/systemd",
        "mkdir /run/systemd/nspawn",
        namespace.overlay(below, upper, work, root),
        f"while {nspawn} || [ $? = {_REBOOT} ]; do :; done",
    ]
    with (record.folder / "console.log").open("wb") as console:
        process = subprocess.Popen(
            namespace.enter(steps),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            start_new_session=True,
        )
    record = runs.change(record, machine=Process.of(process.pid), host_key=key)
    try:
        _until(lambda: answers(record, seed.SSHD_PORT), record)
    finally:
        process.returncode = 0  # it is no child to wait for: it outlives this process
    if clients.is_proxied(record):
        record = put_proxy(record)
    return record


def _nspawn(name: str, root: Path, options: list[str]) -> list[str]:
    return [
        "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot",
        f"--directory={root}", f"--machine={name}", "--console=pipe", "--link-journal=no",
        "--resolv-conf=off", "--timezone=off", *options,
    ]  # fmt: skip


def _binds(repository: Path, devices: list[Path]) -> list[str]:
    return [
        f"--bind-ro={seed.SILICON}:/usr/lib/rigsim",
        f"--bind-ro={repository}:{AT}",
        *(f"--bind={device}:{name}" for device, name in zip(devices, _DISK_NAMES, strict=False)),
    ]


def answers(record: Record, port: int) -> bool:
    try:
        with socket.create_connection((record.address, port), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _until(condition: Callable[[], bool], record: Record) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        dead = record.machine is not None and not record.machine.lives()
        if dead or time.monotonic() > deadline:
            what = "ended" if dead else f"does not answer after {_PATIENCE:.0f} s"
            raise LabError(f"{record.name} {what}\n{_troubles(record)}")
        time.sleep(0.05)


def _troubles(record: Record) -> str:
    """What tells why: a booting host says next to nothing on its console."""
    console = (record.folder / "console.log").read_text(errors="replace")
    parts = [
        f"console:\n{console[-3000:]}",
        f"load: {Path('/proc/loadavg').read_text()}",
        lacks_room(1) or "there is room for more hosts",
    ]
    if record.machine and (inside := _inside(record.machine.pid)):
        parts += [f"{command}:\n{_said(inside[0], command)}" for command in _TELLING]
    return "\n".join(parts)


def _said(pid: int, command: str) -> str:
    try:
        done = _entered(pid, "timeout", "20", "sh", "-c", f"{command} 2>&1")
    except OSError as error:
        return str(error)
    return done.stdout[-4000:] or f"nothing, status {done.returncode}"


def put_proxy(record: Record) -> Record:
    """Have the proxy do what the settings say; start it where there is none."""
    weather = record.folder / "weather"
    wanted = {key: record.settings.get(key, "") for key in ("latency", "cut")}
    weather.write_text(" ".join(f"{key}={value}" for key, value in wanted.items()))
    if record.proxy and record.proxy.lives():
        os.kill(record.proxy.pid, signal.SIGHUP)
        return record
    if not clients.is_proxied(record):
        return record
    group = record.group / "proxy"
    cgroups.make(group)
    here, there = (f"{record.address}:{port}" for port in (clients.PROXY_PORT, seed.SSHD_PORT))
    run = [sys.executable, "-m", "tests.lab.proxy", here, there, str(weather)]
    with (record.folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-euc", f"{namespace.joining(group)}\nexec {shlex.join(run)}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=layers.CHECKOUT,
            start_new_session=True,
        )
    record = runs.change(record, proxy=Process.of(process.pid))
    _until(lambda: _listens(record.address, clients.PROXY_PORT), record)
    process.returncode = 0
    return record


def _listens(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


def leader(record: Record) -> int:
    """The host's first process, waiting for one where it is just rebooting."""
    if record.machine is None:
        raise LabError(f"{record.name} has not started")
    found: list[int] = []
    machine = record.machine

    def look() -> bool:
        found[:] = _inside(machine.pid)
        return bool(found)

    _until(look, record)
    return found[0]


def _inside(machine: int) -> list[int]:
    return [pid for nspawn in children(machine) for pid in children(nspawn)]


def tell_hardware(record: Record, rig: Rig) -> None:
    """Another rig.json, whole at every moment, and the simulation told to read it."""
    pid = leader(record)
    _put(pid, "etc/rigsim/rig.json", rig.hardware())
    enter(record, pid, _RIGSIM, "refresh")


def tell_sources(record: Record, rig: Rig) -> None:
    pid = leader(record)
    _put(pid, FILE, sources(rig))
    enter(record, pid, "apt-get", "-qq", "update")


def change_driver(record: Record, rig: Rig) -> None:
    """Other packages, by the host's own apt, and then the driver that they have brought."""
    pid = leader(record)
    enter(record, pid, *driver_change(Path(f"/proc/{pid}/root"), rig), name="the driver's change")
    enter(record, pid, "sh", "-euc", _RELOAD, "sh", rig.driver or "")


def _put(pid: int, name: str, text: str) -> None:
    target = Path(f"/proc/{pid}/root") / name
    new = target.with_name(f".{target.name}.new")
    new.write_text(text)
    new.rename(target)


def enter(record: Record, pid: int, *command: str, name: str = "") -> None:
    """Run inside without ssh, as the machine's own root."""
    done = _entered(pid, *command)
    if done.returncode != 0:
        said = f"{done.stdout}{done.stderr}".strip()
        raise LabError(f"{record.name}: {name or ' '.join(command)} failed: {said}")


def _entered(pid: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nsenter", "--target", str(pid), "--mount", "--uts", "--ipc", "--pid", "--root", "--wd=/",
         "--", *command],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
