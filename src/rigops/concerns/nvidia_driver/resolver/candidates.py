"""Every driver that the sources have: a version and flavor, and what its packages are called."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from rigops.catalog.model import ModuleFlavor
from rigops.catalog.versions import branch_of
from rigops.concerns.nvidia_driver.resolver.offers import Offer, Offers
from rigops.dataclass import dataclass
from rigops.inventory.spec.model import DriverSet
from rigops.probe.package_names import RUN_FILE, driver_version

_DEBIAN = re.compile(r"nvidia-(?P<open>open-)?kernel-dkms")
# NVIDIA's own, as its driver installation guide names them. For Debian its `nvidia-driver-cuda` has
# nvidia-smi in it, and conflicts with Debian's package of that; for Ubuntu they have no branch in
# their names from 590 on. Some ask others for `>=` only, so those beside are named as well.
_OF_NVIDIA_FOR_DEBIAN = re.compile(r"nvidia-kernel-(?P<open>open-)?dkms")
_MARK_FOR_DEBIAN: Final = "nvidia-driver-cuda"
_OF_NVIDIA_FOR_UBUNTU = re.compile(r"nvidia-dkms(?P<open>-open)?")
_MARK_FOR_UBUNTU: Final = "libnvidia-compute"
_BESIDE: Final = ("nvidia-kernel-common", "nvidia-modprobe", "nvidia-persistenced")
_TESLA = re.compile(r"nvidia-tesla-(?P<branch>[0-9]{3})-kernel-dkms")
_UBUNTU = re.compile(r"nvidia-dkms-(?P<branch>[0-9]{3})(?P<server>-server)?(?P<open>-open)?")
_PROMISE = re.compile(
    r"nvidia-(?:dkms|driver|headless)-(?P<branch>[0-9]{3})(?:-server)?(?:-open)?"
    r"|nvidia-tesla-(?P<tesla>[0-9]{3})-(?:kernel-dkms|driver)"
)
_MODULES = re.compile(
    r"linux-modules-nvidia-(?P<branch>[0-9]{3})(?P<server>-server)?(?P<open>-open)?-(?P<kernel>\S+)"
)
_OPEN_IN_RUN_FILE_SINCE: Final = 515
_LIBRARIES: Final = ("nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-persistenced")


@dataclass(frozen=True)
class Candidate:
    """`kernel` is the package that DKMS builds the modules from."""

    version: str  # NVIDIA's
    flavor: ModuleFlavor
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
    found: list[Candidate] = []
    for offer in offers.every:
        version = offer.upstream
        if version and offer.name == RUN_FILE:
            found.append(Candidate(version, "proprietary", offer, (RUN_FILE,), (RUN_FILE,)))
            if int(branch_of(version)) >= _OPEN_IN_RUN_FILE_SINCE:
                found.append(Candidate(version, "open", offer, (RUN_FILE,), (RUN_FILE,)))
        elif version and (one := _of_nvidia(offer, version, offers) or _candidate(offer, version)):
            found.append(one)
    return tuple(found)


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
    flavor: ModuleFlavor = "open" if shape["open"] else "proprietary"
    return Candidate(version, flavor, offer, compute, (*compute, desktop))


def _candidate(offer: Offer, version: str) -> Candidate | None:
    name = offer.name
    if shape := _DEBIAN.fullmatch(name):
        compute: tuple[str, ...] = (name, *_LIBRARIES)
        flavor: ModuleFlavor = "open" if shape["open"] else "proprietary"
        return Candidate(version, flavor, offer, compute, (*compute, "nvidia-driver"))
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


@dataclass(frozen=True)
class _Family:
    """As in the names of packages: `libraries` such as 535-server, `whole` 535-server-open."""

    libraries: str
    whole: str


def prebuilt_candidates(offers: Offers, kernels: Iterable[str]) -> tuple[Candidate, ...]:
    """Drivers with modules that a distribution built and signed for every one of these kernels.

    Where the kernel takes signed modules only and no key of the machine's own is enrolled, they are
    the only ones that load. Ubuntu has them: for each kernel and branch a package that is versioned
    with the kernel. The shared files that it depends on show which driver it was built from.
    """
    wanted = set(kernels)
    found: dict[tuple[_Family, str], dict[str, tuple[Offer, ...]]] = defaultdict(dict)
    for offer in offers.every:
        shape = _MODULES.fullmatch(offer.name)
        if shape is None or shape["kernel"] not in wanted:
            continue
        libraries = shape["branch"] + (shape["server"] or "")
        family = _Family(libraries, libraries + (shape["open"] or ""))
        single = [group[0] for group in offer.depends if len(group) == 1]
        # They need the shared files of the version that they were built from, or of a later build.
        shared = (f"nvidia-kernel-common-{libraries}", ">=")
        version = next(
            (driver_version(one.version) for one in single if (one.name, one.operator) == shared),
            None,
        )
        # The objects and signatures that its modules are put together from.
        exact = [one for one in single if one.operator == "="]
        parts = [offers.exactly(one.name, one.version) for one in exact]
        if version and all(parts):
            found[family, version][shape["kernel"]] = (offer, *filter(None, parts))
    return tuple(
        candidate
        for (family, version), by_kernel in found.items()
        if by_kernel.keys() == wanted
        and (candidate := _prebuilt_candidate(family, version, by_kernel.values(), offers))
    )


def _prebuilt_candidate(
    family: _Family, version: str, modules: Iterable[tuple[Offer, ...]], offers: Offers
) -> Candidate | None:
    shared = offers.at(f"nvidia-kernel-common-{family.libraries}", version)
    if shared is None:
        return None
    utils = f"nvidia-utils-{family.libraries}"
    built = tuple(dict.fromkeys(one for every in modules for one in every))
    names = {(one.name, one.version) for one in built}
    # Packages that lead to just these, and satisfy the desktop's packages instead of built modules.
    leading = tuple(
        offer
        for offer in offers.providing(f"nvidia-dkms-{family.whole}")
        if _MODULES.fullmatch(offer.name)
        and any((one.name, one.version) in names for group in offer.depends for one in group)
    )
    desktop = (f"nvidia-driver-{family.whole}", utils) if leading else ()
    return Candidate(
        version,
        "open" if family.whole.endswith("-open") else "proprietary",
        shared,
        (f"nvidia-headless-no-dkms-{family.whole}", utils),
        desktop,
        is_server=family.libraries.endswith("-server"),
        prebuilt=(*leading, *built),
    )
