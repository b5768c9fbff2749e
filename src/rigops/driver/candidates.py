"""Every driver that the sources have: a version and flavour, and what its packages are called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.catalog.versions import branch_of
from rigops.driver import run_file
from rigops.probe.package_names import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.catalog.model import Flavour
    from rigops.driver.offers import Offer, Offers
    from rigops.spec.model import DriverSet

_DEBIAN = re.compile(r"nvidia-(?P<open>open-)?kernel-dkms")
# NVIDIA's own, as its driver installation guide names them. For Debian its `nvidia-driver-cuda` has
# nvidia-smi in it, and conflicts with Debian's package of that; for Ubuntu they have no branch in
# their names from 590 on. Some ask others for `>=` only, so those beside are named as well.
_OF_NVIDIA_FOR_DEBIAN = re.compile(r"nvidia-kernel-(?P<open>open-)?dkms")
_MARK_FOR_DEBIAN: Final = "nvidia-driver-cuda"
_OF_NVIDIA_FOR_UBUNTU = re.compile(r"nvidia-dkms(?P<open>-open)?")
_MARK_FOR_UBUNTU: Final = "libnvidia-compute"
_BESIDE: Final = ("nvidia-kernel-common", "nvidia-modprobe", "nvidia-persistenced")
_TESLA = re.compile(r"nvidia-tesla-(?P<branch>\d{3})-kernel-dkms")
_UBUNTU = re.compile(r"nvidia-dkms-(?P<branch>\d{3})(?P<server>-server)?(?P<open>-open)?")
_PROMISE = re.compile(
    r"nvidia-(?:dkms|driver|headless)-(?P<branch>\d{3})(?:-server)?(?:-open)?"
    r"|nvidia-tesla-(?P<tesla>\d{3})-(?:kernel-dkms|driver)"
)
_LIBRARIES: Final = ("nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-persistenced")


@dataclass(frozen=True)
class Candidate:
    """`kernel` is the package that DKMS builds the modules from."""

    version: str  # NVIDIA's
    flavour: Flavour
    kernel: Offer
    compute: tuple[str, ...]
    desktop: tuple[str, ...]
    is_server: bool = False
    prebuilt: tuple[Offer, ...] = ()  # modules that the distribution built: nothing is built here

    @property
    def is_run_file(self) -> bool:
        return self.kernel.name == RUN_FILE

    def names(self, set_: DriverSet) -> tuple[str, ...]:
        return self.desktop if set_ == "desktop" else self.compute


def candidates(offers: Offers) -> tuple[Candidate, ...]:
    """Oldest build first of each package, as the offers are."""
    return tuple(
        candidate
        for offer in offers.every
        if (version := offer.upstream)
        for candidate in _candidates(offer, version, offers)
    )


def _candidates(offer: Offer, version: str, offers: Offers) -> Iterator[Candidate]:
    if offer.name == RUN_FILE:
        for flavour in run_file.flavours(version):
            yield Candidate(version, flavour, offer, (RUN_FILE,), (RUN_FILE,))
    elif found := _of_nvidia(offer, version, offers) or _candidate(offer, version):
        yield found


def _of_nvidia(offer: Offer, version: str, offers: Offers) -> Candidate | None:
    name = offer.name
    beside = tuple(one for one in _BESIDE if offers.at(one, version))
    if (shape := _OF_NVIDIA_FOR_DEBIAN.fullmatch(name)) and offers.at(_MARK_FOR_DEBIAN, version):
        compute: tuple[str, ...] = (
            name, _MARK_FOR_DEBIAN, "libcuda1", "libnvidia-ml1", *beside
        )  # fmt: skip
        desktop = "nvidia-driver"
    elif (shape := _OF_NVIDIA_FOR_UBUNTU.fullmatch(name)) and offers.at(_MARK_FOR_UBUNTU, version):
        open_ = shape["open"] or ""
        head = f"nvidia-headless{open_}"
        heads = (head,) if offers.at(head, version) else ()
        compute = (*heads, name, _MARK_FOR_UBUNTU, *beside)
        desktop = f"nvidia-driver{open_}"
    else:
        return None
    flavour: Flavour = "open" if shape["open"] else "proprietary"
    return Candidate(version, flavour, offer, compute, (*compute, desktop))


def _candidate(offer: Offer, version: str) -> Candidate | None:
    name = offer.name
    if shape := _DEBIAN.fullmatch(name):
        compute: tuple[str, ...] = (name, *_LIBRARIES)
        flavour: Flavour = "open" if shape["open"] else "proprietary"
        return Candidate(version, flavour, offer, compute, (*compute, "nvidia-driver"))
    branch = branch_of(version)
    # A package of an older branch's name that only leads to this one is no driver of its own.
    if (shape := _TESLA.fullmatch(name)) and shape["branch"] == branch:
        family = f"nvidia-tesla-{branch}"
        compute = (
            name, f"{family}-smi", f"lib{family}-cuda1", f"lib{family}-ml1", "nvidia-persistenced"
        )  # fmt: skip
        return Candidate(version, "proprietary", offer, compute, (*compute, f"{family}-driver"))
    if (shape := _UBUNTU.fullmatch(name)) and shape["branch"] == branch:
        server, is_open = shape["server"] or "", shape["open"] or ""
        utils = f"nvidia-utils-{branch}{server}"
        return Candidate(
            version,
            "open" if is_open else "proprietary",
            offer,
            (f"nvidia-headless-{branch}{server}{is_open}", utils, name),
            (f"nvidia-driver-{branch}{server}{is_open}", utils, name),
            is_server=bool(server),
        )
    return None


def named_for_branches(offers: Offers) -> Iterator[tuple[str, Offer]]:
    """The packages that promise a branch by their name, whatever is in them."""
    for offer in offers.every:
        if shape := _PROMISE.fullmatch(offer.name):
            yield shape["branch"] or shape["tesla"], offer
