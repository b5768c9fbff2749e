"""Cards that the driver does not drive: as the kernel log of this boot has it, or the catalog."""

from __future__ import annotations

from itertools import islice
from typing import Final

from rigops.catalog import find_branch, find_gpu, runs_on, versions
from rigops.catalog.model import DrivenGpu, Gpu, ModuleFlavor
from rigops.catalog.model import Evidence as Source
from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import driver_advice, driver_state
from rigops.doctor.views.cards import answers, subject_of
from rigops.probe.kernel_log.ignored import IgnoredCard, Refusal
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION

_MOST_LINES: Final = 12
_FLAVORS: Final[dict[Refusal, ModuleFlavor]] = {
    "needs-open": "open",
    "needs-proprietary": "proprietary",
}
_WHY: Final = (
    "The driver looks at each card while it is loaded, and passes by those that it has no support "
    "for: no program can use such a card, and nvidia-smi does not list it."
)

_ANOTHER: Final = (
    "install the newest release of this branch or of another one (`rigops drivers` shows which are "
    "good for these cards), and switch the machine off and on. In a virtual machine the host "
    "decides what the card offers: a vGPU or confidential computing ask for a driver that fits it"
)


def judge_ignored(examined: Examined) -> list[Finding]:
    """Once a card, by what the driver said last; none that answers now."""
    log = examined.snapshot[KERNEL_LOG].or_empty
    latest = {_subject(examined, one): one for one in log.ignored_cards if not one.entries[0].boot}
    return [
        _judge(examined, subject, card)
        for subject, card in latest.items()
        if not answers(examined, subject) and not _is_of_another_driver(examined, card)
    ]


def lines_of(examined: Examined) -> tuple[Evidence, ...]:
    """The first of them."""
    log = examined.snapshot[KERNEL_LOG].or_empty
    lines = (one.line for card in log.ignored_cards for one in card.entries)
    return tuple(Evidence(KERNEL_LOG.name, line) for line in islice(lines, _MOST_LINES))


def judge_undriven(
    examined: Examined, driver: str, evidence: tuple[Evidence, ...]
) -> list[Finding]:
    """Cards that no release of the loaded driver's branch drives, by the catalog."""
    branch = find_branch(examined.catalog, versions.branch_of(driver))
    found = []
    for card in examined.cards:
        # A card that nvidia-smi lists is driven, whatever its chip suggests.
        if branch is None or card.driven is None or (card.unlisted and card.smi):
            continue
        support, last = runs_on(branch, card.driven), card.driven.last_branch
        if support:
            continue
        is_newer = bool(last) and int(branch.branch) > int(last)
        why = f"branch {last} is its last" if is_newer else support.reason
        fix = _older(examined, last) if is_newer else _newer(examined, card.driven)
        found.append(
            Finding(
                "fail",
                f"driver {driver} does not drive {card.name}: {why}",
                (*evidence, *(Evidence("catalog", str(one)) for one in _sources(examined, card))),
                subject=card.subject,
                why=_WHY,
                fix=fix,
            )
        )
    return found


def _sources(examined: Examined, card: Card) -> tuple[Source, ...]:
    if card.model:
        return card.model.evidence[-1:]
    name = card.unlisted.architecture if card.unlisted else ""
    return next((one.evidence for one in examined.catalog.generations if one.name == name), ())


def _is_of_another_driver(examined: Examined, card: IgnoredCard) -> bool:
    """Of one that was loaded before the present one."""
    loaded = examined.snapshot[NVIDIA_VERSION].or_empty.version
    return bool(loaded and card.driver and loaded != card.driver)


def _subject(examined: Examined, card: IgnoredCard) -> str:
    if card.address is None and (model := _model(examined, card)):
        same = [one.subject for one in examined.cards if one.model == model]
        if len(same) == 1:
            return same[0]
    return subject_of(examined, card.address)


def _model(examined: Examined, card: IgnoredCard) -> Gpu | None:
    return find_gpu(examined.catalog, f"10de:{card.device}" if card.device else card.name).only


def _is_driven_by_its_branch(examined: Examined, model: Gpu, driver: str) -> bool:
    branch = find_branch(examined.catalog, versions.branch_of(driver)) if driver else None
    return bool(branch and runs_on(branch, model))


def _judge(examined: Examined, subject: str, card: IgnoredCard) -> Finding:
    model = _model(examined, card)
    name = model.name if model else card.name or "this card"
    driver = f"driver {card.driver}" if card.driver else "the driver"
    flavor = _FLAVORS.get(card.refusal)
    branch = card.branch or (model.last_branch if model else "")
    if flavor:
        summary = f"{driver} ignores {name}: it needs the {flavor} module"
        fix = other_module(examined, flavor)
    elif card.refusal == "legacy":
        last = f"branch {branch} is its last" if branch else "it needs a legacy driver"
        summary = f"{driver} ignores {name}: {last}"
        fix = _older(examined, branch)
    elif model and _is_driven_by_its_branch(examined, model, card.driver):
        summary = f"{driver} ignores {name}, which others of its branch drive"
        fix = fix_by_hand(_ANOTHER)
    else:
        summary = f"{driver} ignores {name}, which it does not know"
        fix = _newer(examined, model)
    return Finding(
        "fail",
        summary,
        tuple(Evidence(KERNEL_LOG.name, one.line) for one in card.entries),
        id="drv.flavor",
        subject=subject,
        why=_WHY,
        fix=fix,
    )


def other_module(examined: Examined, flavor: ModuleFlavor) -> Fix:
    debian = "nvidia-open-kernel-dkms" if flavor == "open" else "nvidia-kernel-dkms"
    ubuntu = "nvidia-driver-BRANCH-open" if flavor == "open" else "nvidia-driver-BRANCH"
    return Fix(
        kind="apply+reboot",
        concern=driver_state.CONCERN,
        declare={**driver_advice.advise(examined).declare, "driver_flavor": flavor},
        text=f"`rigops apply` installs the {flavor} module in its place and reboots",
        by_hand=f"install the {flavor} module (Debian: {debian}, Ubuntu: {ubuntu}) and reboot",
    )


def _older(examined: Examined, branch: str) -> Fix:
    known = find_branch(examined.catalog, branch)
    if known is None:
        named = f"the {branch}.xx legacy driver" if branch else "the legacy driver for it"
        text = f"install {named} where the distribution has one, or replace the card"
        return fix_by_hand(text)
    # No legacy card has run on the open modules so far.
    others = [
        one.name
        for one in views.driven(examined)
        if "proprietary" not in runs_on(known, one).flavors
    ]
    if others:
        text = (
            f"no one driver runs all cards of this host: the proprietary module of {branch} does "
            f"not drive {', '.join(others)}; take one of them out, or give it to a virtual machine"
        )
        return fix_by_hand(text)
    declare: dict[str, object] = {"driver": branch}
    if examined.spec.driver_flavor == "open":
        declare["driver_flavor"] = "proprietary"
    return Fix(
        kind="apply+reboot",
        concern=driver_state.CONCERN,
        declare=declare,
        text=f"`rigops apply` installs driver {branch}, holds it and reboots",
        by_hand=f"install driver {branch}, keep apt from replacing it, and reboot",
    )


def _newer(examined: Examined, model: DrivenGpu | None) -> Fix:
    since = f"{model.first_branch} or newer" if model else "a newer driver"
    return driver_advice.by_deploy(
        examined,
        "`rigops apply` installs a driver that knows the card, and reboots",
        f"install {since} (`rigops drivers` shows which are good for these cards), and reboot",
    )
