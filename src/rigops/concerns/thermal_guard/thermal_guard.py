#!/usr/bin/python3 -I
# Made by rigops for the hosts that declare thermal_limit; made anew, never edited.
"""thermal_guard run | request | status | check | undo: acts on heat of this machine's NVIDIA GPUs.

  run       the service: watches the cards, and goes step by step while one is too hot
  request   --step none|notify|lower-power|stop-jobs|poweroff --why TEXT: a step for every card,
            until none is asked for or the machine is booted again
  status    prints what it does for a person, or all of it with --json; 1: it does not work,
            3: that is not known
  check     prints what it does, for the daily self-check, fields separated by tabs
  undo      gives the cards the power limits back that the guard has lowered

Its limits are in /etc/rigops/thermal_guard, its present step in /run/rigops/thermal_guard.json.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rigops.concerns.thermal_guard.guard.host import (
    STATE_SCHEMA,
    Messenger,
    Paths,
    clean,
    log,
    read_baselines,
    read_held,
    read_request,
    read_settings,
    tell_systemd,
    uptime_s,
    utc,
    write_baselines,
    write_json,
    write_request,
)
from rigops.concerns.thermal_guard.guard.jobs import Stopper, holders, parse_jobs
from rigops.concerns.thermal_guard.guard.ladder import Guard, PowerOff, Request, Say, SetLimit
from rigops.concerns.thermal_guard.guard.readings import (
    FIELDS,
    MARGIN,
    NOTIFY,
    POWEROFF,
    STEPS,
    Smi,
    parse_readings,
    query_fields,
)
from rigops.hostside.shared.work_under_way import read_json, work_under_way

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

    from rigops.concerns.thermal_guard.guard.readings import Answer, Reading

TICK_S = 0.25
LONGEST_PAUSE_S = 5.0  # between two readings
LEAST_ANSWER_S, LONGEST_ANSWER_S = 5.0, 10.0  # without persistence the driver starts again
HEARTBEAT_S = 20.0
LATE_S = 90.0  # a record that is older: the service hangs
ONCE_S = 60.0  # for a step without the service
TAKEN_S = 20.0
POWEROFF_S = 10.0  # for the message before it
NO_DRIVER = "the NVIDIA driver is not loaded"
NO_ANSWER = "nvidia-smi does not answer"


class Service:
    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.settings = read_settings(paths)
        hold_s = self.settings.hold_s
        self.pause_s = min(LONGEST_PAUSE_S, max(hold_s / 3, TICK_S))
        self.guard = Guard(self.settings, read_baselines(paths, hold_s))
        self.guard.restore(list(read_held(paths)))
        self.smi = Smi(min(LONGEST_ANSWER_S, max(LEAST_ANSWER_S, hold_s / 3)))
        self.stopper = Stopper(min(15.0, max(2.0, hold_s)))
        self.messenger = Messenger(paths)
        self.limits: dict[str, float] = {}  # to be set, by UUID
        self.readings = 0
        self._fields = query_fields(self.settings)
        self._since = utc(time.time())
        self._step = self.guard.step
        self._read = self._jobs = float("-inf")
        self._written = float("-inf")
        self._document: dict[str, object] = {}
        self._saved = time.monotonic()
        self._powers_off = self._suspended = ""
        self._trouble = "nvidia-smi has not answered yet"

    # ---- one turn

    def turn(self, now: float) -> None:
        answer = self.smi.poll(now)
        if answer:
            self._take(now, answer)
        self._do(self.guard.order(now, read_request(self.paths)))
        if not self.paths.driver.exists():
            self._without_answer(now, NO_DRIVER)
        elif self.smi.is_stuck or (self.smi.is_busy and self._trouble == NO_ANSWER):
            self._without_answer(now, NO_ANSWER)
        elif not self.smi.is_busy:
            self._ask(now)
        self.messenger.poll(now)
        self._write(now)
        if self._powers_off:
            self._power_off()

    def _ask(self, now: float) -> None:
        """Limits before readings, so that each reading has them."""
        if self.limits:
            uuid = next(iter(self.limits))
            watts = self.limits.pop(uuid)
            self.smi.start(now, f"limit {uuid}", ["-i", uuid, "-pl", f"{watts:g}"])
        elif self._has_jobs_to_stop() and now - self._jobs >= self.pause_s:
            self._jobs = now
            fields = "--query-compute-apps=gpu_uuid,pid"
            self.smi.start(now, "jobs", [fields, "--format=csv,noheader"])
        elif now - self._read >= self.pause_s:
            self._read = now
            fields = ",".join(self._fields)
            form = "--format=csv,noheader,nounits"
            self.smi.start(now, "readings", [f"--query-gpu={fields}", form])

    def _take(self, now: float, answer: Answer) -> None:
        said = clean(_first_line(answer.text)) or f"it ended with {answer.code}"
        if answer.purpose == "jobs":
            self._stop_jobs(now, answer if answer.code == 0 else None)
        elif answer.purpose.startswith("limit "):
            uuid = answer.purpose.partition(" ")[2]
            card = self.guard.cards.get(uuid)
            refused = answer.code != 0 or "not supported" in answer.text.lower()
            if card and refused and answer.code is not None:
                self._do(card.refuse(said))
        elif MARGIN in answer.text and "not a valid field" in answer.text:
            self._fields = FIELDS  # this driver is too old for it; the others are asked for at once
            self._read = float("-inf")
            log(f"nvidia-smi: {said}")
        elif answer.code is None:
            self._read = now
            self._see(now, answer.asked, [], NO_ANSWER)
        else:
            found = parse_readings(answer.text)
            self.readings += bool(found)
            trouble = "" if answer.code == 0 and found else f"nvidia-smi: {said}"
            self._see(now, answer.asked, found, trouble)

    def _without_answer(self, now: float, trouble: str) -> None:
        if now - self._read < self.pause_s:
            return
        self._read = now
        if trouble == NO_DRIVER:
            self.limits.clear()  # it forgets them all
        self._see(now, now, [], trouble)
        if self._has_jobs_to_stop():
            self._stop_jobs(now, None)

    def _see(self, now: float, asked: float, readings: Sequence[Reading], trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log(trouble or "nvidia-smi answers")
        self._suspended = work_under_way(self.paths.system)
        waits, sets = bool(self._suspended), trouble not in {NO_DRIVER, NO_ANSWER}
        self._do(self.guard.see(now, asked, readings, trouble, waits=waits, sets=sets))

    # ---- what follows from it

    def _do(self, actions: Iterable[SetLimit | Say | PowerOff]) -> None:
        said: list[Say] = []
        for action in actions:
            if isinstance(action, SetLimit):
                self.limits[action.uuid] = action.watts
            elif isinstance(action, PowerOff):
                self._powers_off = action.why
            else:
                said.append(action)
        lines = [f"GPU {one.address}: {one.text}" if one.address else one.text for one in said]
        for line in lines:
            log(line)
        tells = [line for line, one in zip(lines, said) if one.tells]  # noqa: B905 - Python 3.8
        if tells:
            step = max(one.step for one in said if one.tells)
            about = f"{len(tells)} GPUs" if len(tells) > 1 else tells[0]
            self.messenger.tell(
                clean(f"thermal guard: {STEPS[step] if step else 'done'}: {about}"),
                "\n".join(tells) + "\n",
            )

    def _has_jobs_to_stop(self) -> bool:
        return any(card.stops_jobs for card in self.guard.cards.values())

    def _stop_jobs(self, now: float, answer: Answer | None) -> None:
        cards = [card for card in self.guard.cards.values() if card.stops_jobs]
        if answer:
            jobs = parse_jobs(answer.text)
            pids = {pid for card in cards for pid in jobs.get(card.uuid, ())}
        else:
            pids = holders(self.paths.system, [card.address for card in cards])
        for line in self.stopper.stop(now, pids):
            log(line)

    def _power_off(self) -> None:
        why, self._powers_off = self._powers_off, ""
        log(f"powering off: {why}")
        end = time.monotonic() + POWEROFF_S
        while not self.messenger.is_done and time.monotonic() < end:
            self.messenger.poll(time.monotonic())
            tell_systemd("WATCHDOG=1")
            time.sleep(TICK_S)
        try:
            subprocess.Popen(["systemctl", "poweroff", "-i"], stdin=subprocess.DEVNULL)
        except OSError as error:
            log(f"systemctl cannot be started: {error.strerror}")

    # ---- for others

    def _write(self, now: float) -> None:
        if self.guard.step != self._step:
            self._step, self._since = self.guard.step, utc(time.time())
        document = {
            "schema": STATE_SCHEMA,
            "pid": os.getpid(),
            "step": STEPS[self.guard.step],
            "since": self._since,
            "why": self.guard.why,
            "suspended": self._suspended,
            "has_answered": self.guard.has_answered,
            "requested": STEPS[self.guard.request.step],
            "cards": [
                {
                    "uuid": card.uuid,
                    "address": card.address,
                    "step": STEPS[card.step],
                    "rung": card.rung,
                    "why": card.reason,
                    "watts": card.watts,
                    "watts_before": card.before,
                }
                for card in self.guard.cards.values()
            ],
        }
        if document != self._document or now - self._written >= HEARTBEAT_S:
            self._document, self._written = document, now
            moment = {"at": utc(time.time()), "uptime_s": uptime_s(self.paths)}
            write_json(self.paths.state, {**document, **moment})
        baselines = self.guard.baselines
        if baselines.is_changed and now - self._saved >= self.settings.hold_s * 120:
            self._saved = now
            write_baselines(self.paths, baselines)

    def end(self) -> None:
        if self.guard.baselines.is_changed:
            write_baselines(self.paths, self.guard.baselines)

    @property
    def is_idle(self) -> bool:
        return not (self.smi.is_busy or self.limits or self.stopper.is_waiting)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def take_lock(paths: Paths) -> TextIO | None:
    """None: the service runs. The lock ends with the process."""
    paths.run.mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = paths.lock.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def run(paths: Paths) -> int:
    lock = take_lock(paths)
    if lock is None:
        log("another thermal_guard runs already")
        return 1
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: ended.append(number))
    service = Service(paths)
    tell_systemd("READY=1")
    while not ended:
        service.turn(time.monotonic())
        tell_systemd("WATCHDOG=1")
        time.sleep(TICK_S)
    service.end()
    lock.close()
    return 0


def request(paths: Paths, step: int, why: str) -> int:
    """Takes a step for every card: by the service, or without one at once and here."""
    allowed = read_settings(paths).action
    if step > max(allowed, NOTIFY):
        log(
            f'step {STEPS[step]} is beyond "thermal_action": "{STEPS[allowed]}", the last step '
            f'allowed here. fix: declare "thermal_action": "{STEPS[step]}"'
        )
        return 2
    write_request(paths, Request(step, why or "no reason was given"))
    lock = take_lock(paths)
    if lock is None:
        return _wait_for_service(paths, step)
    log("the service rigops-thermal-guard does not run: the step is taken once, and not held")
    return _once(paths, step)


def _wait_for_service(paths: Paths, step: int) -> int:
    end = time.monotonic() + TAKEN_S
    while read_json(paths.state).get("requested") != STEPS[step]:
        if time.monotonic() > end:
            log("the service does not take it. fix: systemctl status rigops-thermal-guard")
            return 1
        time.sleep(TICK_S)
    log(f"step {STEPS[step]}: taken")
    return 0


def _once(paths: Paths, step: int) -> int:
    service = Service(paths)
    end = time.monotonic() + ONCE_S
    while time.monotonic() < end:
        service.turn(time.monotonic())
        # Limits are set after the first reading, and jobs are found before the second.
        is_taken = service.readings > 1 or step in {NOTIFY, POWEROFF}
        if is_taken and service.is_idle and service.messenger.is_done:
            return 0
        if not is_taken and service.is_idle and not paths.driver.exists():
            break
        time.sleep(TICK_S)
    trouble = "" if paths.driver.exists() else f": {NO_DRIVER}"
    log(f"step {STEPS[step]} was not taken on every card{trouble}")
    return 1


def undo(paths: Paths) -> int:
    """The service has to be stopped. A driver that is not loaded has forgotten the limits.

    Limits that cannot be given back stay recorded, so that this can be run again.
    """
    for held in read_held(paths) if paths.driver.exists() else ():
        if held.watts is None or held.before is None:
            continue
        done = subprocess.run(
            ["timeout", "-k", "1", "20", "nvidia-smi", "-i", held.uuid, "-pl", f"{held.before:g}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            said = clean(_first_line(done.stdout.decode("utf-8", "replace"))) or NO_ANSWER
            log(f"GPU {held.address}: its power limit of {held.before:g} W is not back: {said}")
            return 1
        log(f"GPU {held.address}: power limit {held.before:g} W")
    for path in (paths.state, paths.request, paths.lock, paths.baseline):
        with suppress(FileNotFoundError):
            path.unlink()
    return 0


def check(paths: Paths) -> int:
    state = read_json(paths.state)
    step = STEPS.index(state["step"]) if state.get("step") in STEPS else 0
    found, summary = _judge(paths, state)
    finding(found, "host", summary)
    for card in _cards(state) if found == "warn" else ():
        if card.get("step") != STEPS[0]:
            what = f"step {card.get('step')}: {card.get('why', '')}"
            finding("warn", f"gpu {card.get('address', '?')}", what)
    sys.stdout.write(f"metric\tguard_step\t{step}\n")
    return 0


def status(paths: Paths, *, as_json: bool) -> int:
    """Anybody may ask."""
    state = read_json(paths.state)
    found, summary = _judge(paths, state)
    if as_json:
        document = {**state, "status": found, "summary": clean(summary)}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        lines = [summary, *(_settings_line(paths)), *map(_card_line, _cards(state))]
        sys.stdout.writelines(f"{clean(line)}\n" for line in lines)
    return {"fail": 1, "unknown": 3}.get(found, 0)


def _judge(paths: Paths, state: Mapping[str, object]) -> tuple[str, str]:
    step = STEPS.index(state["step"]) if state.get("step") in STEPS else 0
    if not paths.settings.exists():
        return "unknown", f"{paths.settings} is missing. fix: rigops apply"
    if not _is_running(paths):
        fix = "fix: systemctl status rigops-thermal-guard"
        return "fail", f"the thermal guard does not run. {fix}"
    if _age_s(paths, state) > LATE_S:
        fix = "fix: systemctl restart rigops-thermal-guard"
        return "fail", f"the thermal guard hangs. {fix}"
    if not step:
        return "ok", "the thermal guard runs, and no card is too hot"
    return "warn", f"the thermal guard: step {STEPS[step]}: {state.get('why', '')}"


def _is_running(paths: Paths) -> bool:
    try:
        with paths.lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _cards(state: Mapping[str, object]) -> list[dict[str, object]]:
    cards = state.get("cards")
    return [one for one in cards if isinstance(one, dict)] if isinstance(cards, list) else []


def _settings_line(paths: Paths) -> list[str]:
    with suppress(OSError):
        lines = paths.settings.read_text().splitlines()
        return ["settings: " + ", ".join(one for one in lines if not one.startswith("#"))]
    return []


def _card_line(card: Mapping[str, object]) -> str:
    line = f"GPU {card.get('address', '?')}: step {card.get('step', '?')}"
    if card.get("watts") is not None:
        line += f", power limit {card['watts']} W instead of {card.get('watts_before')} W"
    return f"{line}: {card['why']}" if card.get("why") else line


def _age_s(paths: Paths, state: Mapping[str, object]) -> float:
    written = state.get("uptime_s")
    return uptime_s(paths) - written if isinstance(written, (int, float)) else LATE_S + 1


def finding(status: str, subject: str, summary: str) -> None:
    sys.stdout.write(f"finding\t{status}\ttmp.guard\t{clean(subject)}\t{clean(summary)}\n")


def main(arguments: Sequence[str]) -> int:
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    os.environ["LC_ALL"] = "C"
    os.umask(0o022)
    parser = argparse.ArgumentParser(prog="thermal_guard", description="Heat of the GPUs.")
    parser.add_argument("--system", default="/", help=argparse.SUPPRESS)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("run", "check", "undo"):
        verbs.add_parser(verb)
    shown = verbs.add_parser("status", prog="rigops-guard status")
    shown.add_argument("--json", action="store_true", help="all that the guard has recorded")
    help_text = "`rigops-guard status` shows what the guard does; with --step a step is taken:"
    asked = verbs.add_parser("request", prog="rigops-guard", description=help_text)
    asked.add_argument("--step", required=True, choices=STEPS, help="for every card, at once")
    asked.add_argument("--why", default="", help="what the journal and the message say")
    options = parser.parse_args(arguments)
    paths = Paths(options.system)
    if options.verb == "request":
        return request(paths, STEPS.index(options.step), clean(options.why))
    if options.verb == "status":
        return status(paths, as_json=options.json)
    return {"run": run, "check": check, "undo": undo}[options.verb](paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
