"""The first lines of a host in doctor's answer, short or with details."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.report.terminal import styled, visible
from rigops.report.words import without_place, wrapped

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostReport

_COLORS: Final = {
    "fail": "red",
    "unknown": "magenta",
    "warn": "yellow",
    "info": "cyan",
    "ok": "green",
}
_LOUD: Final = frozenset({"fail", "warn"})
_AFTER_LOGIN: Final = frozenset({"sudo", "fault"})  # kinds of errors of a host that was reached
_CODE_NAME: Final = re.compile(r" \([^()]*\)$")


def colored(text: str, status: str, *, bold: bool = False) -> str:
    return styled(text, fg=_COLORS.get(status), bold=bold)


def host_status(host: HostReport) -> str:
    return host.status.upper() if host.status in _LOUD else host.status


def head_lines(host: HostReport, width: int) -> list[str]:
    status = host_status(host)
    about = not_checked(host) or _about(host)
    lead = visible(f"{host.host}  {status}")
    first, *rest = wrapped(f"{lead}  {about}", width, "", hanging="  ")
    if first.startswith(lead):
        name = styled(host.host, bold=True)
        first = f"{name}  {colored(status, host.status, bold=True)}{first[len(lead) :]}"
    return [first, *rest]


def not_checked(host: HostReport) -> str:
    """Why, in one sentence; the row or line names the host already."""
    if host.error is None:
        return ""
    what = "not checked" if host.error.kind in _AFTER_LOGIN else "not reached"
    return f"{what}: {without_place(host.error.message, host.host)}"


def _about(host: HostReport) -> str:
    facts = host.facts
    system = _CODE_NAME.sub("", str(facts.get("os") or "")).replace(" GNU/Linux", "")
    kernel = str(facts.get("kernel") or "").removesuffix("-amd64")
    parts = [
        system,
        f"kernel {kernel}" if kernel else "",
        f"driver {facts['driver']}" if facts.get("driver") else "",
        _cards(facts.get("gpus")),
    ]
    return ", ".join(part for part in parts if part)


def _cards(gpus: object) -> str:
    if not isinstance(gpus, list) or not gpus:
        return ""
    models = [str(gpu.get("model") or gpu.get("name") or "unknown GPU") for gpu in gpus]
    return ", ".join(
        f"{models.count(model)}x {model.removeprefix('GeForce ')}"
        for model in dict.fromkeys(models)
    )
