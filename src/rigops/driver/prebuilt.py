"""Drivers whose modules a distribution built and signed for its own kernels.

Where the kernel takes signed modules only and no key of the machine's own is enrolled, they are the
only ones that load. Ubuntu has them: for each kernel and branch a package that is versioned with
the kernel, and that tells by the shared files it needs which driver it was built from.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.driver.candidates import Candidate
from rigops.probe.package_names import driver_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rigops.driver.offers import Offer, Offers

_MODULES = re.compile(
    r"linux-modules-nvidia-(?P<branch>\d{3})(?P<server>-server)?(?P<open>-open)?-(?P<kernel>\S+)"
)


@dataclass(frozen=True)
class _Family:
    branch: str
    is_server: bool
    is_open: bool

    @property
    def libraries(self) -> str:
        return f"{self.branch}-server" if self.is_server else self.branch

    @property
    def whole(self) -> str:
        return f"{self.libraries}-open" if self.is_open else self.libraries


def candidates(offers: Offers, kernels: Iterable[str]) -> tuple[Candidate, ...]:
    """Those that have modules for every one of these kernels."""
    wanted = set(kernels)
    found: dict[tuple[_Family, str], dict[str, tuple[Offer, ...]]] = defaultdict(dict)
    for offer in offers.every:
        shape = _MODULES.fullmatch(offer.name)
        if shape is None or shape["kernel"] not in wanted:
            continue
        family = _Family(shape["branch"], bool(shape["server"]), bool(shape["open"]))
        version = _built_from(offer, family)
        parts = tuple(_parts(offer, offers))
        if version and all(parts):
            found[family, version][shape["kernel"]] = (offer, *filter(None, parts))
    return tuple(
        candidate
        for (family, version), by_kernel in found.items()
        if by_kernel.keys() == wanted
        and (candidate := _candidate(family, version, by_kernel.values(), offers))
    )


def _built_from(offer: Offer, family: _Family) -> str | None:
    """They need the shared files of the version that they were built from, or of a later build."""
    shared = f"nvidia-kernel-common-{family.libraries}"
    for group in offer.depends:
        if len(group) == 1 and group[0].name == shared and group[0].operator == ">=":
            return driver_version(group[0].version)
    return None


def _parts(offer: Offer, offers: Offers) -> Iterator[Offer | None]:
    """The objects and signatures that its modules are put together from."""
    for group in offer.depends:
        one = group[0]
        if len(group) == 1 and one.operator == "=":
            named = offers.named(one.name)
            yield next((its for its in named if its.version == one.version), None)


def _candidate(
    family: _Family, version: str, modules: Iterable[tuple[Offer, ...]], offers: Offers
) -> Candidate | None:
    shared = offers.at(f"nvidia-kernel-common-{family.libraries}", version)
    if shared is None:
        return None
    utils = f"nvidia-utils-{family.libraries}"
    built = tuple(dict.fromkeys(one for every in modules for one in every))
    leading = tuple(_leading(family, {(one.name, one.version) for one in built}, offers))
    desktop = (f"nvidia-driver-{family.whole}", utils) if leading else ()
    return Candidate(
        version,
        "open" if family.is_open else "proprietary",
        shared,
        (f"nvidia-headless-no-dkms-{family.whole}", utils),
        desktop,
        is_server=family.is_server,
        prebuilt=(*leading, *built),
    )


def _leading(family: _Family, built: set[tuple[str, str]], offers: Offers) -> Iterator[Offer]:
    """What leads to just these, and stands for modules built here with the desktop's packages."""
    for offer in offers.providing(f"nvidia-dkms-{family.whole}"):
        needs = {(one.name, one.version) for group in offer.depends for one in group}
        if _MODULES.fullmatch(offer.name) and needs & built:
            yield offer
