"""Whether a tree of kernel modules can be had on a host, and what it would need. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rigops.catalog.model import Gpu
from rigops.catalog.versions import branch_of
from rigops.concerns.driver_modules.record import PATH
from rigops.concerns.nvidia_driver.resolver.by_hand import enrolling
from rigops.concerns.nvidia_driver.resolver.fitness import OPEN_FROM, flavors
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.numbers import whole
from rigops.probe.sections.own_modules import ARGUMENT

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.concerns.driver_modules.record import FailedModules
    from rigops.concerns.driver_modules.tree import Tree
    from rigops.concerns.nvidia_driver.resolver.machine import Card, Machine
    from rigops.inventory.spec import RigSpec
    from rigops.probe.sections.own_modules import OwnModules

_BRIDGED: Final = 2  # cards that a bridge of NVLink may join
SHORT: Final = 12
MINUTES: Final = 5  # of one processor for a kernel, and as many for the part that all share
_KEY: Final = "driver_modules"
_OPTION: Final = "NVreg_OpenRmEnableUnsupportedGpus"
_PARTS = re.compile(r"[0-9]+|[A-Za-z]+")
_BECAUSE: Final[Mapping[str, str]] = {
    "not-asked": f"the kernel was started without {ARGUMENT}",
    "not-mounted": "/var was not mounted yet when they were loaded",
    "not-built": "your own are not built for this kernel",
    "damaged": "a file of your own set is damaged",
    "other-version": "your own are of another version than the driver",
    "no-firmware": "there is no GSP firmware of their version in /lib/firmware/nvidia",
    "refused": "the kernel refused your own; see `sudo dmesg | grep rigops`",
}


def unfit(tree: Tree, machine: Machine, catalog: Catalog) -> Blocker | None:
    """Why this machine cannot run them, whatever its packages are."""
    older = [
        str(one) for one in machine.cards if "open" not in flavors(catalog, tree.version, (one,))[0]
    ]
    if older:
        names = ", ".join(dict.fromkeys(older))
        return Blocker(
            f"the open kernel modules {tree.version} drive Turing and newer cards only, and this "
            f"machine has {names}",
            f"leave {_KEY} out here",
        )
    if machine.manager != "apt":
        return Blocker(
            f"{_KEY} needs apt and DKMS, and this machine ({machine.name}) has no apt",
            f"leave {_KEY} out here",
        )
    if not machine.own_kernels:
        return Blocker(
            f"{_KEY} needs a kernel of this host to build for, and it has none in /lib/modules: it "
            "runs with that of the machine around it",
            f"declare {_KEY} for the machine itself",
        )
    if machine.takes_signed_only:
        known = "is not enrolled" if machine.has_key is False else "is not known to be enrolled"
        return Blocker(
            f"Secure Boot is on, and the key that signs modules built here {known}: the kernel "
            "would load none of them",
            f"{enrolling(machine)}; or switch Secure Boot off in the firmware",
        )
    return None


def late(mounts: tuple[str, ...]) -> Blocker | None:
    """`mounts`: file systems between / and the built sets, which a boot mounts later."""
    if not mounts:
        return None
    return Blocker(
        f"{mounts[-1]} is a file system of its own, which a boot mounts about when it loads the "
        "modules: it would mostly find the stock ones only",
        f"move {mounts[-1]} to the root file system, or leave {_KEY} out here",
    )


def has_failed(tree: Tree, options: str, record: FailedModules | None) -> Blocker | None:
    if record is None or (record.digest, record.options) != (tree.digest, options):
        return None
    return Blocker(
        f"modules {named(tree)} were tried at {record.at} and are not tried again: {record.reason}",
        f"declare another tree or other module_options; to try this again: sudo rm {PATH}",
    )


def options(spec: RigSpec) -> str:
    """Their parameters as words; copies between cards may depend on them."""
    every = ((module, *one) for module, its in spec.module_options or () for one in its)
    return " ".join(f"{module}.{name}={value}" for module, name, value in sorted(every))


def named(tree: Tree) -> str:
    return f"{tree.version} ({tree.digest[:SHORT]})"


def needed_for_p2p(cards: Iterable[Card]) -> tuple[str, ...]:
    """Two lines on what peer access between these would take, where stock modules grant none."""
    gpus = [one.gpu for one in cards if isinstance(one.gpu, Gpu)]
    refused = [one for one in gpus if one.p2p == "none" or (one.p2p_own and len(gpus) > _BRIDGED)]
    if len(gpus) < _BRIDGED or not refused:
        return ()
    names = ", ".join(dict.fromkeys(one.name for one in refused))
    stock = f'"p2p": "required" fails with the stock modules: they grant {names} none over PCIe'
    tree = f'"{_KEY}": a tree of your own that does, BAR1 as large as the memory, iommu=pt'
    if len({one.name for one in gpus}) == 1 and all(one.p2p_own for one in refused):
        return stock, f"needed: {tree}"
    return stock, 'no modules are known that grant it between these; declare "p2p": "measure"'


def subject(kernel: str) -> str:
    return f"modules of your own for Linux {kernel}"


def because(reason: str) -> str:
    """Why a boot chose the stock modules, in words."""
    return _BECAUSE.get(reason, reason or "nobody said why")


def kernels_to_have(bootable: Iterable[str], running: str) -> tuple[str, ...]:
    """The newest, which boots next, and the running one: each takes minutes."""
    every = sorted(bootable, key=_by_number)
    return tuple(one for one in every if one in {every[-1], running})


def _by_number(release: str) -> list[tuple[int, str]]:
    return [(whole(part) or 0, part) for part in _PARTS.findall(release)]


def to_build(tree: Tree, kernels: Iterable[str], there: OwnModules) -> tuple[str, ...]:
    """The kernels that have no whole set of this tree."""
    return tuple(
        one for one in kernels if one not in there.built or there.built[one].digest != tree.digest
    )


def notes(tree: Tree, kernels: tuple[str, ...], *, is_new: bool) -> Iterator[str]:
    """What a person should know before this is built. `is_new`: its shared part is not built."""
    parts = len(kernels) + is_new
    yield (
        f"modules of your own: {named(tree)} from {tree.path}"
        + (f", git commit {tree.commit[:SHORT]}" if tree.commit else "")
        + f"; nobody but you has checked or signed them, and {len(kernels)} kernel"
        + ("s" if len(kernels) > 1 else "")
        + f" to build for take about {parts * MINUTES} processor minutes, 2 GB of memory and 1 GB "
        "of disk"
    )
    if tree.has_changes:
        yield f"{tree.path} has changes that are not committed: they are left out"


def lacking_option(tree: Tree, cards: Iterable[Card], spec: RigSpec) -> str:
    """The option that open modules of older branches start no GeForce without; empty: none."""
    names = dict.fromkeys(str(one) for one in cards if str(one).startswith("GeForce"))
    declared = dict(dict(spec.module_options or ()).get("nvidia", ()))
    if not names or _OPTION in declared or int(branch_of(tree.version)) >= OPEN_FROM:
        return ""
    return (
        f"open modules before {OPEN_FROM} start {', '.join(names)} only with an option: declare "
        f'"module_options": {{"nvidia": {{"{_OPTION}": 1}}}}'
    )


def not_loaded(there: OwnModules | None) -> str:
    """Why a boot with the argument did not bring the owner's set; empty: it did."""
    if there is None or there.chosen is None:
        return "nobody loaded the nvidia modules"
    if there.chosen == "stock":
        return f"the stock modules were loaded: {because(there.reason)}"
    sets = [one for one in there.built.values() if one.digest == there.digest]
    known = {number for one in sets for number in one.build_ids.values()}
    foreign = [module for module, number in there.loaded.items() if number not in known]
    if foreign or "nvidia" not in there.loaded:
        return f"{', '.join(foreign) or 'nvidia'} is not of the set that was built"
    return ""
