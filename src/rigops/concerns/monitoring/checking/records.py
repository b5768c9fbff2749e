"""Findings from rigops' own records on this host: files, cards, reboot, proof."""

from __future__ import annotations

import json
import stat
import time
from calendar import timegm
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.monitoring.checking.findings import Answer, Found, clean, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

STATE: Final = "var/lib/rigops"
_MOST_OF_RECORD: Final = 4 * 1024 * 1024
_AT: Final = "%Y-%m-%dT%H:%M:%SZ"


class Records:
    """`root`: the folder that stands for /."""

    def __init__(self, root: Path, now: float) -> None:
        self._root = root
        self._now = now

    def read(self, name: str, folder: str = STATE) -> Mapping[str, Any] | None:
        """None where there is none. ValueError, OSError: it cannot be read."""
        path = self._root / folder / name
        if not path.exists():
            return None
        with path.open("rb") as file:
            document: Any = json.loads(file.read(_MOST_OF_RECORD))
        if not isinstance(document, dict):
            raise ValueError(name)  # noqa: TRY004 - as of any other text that is no record
        return document

    def proven_cards(self) -> int | None:
        with suppress(OSError, ValueError):
            proven = self.read("proven.json")
            return len(proven["gpus"]) if proven and isinstance(proven.get("gpus"), list) else None
        return None

    def files(self) -> Answer:
        """Owned files, each against its digest, owner and mode in the ownership record."""
        try:
            entries = (self.read("owned.json") or {}).get("files", [])
            found = list(self._changed(entries))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return unknown("rigops.files", f"the ownership record: {type(error).__name__}")
        if found:
            return Answer(found, is_whole=all(one.status != "unknown" for one in found))
        text = f"{len(entries)} files of rigops are as it wrote them"
        return Answer([Found("ok", "rigops.files", "host", text, "rigops.files")])

    def _changed(self, entries: Iterable[Mapping[str, str]]) -> Iterator[Found]:
        for entry in entries:
            path = entry["path"]
            digests = {entry["digest"], entry.get("replaces") or entry["digest"]}
            status = "warn"
            try:
                difference = self._difference(path, digests, int(entry["mode"], 8))
            except OSError as error:
                status, difference = "unknown", str(error.strerror)
            if difference:
                yield Found(status, "rigops.files", path, difference, "rigops.files")

    def _difference(self, path: str, digests: set[str], mode: int) -> str:
        file = self._root / path.lstrip("/")
        try:
            there = file.lstat()
        except FileNotFoundError:
            return "the file is gone"
        if not stat.S_ISREG(there.st_mode):
            return "it is no regular file"
        digest = sha256()
        with file.open("rb") as opened:
            for part in iter(lambda: opened.read(65536), b""):
                digest.update(part)
        if digest.hexdigest() not in digests:
            return "its content was changed"
        if stat.S_IMODE(there.st_mode) != mode:
            return f"its mode is {stat.S_IMODE(there.st_mode):04o}, rigops wrote {mode:04o}"
        return "" if (there.st_uid, there.st_gid) == (0, 0) else "it is not root's"

    def reboot(self) -> Answer:
        """Reboots that the distribution asks for or an apply left pending."""
        reasons = []
        if (self._root / "run/reboot-required").exists():
            reasons.append("the distribution asks for it")
        try:
            if self._apply_owes():
                reasons.append("the last apply asked for it")
        except (OSError, ValueError) as error:
            return unknown("drv.reboot_pending", f"the journal: {type(error).__name__}")
        text = "a reboot is pending: " + "; ".join(reasons) if reasons else "no reboot is pending"
        found = Found(
            "warn" if reasons else "ok", "drv.reboot_pending", "host", text, "drv.reboot_pending"
        )
        return Answer([found], {"reboot_owed": float(bool(reasons))})

    def _apply_owes(self) -> bool:
        """By the last run that this boot has seen."""
        path = self._root / STATE / "journal.jsonl"
        if not path.exists():
            return False
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 65536))
            lines = file.read().splitlines()
        uptime = float((self._root / "proc/uptime").read_text().split()[0])
        for line in reversed(lines):
            with suppress(ValueError, KeyError, TypeError):
                run = json.loads(line)
                if run["command"] in {"apply", "rollback"} and run["outcome"] != "begun":
                    is_of_this_boot = seconds_of(run["at"]) > self._now - uptime
                    return bool(run["outcome"] == "reboot_owed" and is_of_this_boot)
        return False

    def proof(self) -> Answer:
        """Nothing where no preflight was recorded."""
        try:
            failed, proven = self.read("failed_proof.json"), self.read("proven.json")
            answer = Answer()
            if failed is not None:
                text = _failed(failed)
                answer.findings.append(Found("fail", "p2p.proof", "host", text, "p2p.proof"))
            if proven is not None:
                at = seconds_of(proven["at"])
                answer.metrics["proof_age_seconds"] = max(0.0, self._now - at)
                days = int(max(0.0, self._now - at) // 86400)
                text = _passed(proven, f"{str(proven['at'])[:10]} ({days} days ago)")
                if failed is None:
                    answer.findings.append(Found("ok", "p2p.proof", "host", text, "p2p.proof"))
            if failed is not None or proven is not None:
                answer.metrics["proof_failed"] = float(failed is not None)
        except (OSError, ValueError, KeyError, TypeError) as error:
            return unknown("p2p.proof", f"the record of the proof: {type(error).__name__}")
        return answer


def _failed(record: Mapping[str, Any]) -> str:
    """What failed, and what to declare. Records of old have neither."""
    day = str(record["at"])[:10]
    what = record.get("failure")
    how = f"failed: {what}" if what else "failed or was interrupted"
    until = record.get("stopgap")
    advice = f"; do not train with P2P: declare {until}" if until else ""
    return clean(f"the preflight of {day} {how}{advice}")


def _passed(record: Mapping[str, Any], when: str) -> str:
    pairs = record.get("pairs", ())
    if pairs and all(one["verdict"] == "not_granted" for one in pairs):
        return f"nothing to prove: preflight of {when}, no pair has peer access"
    return f"proven {when}, level {record['level']}"


def seconds_of(at: str) -> float:
    """Of RFC 3339 in UTC."""
    return float(timegm(time.strptime(at[:19] + "Z", _AT)))


def stamp(seconds: float) -> str:
    return time.strftime(_AT, time.gmtime(seconds))
