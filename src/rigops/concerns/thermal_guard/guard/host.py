"""The guard's files on its host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.concerns.thermal_guard.guard.baselines import Baselines
from rigops.concerns.thermal_guard.guard.ladder import Held, Request
from rigops.concerns.thermal_guard.guard.readings import STEPS, GuardSettings, parse_settings
from rigops.hostside.shared.work_under_way import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STATE_SCHEMA = "rigops.thermal_guard/1"
BASELINE_SCHEMA = "rigops.thermal_guard_baseline/1"
_NOTIFY_S = 180.0
_MOST_WAITING = 20
_LONGEST = 400


def clean(text: str) -> str:
    """Text of others: one line, without what steers a terminal."""
    flat = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(flat.split())[:_LONGEST]


def log(text: str) -> None:
    """To the journal. Without one the guard goes on."""
    with suppress(OSError):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Paths:
    """`system`: what is / otherwise, in tests."""

    def __init__(self, system: str) -> None:
        self.system = Path(system)
        self.settings = self.system / "etc/rigops/thermal_guard"
        self.run = self.system / "run/rigops"
        self.state = self.run / "thermal_guard.json"
        self.request = self.run / "thermal_guard.request"
        self.lock = self.run / "thermal_guard.lock"
        self.records = self.system / "var/lib/rigops"
        self.baseline = self.records / "thermal_guard.json"
        self.driver = self.system / "proc/driver/nvidia/version"
        self.notify = self.system / "usr/local/libexec/rigops/notify"


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Whole or not at all, and for everybody to read. A full disk stops no guard."""
    new = path.with_name(path.name + ".rigops-new")
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with new.open("w") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(json.dumps(document, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        log(f"{path} cannot be written: {error.strerror}")


def read_settings(paths: Paths) -> GuardSettings:
    try:
        return parse_settings(paths.settings.read_text())
    except (OSError, ValueError, KeyError) as error:
        raise SystemExit(
            f"{paths.settings} cannot be read ({clean(str(error))}). fix: rigops apply"
        ) from error


def uptime_s(paths: Paths) -> float:
    with suppress(OSError, ValueError, IndexError):
        return float((paths.system / "proc/uptime").read_text().split()[0])
    return 0.0


def read_request(paths: Paths) -> Request:
    found = read_json(paths.request)
    step, why = found.get("step"), found.get("why")
    if step not in STEPS[1:] or not isinstance(why, str):
        return Request()
    return Request(STEPS.index(step), clean(why))


def write_request(paths: Paths, request: Request) -> None:
    if not request.step:
        with suppress(FileNotFoundError):
            paths.request.unlink()
        return
    write_json(paths.request, {"step": STEPS[request.step], "why": request.why})


def read_held(paths: Paths) -> Iterator[Held]:
    state = read_json(paths.state)
    cards = state.get("cards") if state.get("schema") == STATE_SCHEMA else None
    for one in cards if isinstance(cards, list) else ():
        if not isinstance(one, dict):
            continue
        uuid, address, rung = one.get("uuid"), one.get("address"), one.get("rung")
        if isinstance(uuid, str) and isinstance(address, str) and isinstance(rung, int):
            watts, before = _watts(one.get("watts")), _watts(one.get("watts_before"))
            yield Held(uuid, address, rung, clean(str(one.get("why", ""))), watts, before)


def _watts(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def read_baselines(paths: Paths, hold_s: float) -> Baselines:
    """Unreadable records are learned again."""
    found = read_json(paths.baseline)
    samples: dict[str, dict[int, list[float]]] = {}
    if found.get("schema") == BASELINE_SCHEMA:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            for uuid, each in found["cards"].items():
                samples[uuid] = {
                    int(watts): [float(one) for one in degrees] for watts, degrees in each.items()
                }
    return Baselines(hold_s, samples)


def write_baselines(paths: Paths, baselines: Baselines) -> None:
    write_json(paths.baseline, {"schema": BASELINE_SCHEMA, "cards": baselines.samples})
    baselines.is_changed = False


def tell_systemd(text: str) -> None:
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.sendto(text.encode(), "\0" + place[1:] if place.startswith("@") else place)


class Messenger:
    """Tells by the installed program, one message at a time; nobody waits for it."""

    def __init__(self, paths: Paths) -> None:
        self._program = paths.notify
        self._waiting: list[tuple[str, str]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    @property
    def is_done(self) -> bool:
        return self._process is None and not self._waiting

    def tell(self, subject: str, text: str) -> None:
        if self._program.exists():
            self._waiting = [*self._waiting, (subject, text)][-_MOST_WAITING:]

    def poll(self, now: float) -> None:
        process = self._process
        if process and process.poll() is None:
            if now - self._started > _NOTIFY_S:
                process.kill()
            return
        self._process = None
        if self._waiting:
            subject, text = self._waiting.pop(0)
            with suppress(OSError), os.fdopen(os.memfd_create("notify"), "w+b") as file:
                file.write(text.encode())
                file.seek(0)
                self._process = subprocess.Popen(
                    [str(self._program), subject],
                    stdin=file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                )
                self._started = now
