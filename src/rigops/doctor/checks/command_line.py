"""The kernel command line: what is declared, and what runs and boots next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rigops.concerns.kernel_args import state
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.bootloader.choice import Blocker, configuration_of
from rigops.concerns.kernel_args.bootloader.grub import Defaults, DropIns
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import kernel_arguments
from rigops.doctor.views.kernel_arguments import NextBoot
from rigops.probe.kernel_arguments import against
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.own_modules import ARGUMENT as OWN_MODULES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.snapshot import HostSnapshot

_MENU: Final = "/boot/grub/grub.cfg"


@Check(
    "cmdline.drift",
    needs_gpu=False,
    needs=(PROC_CMDLINE, BOOTLOADER, RIGOPS_STATE),
    fixes=("apply+reboot", "hands"),
    keys=frozenset({"kernel_args"}),
    cause_rank=140,
)
def drift(examined: Examined) -> Finding:
    """The declared kernel arguments are live.

    Compares `kernel_args` of the inventory, word by word, with /proc/cmdline and with the
    bootloader's next start (grub.cfg or its entries where they can be read, else the files that
    these are made from). Live is ok. Configured and not live waits for a reboot: a warning. Neither
    is a failure. Live and not in grub.cfg or the entries any more is a warning too, since the next
    boot loses it; so is one that GRUB's own files lack, since the next menu does, and one that
    rigops has configured and `kernel_args` no longer has.
    """
    snapshot, declared = examined.snapshot, examined.spec.kernel_args
    if left := _left_over(examined):
        return left
    if not declared:
        return Finding("skipped", "no kernel arguments are declared")
    running = snapshot[PROC_CMDLINE].value
    live = frozenset(running.arguments) if running and running.arguments else None
    following = kernel_arguments.of_next_boot(snapshot)
    absent = [one for one in declared if live is not None and one not in live]
    unknown = live is None or (bool(absent) and not snapshot[PROC_CMDLINE].is_complete)
    arguments = (following.arguments if following else frozenset()) | kernel_arguments.trying(
        snapshot
    )
    unconfigured = [one for one in declared if one not in arguments]
    if absent or unknown:
        return _not_live(examined, declared, absent, unconfigured, following, unknown=unknown)
    if unconfigured and following and following.is_complete and following.counts:
        return Finding(
            "warn",
            f"{_are(unconfigured)} live, and the next boot will not have it",
            (
                Evidence(PROC_CMDLINE.name, _line(snapshot)),
                Evidence(BOOTLOADER.name, following.line),
            ),
            why="It was typed at the boot menu, or taken out of the configuration since.",
            fix=_configure(examined, declared),
            data={"missing": unconfigured},
        )
    if unfiled := kernel_arguments.not_in_files(snapshot, declared):
        return Finding(
            "warn",
            f"{_are(unfiled)} live, and the next update of the boot menu drops it",
            (Evidence(PROC_CMDLINE.name, _line(snapshot)),),
            why="The menu has it, and the files that it is made from have not.",
            fix=_configure(examined, declared),
            data={"missing": unfiled},
        )
    return Finding(
        "ok",
        f"{_are(declared)} live",
        (Evidence(PROC_CMDLINE.name, _line(snapshot)),),
    )


def _left_over(examined: Examined) -> Finding | None:
    """Where arguments are declared, plan takes away what of rigops is not among them."""
    snapshot, declared = examined.snapshot, examined.spec.kernel_args
    known, boots = snapshot[RIGOPS_STATE].value, snapshot[BOOTLOADER].value
    if declared is None or known is None or boots is None:
        return None
    configured, others = state.configured(boots, known)
    own = (OWN_MODULES,) if examined.spec.driver_modules is not None else ()
    kept = against((*declared, *own), others).ours
    left = [one for one in configured if one not in kept]
    if not left:
        return None
    why = "in another file too" if set(left) <= set(declared) else "no longer declared"
    return Finding(
        "warn",
        f"{_are(left)} configured by rigops, and {why}",
        (Evidence(RIGOPS_STATE.name, kernel_arguments.record(snapshot).strip() or grub.DROP_IN),),
        fix=_fix(
            examined,
            f"`rigops apply` takes {' '.join(left)} of rigops off the kernel command line",
            f"take {' '.join(left)} out of your bootloader's options, and reboot",
        ),
        data={"left": left},
    )


def _not_live(
    examined: Examined,
    declared: tuple[str, ...],
    absent: list[str],
    unconfigured: list[str],
    following: NextBoot | None,
    *,
    unknown: bool,
) -> Finding:
    snapshot = examined.snapshot
    evidence = (
        *([Evidence(PROC_CMDLINE.name, _line(snapshot))] if snapshot[PROC_CMDLINE].value else []),
        *([Evidence(BOOTLOADER.name, following.line)] if following else []),
    )
    looked_at = absent or list(declared)
    missing = [one for one in looked_at if one in unconfigured]
    can_read = following is not None and following.is_complete
    # If rigops' record is incomplete, the next boot may try what is missing.
    knows_trials = not snapshot[RIGOPS_STATE].is_incomplete
    if missing and can_read and knows_trials:
        return Finding(
            "fail",
            f"{_are(missing)} declared and not configured",
            evidence,
            why="Neither the running kernel nor the next boot has it.",
            fix=_configure(examined, declared),
            data={"missing": missing},
        )
    if unknown:
        return Finding("unknown", "the running kernel's command line could not be read", evidence)
    is_read = snapshot[BOOTLOADER].is_complete
    if missing and is_read and knows_trials:
        return Finding(
            "fail",
            f"{_are(missing)} declared and not live, and nothing that was read "
            "configures the next boot",
            evidence,
            fix=_configure(examined, declared),
            data={"missing": missing},
        )
    if missing:
        return Finding(
            "unknown",
            f"{_are(missing)} not live, and whether the next boot will have it could not be read",
            evidence,
        )
    if kernel_arguments.trying(snapshot) & set(absent):
        # A plain reboot does not bring what rigops' record alone has.
        return Finding(
            "warn",
            f"{_are(absent)} configured and waits for the reboot that tries it",
            (
                Evidence(PROC_CMDLINE.name, _line(snapshot)),
                Evidence(RIGOPS_STATE.name, kernel_arguments.record(snapshot).strip()),
            ),
            why="It becomes permanent once one boot with it was verified.",
            fix=_fix(
                examined,
                "only the reboot is missing, which `rigops apply` does to try it first",
                "only the reboot is missing, which rigops does to try it first: `rigops apply`",
            ),
            data={"owed": absent},
        )
    place = following.place if following else ""
    return Finding(
        "warn",
        f"{_are(absent)} configured and waits for a reboot",
        evidence,
        why="A kernel reads its command line once, when it starts.",
        fix=_fix(
            examined,
            f"{_are(absent)} configured ({place}): only the reboot is missing",
            "only the reboot is missing: `systemctl reboot`",
        ),
        data={"owed": absent},
    )


def _line(snapshot: HostSnapshot) -> str:
    return snapshot[PROC_CMDLINE].or_empty.line


def _are(arguments: Sequence[str]) -> str:
    return f"{' '.join(arguments)} {'is' if len(arguments) == 1 else 'are'}"


def _configure(examined: Examined, declared: tuple[str, ...]) -> Fix:
    words, boots = " ".join(declared), examined.snapshot[BOOTLOADER].value
    chosen = configuration_of(boots) if boots is not None else Blocker("it was not read")
    by_hand = (
        f"add {words} to GRUB_CMDLINE_LINUX_DEFAULT in {grub.DEFAULTS}, run `update-grub` "
        f"(elsewhere `grub-mkconfig -o {_MENU}`) and reboot"
        if isinstance(chosen, DropIns | Defaults)
        else chosen.by_hand(declared)
    )
    text = f"`rigops apply` adds {words} to the kernel command line and reboots"
    return _fix(examined, text, by_hand)


def _fix(examined: Examined, text: str, by_hand: str) -> Fix:
    """By hand too where plan is blocked."""
    snapshot, declared = examined.snapshot, examined.spec.kernel_args or ()
    boots = snapshot[BOOTLOADER].value
    if boots is not None and snapshot[BOOTLOADER].is_complete:
        chosen = configuration_of(boots)
        if isinstance(chosen, Blocker):
            return fix_by_hand(f"{chosen.reason}: {by_hand}")
        live = snapshot[PROC_CMDLINE].or_empty.arguments
        if reasons := state.blockers(declared, live, boots.files):
            return fix_by_hand("; ".join(reasons))
    return Fix(
        kind="apply+reboot",
        concern="kernel_args",
        declare={"kernel_args": list(declared)},
        text=text,
        by_hand=by_hand,
    )
