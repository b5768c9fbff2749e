#!/usr/bin/python3 -I
# self_check: looks after what rigops brought about on this host, between two runs of apply.
#
#   self_check          prints what it finds; ends with 1 for a failure, with 3 for what is unknown
#   self_check report   the same, and records it, tells what is new or gone, and the dead-man URL
#   self_check metrics  writes a textfile for node_exporter
#
# Every concern checks its own things by a command that /etc/rigops/self_check names. Whatever hangs
# costs its deadline and is unknown.

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rigops.concerns.monitoring.checking.asking import Asker
from rigops.concerns.monitoring.checking.findings import (
    Answer,
    Found,
    as_entries,
    as_text,
    clean,
    exposition,
    gravest,
    merged,
    news,
    parse_entries,
    unknown,
)
from rigops.concerns.monitoring.checking.records import STATE, Records, seconds_of, stamp
from rigops.concerns.monitoring.checking.settings import judge_cards_answer, judge_cpu
from rigops.hostside.shared.work_under_way import work_under_way

CARDS_S: Final = 30.0
COMMAND_S: Final = 90.0
NOTIFY_S: Final = 300.0
DRIVER_S: Final = 300.0  # after the boot it may take so long
WORK_S: Final = 1200.0  # that an apply may hold up the daily check
PAUSE_S: Final = 5.0
TEXTFILE: Final = "rigops.prom"
_CARD: Final = re.compile(r"^GPU [0-9]+: .*\(UUID: ", re.MULTILINE)
_EXIT: Final = {"fail": 1, "unknown": 3}


@dataclass
class _Settings:
    """As declared, from /etc/rigops/self_check."""

    gpus: int | None = None
    folder: str = ""  # of the textfile
    checks: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class _Result:
    findings: list[Found]
    metrics: dict[str, float]
    silent: list[str]

    @property
    def status(self) -> str:
        return gravest(self.findings)


