"""The driver of a machine with packages of the declared source only, where it names one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.driver.request import Refusal, Resolution
from rigops.driver.resolve import resolve
from rigops.probe.package_names import is_driver

if TYPE_CHECKING:
    from collections.abc import Collection

    from rigops.catalog.loader import Catalog
    from rigops.driver.machine import Machine
    from rigops.driver.offers import Offers, Origin
    from rigops.driver.request import Request

_VENDOR: Final = "nvidia"


def resolve_from(
    machine: Machine,
    request: Request,
    offers: Offers,
    catalog: Catalog,
    uris: Collection[str] = (),
) -> Resolution | Refusal:
    """`uris`: of the snapshot, where one was declared."""
    own = of_source(offers, request.source, machine, uris)
    found = resolve(machine, request, own, catalog)
    if isinstance(found, Resolution) or own is offers:
        return found
    other = resolve(machine, request, offers, catalog)
    if isinstance(other, Refusal):
        return found
    cure = f'declare driver_source = "auto": other sources here have {other.version}'
    return replace(found, cure=f"{cure}; or {found.cure}" if found.cure else cure)


def of_source(offers: Offers, source: str, machine: Machine, uris: Collection[str] = ()) -> Offers:
    """What is no part of the driver may come from anywhere, such as a kernel's headers."""
    bare = {uri.rstrip("/") for uri in uris}
    distribution = machine.distribution.lower()

    def counts(origin: Origin) -> bool:
        maker = origin.maker.lower()
        if source == "vendor":
            return maker == _VENDOR
        if source == "snapshot":
            return origin.uri.rstrip("/") in bare
        return maker in {distribution, f"{distribution} backports"}

    if source not in {"distribution", "vendor", "snapshot"}:
        return offers
    every = tuple(
        one for one in offers.every if not is_driver(one.name) or any(map(counts, one.origins))
    )
    return replace(offers, every=every)
