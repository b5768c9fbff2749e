"""NVLinks: those that are not up though others are, and the errors that they have counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from rigops.catalog import find_gpu
from rigops.catalog.model import Gpu
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.sections.nvidia_smi_nvlink import SECTION as NVLINK
from rigops.probe.sections.nvidia_smi_nvlink import NvlinkErrors, NvlinkGpu

MANY_ERRORS: Final = 100  # that a link has corrected: fewer are a passing disturbance
_SHOWN: Final = 8
_SLOWER: Final = 0.98
_RESEAT: Final = (
    "power off and reseat the bridge, or the module on its board; swap bridges or modules: where "
    "the fault stays with a card, have the card replaced"
)


class _Best(NamedTuple):
    """Of the cards of one kind: most links up, and the highest rate."""

    links: int
    rate: float


@Check("nvl.state", needs=(NVLINK,), fixes=("hands",))
def state(examined: Examined) -> Finding | list[Finding]:
    """Every NVLink that is wired is up, at its full rate.

    Reads `nvidia-smi nvlink -s`. A link that is not wired is inactive, as it should be, so links
    are compared: a card with fewer links up than the others of its kind, or at a lower rate, is a
    warning, and so is one with a bridge that does not have all links up: a bridge wires all. Where
    no link is up it is skipped, but for modules, which their board connects: a warning. `p2p` and
    p2p.grant say which cards have to be connected.
    """
    found = _gap(examined)
    if found is not None:
        return found
    gpus = examined.snapshot[NVLINK].or_empty.gpus
    kinds = _kinds(gpus)
    judged = [one for gpu in gpus if (one := _state(examined, gpu, kinds, len(gpus)))]
    if judged:
        return judged
    if any(_is_missing(examined, gpu) for gpu in gpus):
        return Finding("unknown", "the NVLinks of some cards were not reported")
    if not examined.snapshot[NVLINK].is_complete:
        return Finding("unknown", "the NVLinks were not reported to the end")
    active = [gpu for gpu in gpus if gpu.active]
    if not active:
        return Finding(
            "skipped",
            "no NVLink of the cards is up",
            why="That is normal where no bridge is on them. With a bridge the links come up by "
            "themselves.",
        )
    counts = ", ".join(dict.fromkeys(f"{len(gpu.active)} of {len(gpu.links)}" for gpu in active))
    rates = ", ".join(f"{rate:g}" for rate in dict.fromkeys(map(_rate, active)))
    cited = tuple(
        Evidence(NVLINK.name, gpu.links[number].line) for gpu in active for number in gpu.active
    )
    return Finding(
        "ok",
        f"NVLinks are up: {counts} links of {len(active)} cards, {rates} GB/s each",
        tuple(dict.fromkeys(cited))[:_SHOWN],
    )


def _gap(examined: Examined) -> Finding | None:
    """Why there is nothing to judge."""
    answer = examined.snapshot[NVLINK]
    if examined.cards and all(one.model and not one.model.nvlink_links for one in examined.cards):
        return Finding("skipped", "these cards have no NVLink")
    if answer.value is None:
        return Finding("unknown", "the NVLinks were not collected")
    if not answer.value.gpus:
        lines = tuple(Evidence(NVLINK.name, line) for line in answer.value.unparsed[:2])
        return Finding("unknown", "nvidia-smi did not report the NVLinks", lines)
    return None


def _kinds(gpus: Sequence[NvlinkGpu]) -> dict[str, _Best]:
    kinds: dict[str, _Best] = {}
    for gpu in gpus:
        best = kinds.get(gpu.name, _Best(0, 0.0))
        kinds[gpu.name] = _Best(max(best.links, len(gpu.active)), max(best.rate, _rate(gpu)))
    return kinds


def _state(
    examined: Examined, gpu: NvlinkGpu, kinds: Mapping[str, _Best], count: int
) -> Finding | None:
    model = _model(examined, gpu)
    is_module = model is not None and model.p2p == "nvlink"
    most, fastest = kinds[gpu.name]
    if model is not None and not is_module:  # a bridge wires every link of a card
        most = max(most, model.nvlink_links)
    slow = [number for number in gpu.active if (gpu.links[number].rate or 0.0) < fastest * _SLOWER]
    inactive = [number for number, link in gpu.links.items() if not link.rate]
    if gpu.active and len(gpu.active) < most:
        summary = f"{len(gpu.active)} of {most} NVLinks are up"
        numbers = inactive
    elif slow:
        summary = f"NVLinks run below {fastest:g} GB/s: {', '.join(map(str, slow))}"
        numbers = slow
    elif is_module and gpu.is_inactive and count > 1:
        summary, numbers = "no NVLink is up, though its board connects the modules", inactive
    else:
        return None
    lines = (gpu.line, *(gpu.links[number].line for number in numbers), *gpu.remarks.values())
    return Finding(
        "warn",
        summary,
        tuple(Evidence(NVLINK.name, line) for line in lines[:_SHOWN]),
        subject=_subject(examined, gpu),
        why="Copies between the cards have less than their wires can carry. A link stays away "
        "where a bridge or module has bad contact, or the card at its other end is missing.",
        fix=fix_by_hand(f"compare `nvidia-smi -L` with the cards that belong here; {_RESEAT}"),
    )


def _is_missing(examined: Examined, gpu: NvlinkGpu) -> bool:
    """Of a card without NVLink some drivers print its name alone."""
    model = _model(examined, gpu)
    is_wired = model is not None and bool(model.nvlink_links)
    return is_wired and not gpu.links and not gpu.is_inactive


def _rate(gpu: NvlinkGpu) -> float:
    return max((link.rate or 0.0 for link in gpu.links.values()), default=0.0)


def _model(examined: Examined, gpu: NvlinkGpu) -> Gpu | None:
    return find_gpu(examined.catalog, gpu.name.removeprefix("NVIDIA ")).only


def _subject(examined: Examined, gpu: NvlinkGpu) -> str:
    """By its number, as nvidia-smi counts, where no other output names its address."""
    return _subjects(examined).get(gpu.uuid, f"gpu {gpu.index}")


@once
def _subjects(examined: Examined) -> dict[str, str]:
    return {one.smi.uuid: one.subject for one in examined.cards if one.smi and one.smi.uuid}


@Check("nvl.err", needs=(NVLINK,), fixes=("hands",))
def errors(examined: Examined) -> Finding | list[Finding]:
    """NVLinks have few errors.

    Reads the counters of `nvidia-smi nvlink -e`, which begin with the driver. A link that had to
    recover, and 100 corrected errors (CRC) or repeated transfers (replays) of a link, are a
    warning; fewer are information. It is skipped where no link is up.
    """
    found = _gap(examined)
    if found is not None:
        return found
    answer = examined.snapshot[NVLINK]
    gpus = [gpu for gpu in answer.or_empty.gpus if gpu.active or gpu.errors]
    judged = [one for gpu in gpus if (one := _counted(examined, gpu))]
    if judged:
        return judged
    if not gpus:
        return Finding("skipped", "no NVLink of the cards is up")
    if not answer.is_complete or any(
        number not in {link for link, _ in gpu.errors} for gpu in gpus for number in gpu.active
    ):
        return Finding("unknown", "the error counters of some NVLinks were not reported")
    return Finding("ok", "no NVLink has counted an error")


def _counted(examined: Examined, gpu: NvlinkGpu) -> Finding | None:
    counted = [one for one in gpu.errors.values() if one.count]
    if not counted:
        return None
    is_bad = any(map(_is_bad, counted))
    named = ", ".join(f"link {one.link}: {one.count} {one.kind}" for one in counted[:_SHOWN])
    return Finding(
        "warn" if is_bad else "info",
        f"NVLinks have counted errors ({named})",
        tuple(Evidence(NVLINK.name, line) for line in (gpu.line, *(one.line for one in counted)))[
            :_SHOWN
        ],
        subject=_subject(examined, gpu),
        why="Each was corrected, or the transfer repeated. Links that go on like this get slow, "
        "and end with Xid 74.",
        fix=fix_by_hand(_RESEAT) if is_bad else None,
    )


def _is_bad(one: NvlinkErrors) -> bool:
    return one.kind == "Recovery" or one.count >= MANY_ERRORS
