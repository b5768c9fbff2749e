"""Traces of a trial boot: its marks on the kernel's command line, and its log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile
from typing import Final

from rigops.probe.kernel_arguments import name
from rigops.probe.text import blocks, lines

MARK: Final = "rigops.trial"
LOG: Final = "/var/lib/rigops/trial.log"
CONFIRMED: Final = "/run/rigops/trial-confirmed"
CONFIRM: Final = ("sh", "-c", f"mkdir -p {CONFIRMED.rpartition('/')[0]} && : >{CONFIRMED}")

_NAMES: Final = frozenset({
    MARK, "panic", "systemd.wants", "systemd.watchdog_sec", "rd.shell", "rd.emergency",
})  # fmt: skip
_LINE: Final = re.compile(r"(?P<word>reached|confirmed|given-up)(?: \S+)? (?P<seconds>[0-9]{1,9})")
_EVENTS: Final = {
    "reached": "its services were started, {} s after it began",
    "confirmed": "it was confirmed {} s after it began",
    "given-up": "it was not confirmed, and ended itself {} s after it began",
}
_FAILED: Final = re.compile(
    r"(?m)^\W{0,8}(\S{1,256}\.(?:service|mount|socket|target|swap|device))\s"
)
_ADDRESS: Final = re.compile(r"(?m)^(?!lo\s)(\S+)\s+\S+\s+(\S+)")
_SHOWN: Final = 5


def without_marks(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """A trial boot's command line as its permanent twin would be."""
    if MARK not in arguments:
        return arguments
    begin = arguments.index(MARK)
    rest = dropwhile(lambda one: name(one) in _NAMES, arguments[begin:])
    return (*arguments[:begin], *rest)


def outcome(log: str) -> str:
    """Of a trial boot, by what trial.sh wrote down in it."""
    return "; ".join(events(log)) or (
        "it left no trace, so it ended before its services started: a panic, no root, or a hang "
        "that a power cycle or a watchdog ended"
    )


def events(log: str) -> Iterator[str]:
    """None for a boot that ended before its services started."""
    # The journal is the last that it asks. Any user of the host can write lines into that.
    record = log.partition("\n== journalctl")[0]
    for line in lines(record):
        if found := _LINE.fullmatch(line):
            yield _EVENTS[found["word"]].format(found["seconds"])
    asked = blocks(record)
    failed = _FAILED.findall(asked.get("systemctl --no-pager --failed", ""))
    if failed:
        yield f"failed there: {', '.join(failed[:_SHOWN])}"
    addresses = asked.get("ip -br address")
    if addresses is not None:
        own = [f"{name} {address}" for name, address in _ADDRESS.findall(addresses)]
        yield f"its addresses were {', '.join(own[:_SHOWN])}" if own else "it had no address"
    ssh = asked.get("systemctl is-active ssh.service sshd.service ssh.socket")
    if ssh is not None and "active" not in ssh.split():
        yield "no ssh server ran"
