"""What a trial boot has written down of itself, as sentences: see trial.sh."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.probe.text import blocks, lines

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE: Final = re.compile(r"(?P<word>reached|confirmed|given-up)(?: \S+)? (?P<seconds>\d{1,9})")
_SAID: Final = {
    "reached": "its services were started, {} s after it began",
    "confirmed": "it was confirmed {} s after it began",
    "given-up": "it was not confirmed, and ended itself {} s after it began",
}
_FAILED: Final = re.compile(r"(?m)^\W*\s*(\S+\.(?:service|mount|socket|target|swap|device))\s")
_ADDRESS: Final = re.compile(r"(?m)^(?!lo\s)(\S+)\s+\S+\s+(\S+)")
_MOST: Final = 5


def told(log: str) -> tuple[str, ...]:
    """Empty for a boot that never came so far, as after a panic."""
    return tuple(_told(log))


def became(log: str) -> str:
    return "; ".join(told(log)) or (
        "it left no trace, so it ended before its services started: a panic, no root, or a hang "
        "that a power cycle or a watchdog ended"
    )


def _told(log: str) -> Iterator[str]:
    for line in lines(log):
        if found := _LINE.fullmatch(line):
            yield _SAID[found["word"]].format(found["seconds"])
    asked = blocks(log)
    failed = _FAILED.findall(asked.get("systemctl --no-pager --failed", ""))
    if failed:
        yield f"failed there: {', '.join(failed[:_MOST])}"
    addresses = asked.get("ip -br address")
    if addresses is not None:
        own = [f"{name} {address}" for name, address in _ADDRESS.findall(addresses)]
        yield f"its addresses were {', '.join(own[:_MOST])}" if own else "it had no address"
    ssh = asked.get("systemctl is-active ssh.service sshd.service ssh.socket")
    if ssh is not None and "active" not in ssh.split():
        yield "no ssh server ran"
