"""What each host could run, and the hosts of the document rigops.drivers/1."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostError
    from rigops.driver.choice import Choice, Declared, Option, Recommendation
    from rigops.driver.request import Refusal

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
            document.update(_choice(self.choice))
        if self.error:
            document["error"] = {"kind": self.error.kind, "message": self.error.message}
        return document


def _choice(found: Choice) -> dict[str, object]:
    machine, loaded = found.seen.machine, found.seen.loaded
    installed = machine.installed_version
    return {
        "gpus": [
            {
                "address": card.address,
                "model": card.gpu.name if card.gpu else None,
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
            "flavour": machine.flavour,
            "status": found.installed,
        }
        if installed
        else None,
        "loaded": {**asdict(loaded), "status": found.loaded} if loaded else None,
        "offered": [_option(one) for one in found.options],
        "recommended": _recommendation(found.recommended) if found.recommended else None,
        "refusal": _refusal(found.refusal),
        "declared": _declared(found.declared) if found.declared else None,
    }


def _option(one: Option) -> dict[str, object]:
    return {
        "version": one.version,
        "branch": one.branch,
        "flavour": one.flavour,
        "sets": list(one.sets),
        "from": list(one.places),
        "status": one.status,
        "fits": one.fits,
        "why": one.why,
    }


def _recommendation(one: Recommendation) -> dict[str, object]:
    return {
        "version": one.version,
        "flavour": one.flavour,
        "declare": dict(one.declare),
        "why": one.why,
        "notes": list(one.notes),
    }


def _declared(one: Declared) -> dict[str, object]:
    return {
        "driver": one.wish,
        "version": one.version,
        "flavour": one.flavour,
        "why": one.why,
        "refusal": _refusal(one.refusal),
    }


def _refusal(one: Refusal | None) -> dict[str, str] | None:
    return {"reason": one.reason, "cure": one.cure} if one else None
