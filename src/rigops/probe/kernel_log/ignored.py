"""Cards that the driver refuses when it is loaded, in a message of several lines."""

from __future__ import annotations

import re
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe.address import normal
from rigops.probe.kernel_log.log_line import LogLine

Refusal = Literal[
    "legacy",  # supported through the NVIDIA 580.xx Legacy drivers
    "unsupported",  # not supported by the NVIDIA 535.183.01 driver release
    "needs-open",  # requires use of the NVIDIA open kernel modules
    "needs-proprietary",  # not supported by open nvidia.ko
]

_HEAD: Final = "NVRM: The NVIDIA "
_MOST_LINES: Final = 8
_NEXT_LINE: Final = "#012"  # as rsyslog writes it
_INSTALLED: Final = " installed in this"
_ADDRESS: Final = re.compile(
    r"GPU (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
)
_ID: Final = re.compile(r"\(PCI ID: 10[dD][eE]:(?P<device>[0-9a-fA-F]{4})\)")
_BRANCH: Final = re.compile(
    r"supported (?:through|by) the NVIDIA (?:(?P<branch>[0-9]{1,3}(?:\.[0-9]{2})?)\.xx )?Legacy"
)
_DRIVER: Final = re.compile(
    r"(?:The|by the(?: NVIDIA)?) (?P<driver>[0-9]{2,4}(?:\.[0-9]{1,4}){1,2}) "
    r"(?:NVIDIA driver will ignore|(?:NVIDIA Linux )?driver release)"
)


@dataclass(frozen=True, kw_only=True)
class IgnoredCard:
    """None, or empty: the message does not say it."""

    refusal: Refusal
    address: str | None = None
    device: str | None = None  # PCI device id, four lower-case hexadecimal digits
    name: str = ""
    branch: str = ""  # the last that drives it: 580
    driver: str = ""  # that refuses it
    entries: tuple[LogLine, ...] = ()


class IgnoredCards:
    """Fed with the kernel's lines in their order."""

    def __init__(self) -> None:
        self.found: list[IgnoredCard] = []
        self._open: list[LogLine] = []

    def take(self, entry: LogLine) -> None:
        if entry.message.startswith(_HEAD):
            self._open = [entry]
        elif self._open and entry.message.startswith("NVRM:"):
            self._open.append(entry)
        if not self._open or self._open[-1] is not entry:
            return
        card = _read(self._open)
        if card and self.found and self.found[-1].entries[0] is self._open[0]:
            self.found[-1] = card  # now with the driver, which the end of the message names
        elif card:
            self.found.append(card)
        if (card and (card.driver or card.refusal != "legacy")) or len(self._open) == _MOST_LINES:
            self._open = []


def _read(entries: list[LogLine]) -> IgnoredCard | None:
    """None as long as the message does not say it. A pager may have cut its lines."""
    parts = [
        part.strip().removeprefix("NVRM:").rstrip(">")
        for entry in entries
        for part in entry.message.split(_NEXT_LINE)
    ]
    text = " ".join(" ".join(parts).split())
    card, installed, rest = text.partition(_INSTALLED)
    branch, driver = _BRANCH.search(rest), _DRIVER.search(rest)
    if branch:
        refusal: Refusal = "legacy"
    elif "requires use of the NVIDIA open kernel modules" in rest:
        refusal = "needs-open"
    elif "not supported by open nvidia.ko" in rest or "by the NVIDIA open kernel" in rest:
        refusal = "needs-proprietary"
    elif installed and driver and "is not supported" in rest:
        refusal = "unsupported"
    else:
        return None
    address, device = _ADDRESS.search(card), _ID.search(card)
    return IgnoredCard(
        refusal=refusal,
        address=normal(address["address"]) if address else None,
        device=device["device"].lower() if device else None,
        name="" if address else _name(card),
        branch=(branch and branch["branch"]) or "",
        driver=driver["driver"] if driver else "",
        entries=tuple(entries),
    )


def _name(card: str) -> str:
    """GeForce GTX 1050 of "The NVIDIA NVIDIA GeForce GTX 1050 GPU"."""
    name = card.removeprefix("The NVIDIA ").removeprefix("NVIDIA ").removesuffix(" GPU")
    return "" if name == "GPU" else name
