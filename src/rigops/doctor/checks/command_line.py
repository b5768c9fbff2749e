"""The kernel command line: what is declared, and what runs and boots next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.bootloader.choice import Blocker, configuration_of
from rigops.concerns.kernel_args.bootloader.grub import Defaults, DropIns
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import kernel_arguments
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.doctor.views.kernel_arguments import NextBoot
    from rigops.probe.sections.bootloader import Bootloader
    from rigops.probe.snapshot import HostSnapshot


_MENU: Final = "/boot/grub/grub.cfg"


@Check(
    "cmdline.drift",
    needs_gpu=False,
    needs=(PROC_CMDLINE, BOOTLOADER, RIGOPS_STATE),
    fixes=("apply+reboot",),
    keys=frozenset({"kernel_args"}),
    cause_rank=140,
)
def drift(examined: Examined) -> Finding:
    """The declared kernel arguments are live.

    Compares `kernel_args` of the inventory, word by word, with /proc/cmdline and with the
    bootloader's next start (grub.cfg or its entries where they can be read, else the files that
    these are made from). Live is ok. Configured and not live waits for a reboot: a warning. Neither
    is a failure. Live and not in grub.cfg or the entries any more is a warning too, since the next
    boot loses it.
    """
    snapshot, declared = examined.snapshot, examined.spec.kernel_args
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
            fix=_configure(declared, snapshot[BOOTLOADER].value),
            data={"missing": unconfigured},
        )
    return Finding(
        "ok",
        f"{_are(declared)} live",
        (Evidence(PROC_CMDLINE.name, _line(snapshot)),),
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
            fix=_configure(declared, snapshot[BOOTLOADER].value),
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
            fix=_configure(declared, snapshot[BOOTLOADER].value),
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
            fix=Fix(
                kind="apply+reboot",
                concern="kernel_args",
                declare={"kernel_args": list(declared)},
                text="only the reboot is missing, which `rigops apply` does to try it first",
                by_hand="only the reboot is missing, which rigops does to try it first: "
                "`rigops apply`",
            ),
            data={"owed": absent},
        )
    place = following.place if following else ""
    return Finding(
        "warn",
        f"{_are(absent)} configured and waits for a reboot",
        evidence,
        why="A kernel reads its command line once, when it starts.",
        fix=Fix(
            kind="apply+reboot",
            concern="kernel_args",
            declare={"kernel_args": list(declared)},
            text=f"{_are(absent)} configured ({place}): only the reboot is missing",
            by_hand="only the reboot is missing: `systemctl reboot`",
        ),
        data={"owed": absent},
    )


def _line(snapshot: HostSnapshot) -> str:
    return snapshot[PROC_CMDLINE].or_empty.line


def _are(arguments: Sequence[str]) -> str:
    return f"{' '.join(arguments)} {'is' if len(arguments) == 1 else 'are'}"


def _configure(declared: tuple[str, ...], boots: Bootloader | None) -> Fix:
    words = " ".join(declared)
    chosen = configuration_of(boots) if boots is not None else Blocker("it was not read")
    by_hand = (
        f"add {words} to GRUB_CMDLINE_LINUX_DEFAULT in {grub.DEFAULTS}, run `update-grub` "
        f"(elsewhere `grub-mkconfig -o {_MENU}`) and reboot"
        if isinstance(chosen, DropIns | Defaults)
        else chosen.by_hand(declared)
    )
    return Fix(
        kind="apply+reboot",
        concern="kernel_args",
        declare={"kernel_args": list(declared)},
        text=f"`rigops apply` adds {words} to the kernel command line and reboots",
        by_hand=by_hand,
    )
