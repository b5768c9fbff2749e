"""Which of the two kernel modules it is, open or proprietary, and whether it is patched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from rigops.catalog import runs_on
from rigops.catalog.model import DrivenGpu, ModuleFlavor
from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views import (
    driver_advice,
    driver_state,
    ignored_cards,
    modules_on_disk,
    next_boot,
)
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH
from rigops.probe.sections.nvidia_modinfo import SECTION as NVIDIA_MODINFO
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.own_modules import SECTION as OWN_MODULES
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.uname import SECTION as UNAME

_FORK = re.compile(r"[0-9]-p2p\b|aikitoria|tinygrad|geohot", re.IGNORECASE)


@Check(
    "drv.flavor",
    needs=(
        UNAME,
        PROC_CMDLINE,
        NVIDIA_VERSION,
        NVIDIA_MODINFO,
        PACKAGES,
        KERNEL_LOG,
        SMI,
        NVBANDWIDTH,
    ),
    fixes=("apply+reboot", "hands"),
    keys=frozenset({"driver_flavor"}),
    cause_rank=75,
)
def flavor(examined: Examined) -> Finding | list[Finding]:
    """The kind of kernel module is the declared one, and drives these cards.

    Looks whether the loaded module calls itself Open (/proc/driver/nvidia/version); with nothing
    loaded, at the license of the module on disk. The open module does not drive Volta and older
    cards, the proprietary one not Blackwell: a failure, as the card stays unused. So is a card that
    the driver ignores, as the kernel log of this boot has it (`supported through the NVIDIA 580.xx
    Legacy drivers`, `not supported by the NVIDIA … driver release`, `requires use of the NVIDIA
    open kernel modules`), or that its branch does not drive by the catalog, and a kind other than
    the declared `driver_flavor`.
    """
    ignored = ignored_cards.judge_ignored(examined)
    named = {one.subject for one in ignored}
    undriven = [one for one in _undriven(examined) if one.subject not in named]
    return [*ignored, *undriven] or _kind(examined)


def _undriven(examined: Examined) -> list[Finding]:
    loaded = driver_state.loaded_version(examined.snapshot)
    return ignored_cards.judge_undriven(examined, *loaded) if loaded else []


def _kind(examined: Examined) -> Finding:
    found = _found(examined)
    if found is None:
        is_out = driver_state.loaded(examined).is_loaded is False
        return (
            Finding("skipped", driver_state.NOT_LOADED)
            if is_out and not examined.spec.driver_flavor
            else Finding("unknown", "which kind of module it is could not be read")
        )
    flavor, evidence = found
    undriven = [card for card in views.driven(examined) if flavor not in _flavors(examined, card)]
    if undriven:
        return _unfit(examined, flavor, undriven, evidence)
    declared = examined.spec.driver_flavor
    if declared not in {None, "auto", flavor}:
        return Finding(
            "fail",
            f"the {flavor} module is there, and {declared} is declared",
            evidence,
            why="The two differ in what they support, P2P and GPU firmware among it.",
            fix=ignored_cards.other_module(examined, declared),
        )
    if not views.sees_the_bus(examined) or len(examined.cards) != views.gpu_count(examined):
        return Finding("unknown", f"the {flavor} module; not all cards were seen", evidence)
    # What the log says of a driver that was loaded before is judged with this.
    evidence += ignored_cards.lines_of(examined)
    held = [driver_state.bound_to(card) for card in examined.cards]
    is_any_unknown = any(card.driven is None for card in examined.cards)
    if is_any_unknown and not all(one and one[0] == driver_state.DRIVER for one in held):
        return Finding("unknown", f"the {flavor} module; not all cards are known", evidence)
    return Finding("ok", f"the {flavor} module, which drives these cards", evidence)


def _flavors(examined: Examined, card: DrivenGpu) -> set[ModuleFlavor]:
    """Of any branch. What only branches before those of the catalog drive has no open module."""
    every = (runs_on(branch, card).flavors for branch in examined.catalog.drivers)
    return set(chain.from_iterable(every)) or {"proprietary"}


def _found(examined: Examined) -> tuple[ModuleFlavor, tuple[Evidence, ...]] | None:
    """The loaded module, or where none is, the next one."""
    snapshot = examined.snapshot
    version = snapshot[NVIDIA_VERSION].value
    if version is not None and version.flavor:
        return version.flavor, (Evidence(NVIDIA_VERSION.name, version.line),)
    if driver_state.loaded(examined).is_loaded is not False:
        return None
    module = modules_on_disk.of_running(snapshot, next_boot.running(snapshot))
    if module is None or module.is_open is None:
        return None
    cited = Evidence(NVIDIA_MODINFO.name, f"license: {module.license}")
    return ("open" if module.is_open else "proprietary"), (cited,)


def _unfit(
    examined: Examined, flavor: ModuleFlavor, cards: list[DrivenGpu], evidence: tuple[Evidence, ...]
) -> Finding:
    names = ", ".join(dict.fromkeys(f"{card.name} ({card.architecture})" for card in cards))
    right: ModuleFlavor = "proprietary" if flavor == "open" else "open"
    advice = driver_advice.advise(examined)
    return Finding(
        "fail",
        f"the {flavor} module does not drive {names}",
        evidence,
        why="The open module drives Turing and newer cards only, and the proprietary one nothing "
        "from Blackwell on. A card that its module does not drive stays unused.",
        fix=ignored_cards.other_module(examined, right)
        if advice.declare
        else fix_by_hand(advice.by_hand),
    )


@Check("drv.patched", needs=(NVIDIA_VERSION, NVIDIA_MODINFO, DKMS, SMI, OWN_MODULES))
def patched(examined: Examined) -> Finding:
    """Whether the driver is a patched one.

    Looks for the names of the known forks that grant P2P between GeForce cards, and for versions
    such as 610.57.04-p2p, in the output of the module, modinfo and DKMS, and whether the owner's
    own modules (`driver_modules`) are loaded. This is information: what others installed, an update
    takes away.
    """
    own = examined.snapshot[OWN_MODULES].or_empty
    if own.chosen == "own":
        return Finding(
            "info",
            "the modules are your own, from driver_modules: drv.modules judges them",
            (Evidence(OWN_MODULES.name, f"own {own.digest}"),),
        )
    signs = tuple(one for one in _lines(examined) if _FORK.search(one.line))
    if signs:
        return Finding(
            "info",
            "the driver is a patched one, made to grant P2P between GeForce cards",
            signs[:3],
            why="It is built for one version and one kernel: after an update the stock module is "
            "back, and P2P gone. rigops builds a tree of yours for each kernel: driver_modules.",
        )
    snapshot = examined.snapshot
    if driver_state.loaded(examined).is_loaded is False:
        return Finding("skipped", driver_state.NOT_LOADED)
    if snapshot[NVIDIA_VERSION].value is None or snapshot[NVIDIA_MODINFO].value is None:
        summary = "the module's own version was not collected"
        return Finding("unknown", summary)
    summary = "no sign of a patched module"
    why = "A patch that changes no version is not to be seen from outside."
    return Finding("ok", summary, why=why)


def _lines(examined: Examined) -> Iterator[Evidence]:
    snapshot = examined.snapshot
    if version := snapshot[NVIDIA_VERSION].value:
        for line in (version.line, *version.unparsed):
            yield Evidence(NVIDIA_VERSION.name, line)
    for module in snapshot[NVIDIA_MODINFO].or_empty.modules:
        yield Evidence(NVIDIA_MODINFO.name, module.line)
    for built in snapshot[DKMS].or_empty.nvidia:
        yield Evidence(DKMS.name, built.line)
