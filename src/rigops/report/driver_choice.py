"""Drivers for hosts: the hosts of the document rigops.drivers/1, and lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from rigops.catalog.model import Gpu, RowStatus
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.options import (
    Choice,
    DeclaredDriver,
    Option,
    Recommendation,
)
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.dataclass import dataclass
from rigops.errors import HostError
from rigops.python_literal import literal
from rigops.report.terminal import styled
from rigops.report.words import MARGIN, grouped, wrapped

_COLORS: Final = {
    "known-good": "green",
    "caution": "yellow",
    "bad": "red",
    "unknown": "magenta",
    "unsupported": "red",
}


Status = Literal["ok", "unknown"]


@dataclass(frozen=True, kw_only=True)
class HostChoice:
    """One of `choice` and `error` is there."""

    host: str
    choice: Choice | None = None
    error: HostError | None = None

    @property
    def status(self) -> Status:
        return "ok" if self.choice else "unknown"

    def as_json(self) -> dict[str, object]:
        document: dict[str, object] = {"host": self.host, "status": self.status}
        if self.choice:
            document.update(_choice_json(self.choice))
        if self.error:
            document["error"] = {"kind": self.error.kind, "message": self.error.message}
        return document


def driver_choice_lines(hosts: Sequence[HostChoice], width: int) -> list[str]:
    """Hosts that could not be asked come first."""
    ordered = sorted(hosts, key=lambda host: host.choice is not None)
    return [line for host in ordered for line in (*_host(host, width), "")][:-1]


def _host(host: HostChoice, width: int) -> Iterator[str]:
    name = styled(host.host, bold=True)
    if host.choice is None:
        yield f"{name}  {styled('unknown', fg=_COLORS['unknown'])}"
        if host.error:
            yield from wrapped(f"{host.error.kind}: {host.error.message}", width)
            if host.error.fix:
                yield from wrapped(f"fix: {host.error.fix}", width)
        return
    yield f"{name}  {_about(host.choice.facts.machine)}"
    yield from _there(host.choice)
    yield from _declared(host.choice.declared, width)
    yield from _recommended(host.choice, width)
    yield from _offered(host.choice.options, width)


def _about(machine: Machine) -> str:
    cards = Counter(map(str, machine.cards))
    each = (f"{count}x {name}" if count > 1 else name for name, count in cards.items())
    named = ", ".join(each) or "no NVIDIA card"
    kernels = ", ".join(one.release for one in machine.kernels)
    return ", ".join(
        part for part in (machine.name, named, f"Linux {kernels}" if kernels else "") if part
    )


def _there(choice: Choice) -> Iterator[str]:
    loaded, installed = choice.facts.loaded, choice.facts.machine.installed_version
    if loaded:
        flavor = f" {loaded.flavor}" if loaded.flavor else ""
        yield f"{MARGIN}loaded     {loaded.version}{flavor}, {_styled(choice.loaded)}"
    else:
        yield f"{MARGIN}loaded     no driver"
    if installed and (loaded is None or installed != loaded.version):
        yield f"{MARGIN}installed  {installed}, {_styled(choice.installed)}"


def _declared(declared: DeclaredDriver | None, width: int) -> Iterator[str]:
    if declared is None:
        return
    if declared.blocker:
        yield f"{MARGIN}declared   {literal(declared.driver)}, {styled('refused', fg='red')}"
        yield from _blocker_lines(declared.blocker, width)
        return
    comes_to = f" is {declared.version} {declared.flavor}" if declared.version else ""
    yield from wrapped(f"declared   {literal(declared.driver)}{comes_to}: {declared.why}", width)


def _recommended(choice: Choice, width: int) -> Iterator[str]:
    found = choice.recommended
    yield ""
    if found is None:
        yield f"{MARGIN}{styled('nothing to recommend', fg='yellow')}"
        if choice.blocker:
            yield from _blocker_lines(choice.blocker, width)
        return
    name = styled(f"{found.version} {found.flavor}", fg="green", bold=True)
    yield f"{MARGIN}recommended: {name}"
    yield from wrapped(found.why, width, MARGIN * 2)
    for note in found.notes:
        yield from wrapped(f"note: {note}", width, MARGIN * 2)
    keys = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in found.declare.items())
    yield f"{MARGIN * 2}declare: {keys}"
    if choice.blocker:
        yield f"{MARGIN}{styled('blocked', fg='yellow')}"
        yield from _blocker_lines(choice.blocker, width)


def _blocker_lines(blocker: Blocker, width: int) -> Iterator[str]:
    """The fix on one line: it may hold what is to be copied."""
    yield from wrapped(blocker.reason, width, MARGIN * 2)
    if blocker.fix:
        yield f"{MARGIN * 2}fix: {blocker.fix}"


def _offered(options: Sequence[Option], width: int) -> Iterator[str]:
    """Fitting drivers first, newest first. Those that do not drive all cards are one line."""
    yield ""
    if not options:
        yield f"{MARGIN}on offer: nothing"
        return
    yield f"{MARGIN}on offer"
    listed = [one for one in options if one.status != "unsupported"]
    by_opinion = grouped(listed, lambda one: (one.version, one.why, one.fits)).values()
    for alike in sorted(by_opinion, key=lambda alike: not alike[0].fits):
        one, flavors = alike[0], " or ".join(option.flavor for option in alike)
        places = dict.fromkeys(place for option in alike for place in option.places)
        where = ", ".join(places) or "installed, and in no source"
        judged = f"{_styled(one.status)}, " if one.fits or one.status == "bad" else ""
        fits = "fits" if one.fits else "does not fit"
        yield f"{MARGIN * 2}{one.version} {flavors}  {judged}{fits}, {where}"
        yield from wrapped(one.why, width, MARGIN * 3)
    unsupported = [one for one in options if one.status == "unsupported"]
    rest = [
        f"{alike[0].version} {' or '.join(option.flavor for option in alike)}"
        for alike in grouped(unsupported, lambda one: one.version).values()
    ]
    if rest:
        head = styled("not for all cards of this machine", fg=_COLORS["unsupported"])
        yield f"{MARGIN * 2}{head}"
        yield from wrapped(", ".join(rest), width, MARGIN * 3)


def _styled(status: RowStatus | None) -> str:
    return styled(status or "unknown", fg=_COLORS[status or "unknown"])


def _choice_json(found: Choice) -> dict[str, object]:
    machine, loaded = found.facts.machine, found.facts.loaded
    installed = machine.installed_version
    return {
        "gpus": [
            {
                "address": card.address,
                "model": card.gpu.name if isinstance(card.gpu, Gpu) else None,
                "pci_id": f"10de:{card.pci_id}",
            }
            for card in machine.cards
        ],
        "distribution": machine.name,
        "kernels": [
            {"release": one.release, "headers": one.has_headers} for one in machine.kernels
        ],
        "installed": {
            "version": installed,
            "flavour": machine.flavor,
            "status": found.installed,
        }
        if installed
        else None,
        "loaded": {
            "version": loaded.version,
            "flavour": loaded.flavor,
            "status": found.loaded,
        }
        if loaded
        else None,
        "offered": [_option_json(one) for one in found.options],
        "recommended": _recommendation_json(found.recommended) if found.recommended else None,
        "refusal": _blocker_json(found.blocker),
        "declared": _declared_json(found.declared) if found.declared else None,
    }


def _option_json(one: Option) -> dict[str, object]:
    return {
        "version": one.version,
        "branch": one.branch,
        "flavour": one.flavor,
        "sets": list(one.sets),
        "from": list(one.places),
        "status": one.status,
        "fits": one.fits,
        "why": one.why,
    }


def _recommendation_json(one: Recommendation) -> dict[str, object]:
    return {
        "version": one.version,
        "flavour": one.flavor,
        "declare": dict(one.declare),
        "why": one.why,
        "notes": list(one.notes),
    }


def _declared_json(one: DeclaredDriver) -> dict[str, object]:
    return {
        "driver": one.driver,
        "version": one.version,
        "flavour": one.flavor,
        "why": one.why,
        "refusal": _blocker_json(one.blocker),
    }


def _blocker_json(one: Blocker | None) -> dict[str, str] | None:
    return {"reason": one.reason, "cure": one.fix} if one else None
