"""When a driver that was proven on a machine before comes before what its sources have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from rigops.driver.request import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rigops.driver.machine import Machine
    from rigops.driver.offers import Offers
    from rigops.driver.request import Refusal, Request


class _Proven(Protocol):
    @property
    def version(self) -> str: ...


Proven = TypeVar("Proven", bound=_Proven)


def that_count(
    sets: Iterable[Proven], machine: Machine, request: Request, without: Resolution | Refusal
) -> list[Proven]:
    """`without`: what the sources alone would bring."""
    fitting = [one for one in sets if request.takes(one.version)]
    if not isinstance(without, Resolution):
        return fitting
    preferred = {machine.installed_version, request.locked}
    if without.version in preferred:
        return []
    return [one for one in fitting if one.version in preferred]


def has(own: Offers, packages: Mapping[str, str]) -> bool:
    """Whether each is there in this version."""
    return all(
        any(one.version == version for one in own.named(name)) for name, version in packages.items()
    )
