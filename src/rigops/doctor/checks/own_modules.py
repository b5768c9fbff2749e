"""Whether the owner's own kernel modules are loaded, and will be after the next boot."""

from __future__ import annotations

from rigops.concerns.driver_modules import NAME
from rigops.concerns.driver_modules.decide import SHORT, because
from rigops.concerns.driver_modules.record import PATH, failed
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import next_boot
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.own_modules import SECTION as OWN_MODULES
from rigops.probe.sections.own_modules import OwnModules
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.uname import SECTION as UNAME

_WHY = (
    "The stock modules of GeForce cards grant no peer access over PCIe, so that P2P is gone while "
    "they are loaded. All else works."
)


@Check(
    "drv.modules",
    needs=(OWN_MODULES, UNAME, PROC_CMDLINE, BOOTLOADER, PACKAGES, RIGOPS_STATE),
    fixes=("apply", "apply+reboot", "hands"),
    keys=frozenset({NAME}),
    cause_rank=22,
)
def own(examined: Examined) -> Finding:
    """The kernel modules of the owner's own are loaded, and there for the next boot.

    Where `driver_modules` is declared or set up on the host, it reads which set this boot chose and
    why, the build IDs of the loaded modules, and what is built for which kernel. Stock modules in
    place of the declared ones are a failure, and so is a next kernel without a set: it boots with
    the stock ones. A loaded module whose build ID is that of no set is a warning.
    """
    there = examined.snapshot[OWN_MODULES].value
    is_declared = examined.spec.driver_modules is not None
    if there is None:
        summary = "which kernel modules this boot chose was not collected"
        return Finding("unknown" if is_declared else "skipped", summary)
    if not is_declared and not there.has_modprobe_file:
        return Finding("skipped", "no kernel modules of your own are declared")
    if there.chosen != "own":
        return _stock(examined, there)
    return _next(examined, there) or _loaded(examined, there)


def _stock(examined: Examined, there: OwnModules) -> Finding:
    if there.chosen is None:
        return Finding(
            "warn",
            "modules of your own are declared, and this boot had no choice of them yet",
            why=_WHY,
            fix=_fix(examined, "`rigops apply` builds them, and tries them by one boot"),
        )
    records = examined.snapshot[RIGOPS_STATE].or_empty.records
    reason, fix = because(there.reason), _fix(examined, "`rigops apply`, which says what is amiss")
    if (known := failed(records.get(PATH))) is not None:
        reason = f"they failed at {known.at}: {known.reason}"
        fix = fix_by_hand(f"declare another tree; to try this one again: `sudo rm {PATH}`")
    return Finding(
        "fail",
        f"the stock modules are loaded, not your own: {reason}",
        (Evidence(OWN_MODULES.name, f"stock {there.reason}"),),
        why=_WHY,
        fix=fix,
        data={"reason": there.reason},
    )


def _next(examined: Examined, there: OwnModules) -> Finding | None:
    upcoming = next_boot.next_kernel(examined.snapshot)
    if upcoming is None or upcoming.release in there.built:
        return None
    return Finding(
        "fail",
        f"kernel {upcoming.release}, which boots next, has no modules of your own: it boots with "
        "the stock ones",
        (upcoming.evidence,),
        why=f"{_WHY} They are built once apt is done; a build that fails is in the report of it.",
        fix=_fix(examined, f"`rigops apply` builds them for {upcoming.release}"),
        data={"kernel": upcoming.release},
    )


def _loaded(examined: Examined, there: OwnModules) -> Finding:
    chosen = Evidence(OWN_MODULES.name, f"own {there.digest}")
    known = {
        number
        for one in there.built.values()
        if one.digest == there.digest
        for number in one.build_ids.values()
    }
    foreign = [module for module, number in there.loaded.items() if number not in known]
    if known and foreign:
        return Finding(
            "warn",
            f"{', '.join(foreign)}: the build ID of what is loaded is that of no set: neither your "
            "own nor the stock one",
            (chosen,),
            why="Something else than rigops loaded or built it, or the set was built again since.",
            fix=_fix(examined, "reboot; if it stays so, `rigops apply`", kind="apply+reboot"),
            data={"modules": foreign},
        )
    versions = {one.version for one in there.built.values() if one.digest == there.digest}
    named = " ".join([*versions, f"({there.digest[:SHORT]})"])
    return Finding("ok", f"modules of your own {named} are loaded", (chosen,))


def _fix(examined: Examined, text: str, *, kind: str = "apply") -> Fix:
    if examined.spec.driver_modules is None:
        return fix_by_hand(f"declare {NAME}, then {text}")
    return Fix(
        kind="apply" if kind == "apply" else "apply+reboot",
        concern=NAME,
        is_declared=True,
        text=text,
    )