class _Host:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._now = time.time()
        self._notify = root / "usr/local/libexec/rigops/notify"
        self._record = root / STATE / "self_check.json"
        self._settings = self._read_settings()
        self._records = Records(root, self._now)

    def _read_settings(self) -> _Settings:
        settings = _Settings()
        for line in (self._root / "etc/rigops/self_check").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "gpus":
                settings.gpus = int(value)
            elif name == "metrics":
                settings.folder = value
            elif name == "check":
                concern, _, command = value.partition(" ")
                settings.checks[concern] = shlex.split(command)
        return settings

    def check(self) -> _Result:
        asker = Asker(self._root / "run/rigops/self_check.json", self._root / "proc")
        answers: dict[str, Answer] = {
            "rigops.files": self._records.files(),
            "drv.reboot_pending": self._records.reboot(),
            "p2p.proof": self._records.proof(),
            "gpu.count": self._cards(asker),
        }
        for concern, words in self._settings.checks.items():
            if concern == "cpu_tuning":
                answers[concern] = judge_cpu(concern, self._root, words)
                continue
            asked = asker.ask(concern, words, COMMAND_S)
            if asked.trouble:
                answers[concern] = unknown(concern, asked.trouble)
                continue
            answers[concern] = judge_cards_answer(concern, asked.output, self._records)
        asker.close()
        every = list(answers.values())
        return _Result(
            findings=merged(one for answer in every for one in answer.findings),
            metrics={name: it for answer in every for name, it in answer.metrics.items()},
            silent=[source for source, answer in answers.items() if not answer.is_whole],
        )

    def _cards(self, asker: Asker) -> Answer:
        """As many as declared, or else as were proven. Nothing where neither says any."""
        expected = self._settings.gpus
        known = "declared" if expected is not None else "proven"
        if expected is None:
            expected = self._records.proven_cards()
        if not expected:
            return Answer()
        asked = asker.ask("gpu.count", ["nvidia-smi", "-L"], CARDS_S)
        if asked.trouble:
            text = f"nvidia-smi: {asked.trouble}"
            answer = Answer([Found("unknown", "gpu.count", "host", text, "gpu.count")])
            answer.is_whole = False
            return answer
        count = len(_CARD.findall(asked.output))
        complaints = [line for line in asked.output.splitlines() if not line.startswith("GPU ")]
        text = f"{count} of {expected} {known} cards answer"
        if complaints:
            text += ": " + clean(complaints[0])
        status = "ok" if count >= expected else "fail"
        return Answer([Found(status, "gpu.count", "host", text, "gpu.count")])

    def report(self) -> int:
        self._wait_for_driver()
        self._wait_for_work()
        self._send("ping", "start")
        began = time.monotonic()
        result = self.check()
        text = as_text(result.findings)
        sys.stdout.write(text)
        before = parse_entries(self._earlier().get("reported", []))
        found = news(before, result.findings, result.silent)
        has_reached = True
        if found:
            words = [found.subject] if found.new else ["good", found.subject]
            has_reached = self._send(*words, text=found.text)
        reported = found.reported if has_reached else before
        self._write_record(result, time.monotonic() - began, as_entries(reported))
        is_well = result.status in {"ok", "warn"}
        self._send("ping", "success" if is_well else "fail", text=text)
        return 0

    def _wait_for_driver(self) -> None:
        """A card that the driver has not reached yet is not gone."""
        loaded = self._root / "proc/driver/nvidia/version"
        uptime = self._root / "proc/uptime"
        while not loaded.exists() and float(uptime.read_text().split()[0]) < DRIVER_S:
            time.sleep(PAUSE_S)

    def _wait_for_work(self) -> None:
        """A setting that a running apply is about to change is no problem."""
        end = time.monotonic() + WORK_S
        while work_under_way(self._root) and time.monotonic() < end:
            time.sleep(PAUSE_S)

    def _send(self, *words: str, text: str = "") -> bool:
        """Whether it was delivered, or no receiver is declared."""
        if not os.access(str(self._notify), os.X_OK):
            return True
        command = [str(self._notify), *words]
        if self._root != Path("/"):
            command.append(str(self._root))
        try:
            done = subprocess.run(
                command,
                input=text.encode(),
                timeout=NOTIFY_S,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0

    def _earlier(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return dict(self._records.read("self_check.json") or {})
        return {}

    def _write_record(
        self, result: _Result, seconds: float, reported: list[dict[str, str]]
    ) -> None:
        document = {
            "schema": "rigops.self_check/1",
            "at": stamp(self._now),
            "seconds": round(seconds, 1),
            "status": result.status,
            "findings": [one.as_json() for one in result.findings],
            "reported": reported,
        }
        _replace(self._record, json.dumps(document, indent=1) + "\n")

    def metrics(self) -> int:
        if not self._settings.folder:
            sys.stderr.write("metrics is not declared: /etc/rigops/self_check names no directory\n")
            return 1
        if work_under_way(self._root):
            return 0  # the next run is near
        result = self.check()
        metrics = dict(result.metrics)
        earlier = self._earlier()
        with suppress(KeyError, ValueError, TypeError):
            metrics["self_check_timestamp_seconds"] = seconds_of(earlier["at"])
            problems = [one for one in earlier["findings"] if one["status"] != "ok"]
            metrics["self_check_problems"] = float(len(problems))
        textfile = self._root / self._settings.folder.lstrip("/") / TEXTFILE
        self._remember(f"{self._settings.folder}/{TEXTFILE}")
        try:
            _replace(textfile, exposition(result.findings, metrics))
        except OSError as error:
            sys.stderr.write(f"{clean(str(textfile))} cannot be written: {error.strerror}\n")
            return 1
        return 0

    def _remember(self, textfile: str) -> None:
        """Before it is there, so that it can be removed when it is not declared any more."""
        with suppress(OSError, ValueError):
            if (self._records.read("metrics.json") or {}).get("textfile") == textfile:
                return
        document = {"schema": "rigops.metrics/1", "textfile": textfile}
        _replace(self._root / STATE / "metrics.json", json.dumps(document) + "\n")


def _replace(path: Path, text: str) -> None:
    """At every moment the old one or the new one; the file beside it is not read.

    The folder may be another user's: whatever has a name there is neither followed nor written to.
    """
    folder = os.open(str(path.parent), os.O_RDONLY | os.O_DIRECTORY)
    try:
        aside = f".{path.name}.{secrets.token_hex(8)}.tmp"
        new = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
        try:
            with os.fdopen(new, "wb") as file:
                file.write(text.encode("utf-8", "replace"))
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            os.replace(aside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def main(words: list[str]) -> int:
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    os.environ["LC_ALL"] = "C"
    os.umask(0o022)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # no test replaces it
    verb = words[0] if words and not words[0].startswith("/") else ""
    root = Path(words[-1]) if words and words[-1].startswith("/") else Path("/")  # in tests
    if verb not in {"", "report", "metrics"}:
        sys.stderr.write("usage: self_check [report | metrics]\n")
        return 2
    try:
        host = _Host(root)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"/etc/rigops/self_check cannot be read: {type(error).__name__}\n")
        return 3
    if verb == "report":
        return host.report()
    if verb == "metrics":
        return host.metrics()
    result = host.check()
    sys.stdout.write(as_text(result.findings))
    return _EXIT.get(result.status, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
