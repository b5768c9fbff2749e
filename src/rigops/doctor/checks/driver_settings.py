"""How the loaded driver is set: its module options, and whether it keeps the cards awake."""

from __future__ import annotations

import re
from dataclasses import replace

from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import HOST, Evidence, Finding, Fix, Status
from rigops.doctor.views import driver_state
from rigops.doctor.views.declared import CARD_NEEDS, judge_card
from rigops.probe.sections.nvidia_params import SECTION as NVIDIA_PARAMS
from rigops.probe.sections.nvidia_params import NvidiaParams
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.smi.report import SmiReport

_PERSISTENCE = "gpu_persistence"
_DRIVER = re.compile(r"nvidia(?:-current|-open|-current-open|-tesla\S*|-legacy\S*)?")
_NUMBER = re.compile(r"(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|(?P<decimal>-?[0-9]{1,20}))")


@Check(
    "drv.params",
    needs=(NVIDIA_PARAMS,),
    fixes=("apply+reboot",),
    keys=frozenset({"module_options"}),
)
def params(examined: Examined) -> Finding:
    """The loaded driver runs with the declared module options.

    Compares the options of `module_options` for nvidia (or nvidia-current) with
    /proc/driver/nvidia/params, which shows what the loaded module really has. An option that was
    written but not taken into the initramfs, or not read because the module has another name, shows
    here as a warning.
    """
    declared = examined.spec.module_options
    wanted = {
        name.removeprefix("NVreg_"): value
        for module, options in declared or ()
        if _DRIVER.fullmatch(module.replace("_", "-"))
        for name, value in options
    }
    if not wanted:
        return Finding("skipped", "no option of the NVIDIA module is declared")
    live = examined.snapshot[NVIDIA_PARAMS].value
    if live is None or not live.values:
        return Finding("unknown", "the parameters of the loaded driver were not collected")
    return _compared(examined, wanted, live)


def _compared(examined: Examined, wanted: dict[str, str], live: NvidiaParams) -> Finding:
    known = {name: value for name, value in wanted.items() if name in live.values}
    other = [name for name, value in known.items() if _value(value) != _value(live.values[name])]
    if other:
        shown = ", ".join(f"{name} is {live.values[name]} and not {wanted[name]}" for name in other)
        options = {module: dict(pairs) for module, pairs in examined.spec.module_options or ()}
        return Finding(
            "warn",
            f"the loaded driver does not run with the declared options: {shown}",
            tuple(Evidence(NVIDIA_PARAMS.name, live.lines[name]) for name in other),
            why="The module reads its options when it is loaded, and that is early, from the "
            "initramfs: a change takes effect when the initramfs is rebuilt and the host rebooted.",
            fix=Fix(
                kind="apply+reboot",
                concern=driver_state.CONCERN,
                declare={"module_options": options},
                text="`rigops apply` writes the options, rebuilds the initramfs and reboots",
                by_hand="write `options nvidia NVreg_…=…` (Debian's own packages: `options "
                "nvidia-current …`) to a file of /etc/modprobe.d, run `update-initramfs -u` and "
                "reboot",
            ),
        )
    unseen = [name for name in wanted if name not in known]
    if unseen or not examined.snapshot[NVIDIA_PARAMS].is_complete:
        names = ", ".join(unseen) or "all of them"
        return Finding("unknown", f"the loaded driver does not report {names}")
    return Finding("ok", "the loaded driver runs with the declared options")


def _value(text: str) -> int | str:
    """Numbers as the kernel reads them: 0x1b6 and 0666 are both 438."""
    plain = text.strip().strip('"')
    shape = _NUMBER.fullmatch(plain)
    if shape is None:
        return plain
    if shape["hex"]:
        return int(shape["hex"], 16)
    is_octal = len(plain) > 1 and plain.startswith("0") and not set(plain) & {"8", "9"}
    return int(plain, 8 if is_octal else 10)


@Check(
    "drv.persist",
    needs=(NVIDIA_VERSION, *CARD_NEEDS),
    fixes=("apply", "hands"),
    keys=frozenset({_PERSISTENCE}),
)
def persistence(examined: Examined) -> Finding | list[Finding]:
    """The driver keeps the cards initialized.

    Compares nvidia-smi's persistence mode of every card with `gpu_persistence`, as plan does: a
    declared power limit or clocks need it too. Where neither is declared, disabled is a warning:
    the driver then forgets power limits and clocks whenever the last program ends, and each start
    takes seconds. Where only nvidia-smi's output is known and nothing is declared, it is
    information, since limits that could be forgotten are unknown. Where the mode does not exist
    (N/A) the check does not apply.
    """
    if driver_state.loaded(examined).is_loaded is False:
        return Finding("skipped", driver_state.NOT_LOADED)
    report = examined.snapshot[SMI].value
    if report is None or not report.gpus:
        return Finding("unknown", "nvidia-smi did not report persistence")
    return _awake(examined, report)


def _awake(examined: Examined, report: SmiReport) -> list[Finding]:
    declared = examined.spec.gpu_persistence
    declare = {} if declared is None else {_PERSISTENCE: declared}
    cards = [(card, card.smi.persistence) for card in examined.cards if card.smi]
    is_off = all(is_on is False for _, is_on in cards)
    found = []
    for card, is_on in cards:
        one = judge_card(examined, card, "drv.persist", declare)
        if one is None and is_on is False:
            one = _off(examined, "every card" if is_off else card.name)
        if one and one.status != "ok":
            found.append(replace(one, subject=card.subject, evidence=_evidence(card)))
    if len(found) == len(cards) and len({one.summary for one in found}) == 1:
        return [replace(found[0], subject=HOST)]
    if found:
        return found
    if all(is_on is None for _, is_on in cards):
        return [Finding("skipped", "persistence does not exist here (N/A)")]
    is_complete = report.is_complete and examined.snapshot[SMI].is_complete
    is_complete = is_complete and all(is_on is not None for _, is_on in cards)
    if not is_complete or len(cards) != views.gpu_count(examined):
        return [Finding("unknown", "nvidia-smi did not report persistence for every card")]
    if declared is False:
        return [Finding("ok", "persistence is off, as declared")]
    return [Finding("ok", "the driver keeps every card initialized (persistence)")]


def _evidence(card: Card) -> tuple[Evidence, ...]:
    shown = (card.smi.line, card.smi.raw.get("persistence_mode", "")) if card.smi else ()
    return tuple(Evidence(SMI.name, line) for line in shown if line)


def _off(examined: Examined, which: str) -> Finding:
    """Where nothing is declared that needs it."""
    status: Status = "info" if examined.snapshot[NVIDIA_VERSION].value is None else "warn"
    return Finding(
        status,
        f"persistence is off for {which}",
        why="When the last program ends, the driver lets go of the card: power limit and clocks "
        "are forgotten, and the next program waits seconds for the card to start.",
        fix=Fix(
            kind="apply",
            concern="gpu_tuning",
            declare={_PERSISTENCE: True},
            text="`rigops apply` turns persistence on, now and at every boot",
            by_hand="`systemctl enable --now --no-reload nvidia-persistenced` (package "
            "nvidia-persistenced or nvidia-compute-utils); `nvidia-smi -pm 1` does it until the "
            "next boot",
        )
        if status == "warn"
        else None,
    )
