"""Which driver for which cards, in lines: the answer, a table, and all that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from textwrap import shorten
from typing import Final

from packaging.version import Version

from rigops.catalog import Catalog, runs_on, versions
from rigops.catalog.lookup import (
    ENDED,
    concerns,
    drives_all,
    good_branches,
    has_ended,
    last_cuda,
    runs_cuda,
    why_none,
)
from rigops.catalog.lookup import verdicts as judged
from rigops.catalog.model import DrivenGpu, DriverBranch, UnlistedGpu, Verdict
from rigops.dataclass import dataclass
from rigops.report.catalog_age import age_lines
from rigops.report.terminal import styled
from rigops.report.words import MARGIN, grouped, wrapped

SCHEMA: Final = "rigops.drivers/1"
_COLORS = {"known-good": "green", "caution": "yellow", "bad": "red"}
_WORDS = {"known-good": "known good", "caution": "caution", "bad": "bad", "unknown": "unknown"}
_FEW: Final = 12  # lines of the table, beside which there is room for the rest
_LEAST_WHY: Final = 20  # columns; for which the support is left out, if need be
_HEAD: Final = "  branch  status      newest       CUDA  "
_SUPPORT: Final = "support        "
_MORE: Final = "Reports and dates: -v    What this host can install: rigops drivers --host HOST"


@dataclass(frozen=True)
class Wanted:
    """What the drivers are for. No cards: most cards; no CUDA: any."""

    gpus: Sequence[DrivenGpu]
    cuda: Version | None
    today: date


def drivers_lines(
    catalog: Catalog, wanted: Wanted, width: int, *, has_evidence: bool
) -> Iterator[str]:
    """The answer for each card, and a table of branches; with evidence, all that is known."""
    gpus = wanted.gpus
    by_answer = grouped(gpus or (None,), lambda gpu: _answer(catalog, wanted, gpu))
    for answer, same in by_answer.items():
        yield from _lines(same, answer, width)
    table = list(_table(catalog, wanted, width))
    yield from _peers(gpus, width, in_full=has_evidence or len(table) <= _FEW)
    yield from ("", *_evidence(catalog, wanted, width)) if has_evidence else table
    yield from wrapped(_MORE, width, "")
    yield from age_lines(catalog, wanted.today, width)


def _answer(catalog: Catalog, wanted: Wanted, gpu: DrivenGpu | None) -> str:
    cards = (gpu,) if gpu else ()
    never = [
        f"Never {branch.branch}: {_short(worst)}."
        for branch in catalog.drivers
        if not _unfit(branch, wanted) and all(runs_on(branch, card) for card in cards)
        if (worst := _worst(catalog, branch, cards)) and worst.status == "bad"
    ]
    return " ".join((f"{_use(catalog, wanted, gpu)}.", *never))


def _use(catalog: Catalog, wanted: Wanted, gpu: DrivenGpu | None) -> str:
    """Good and supported comes before good and ended."""
    cards, cuda = (gpu,) if gpu else (), wanted.cuda
    last = last_cuda(catalog, gpu) if gpu else ""
    if gpu and cuda and last and int(last) < cuda.major:
        return f"{gpu.architecture} runs nothing of CUDA {cuda.major}: take builds for CUDA {last}"
    good = good_branches(catalog, cards)
    if not good:
        return why_none(catalog, cards)
    fit = [one for one in good if cuda is None or runs_cuda(one, cuda)]
    if not fit:
        others = [
            one.branch
            for one in catalog.drivers
            if cuda and runs_cuda(one, cuda) and drives_all(one, cards)
        ]
        instead = f"; without good reports: {' or '.join(others)}" if others else ""
        return f"no driver that is known to be good runs CUDA {cuda}{instead}"
    supported = [one.branch for one in fit if not has_ended(one, wanted.today)]
    ended = [one for one in fit if has_ended(one, wanted.today)]
    if not supported:
        return f"use {' or '.join(f'{one.branch}, which ended {one.end_of_life}' for one in ended)}"
    also = [f"{one.branch} is good and ended {one.end_of_life}" for one in ended]
    return "; ".join((f"use {' or '.join(supported)}", *also))


def _lines(gpus: Sequence[DrivenGpu | None], answer: str, width: int) -> list[str]:
    names = ", ".join(gpu.name if gpu else "Most cards" for gpu in gpus)
    first, *rest = wrapped(f"{names}: {answer}", width, "", hanging="  ")
    return [styled(first, bold=True), *(styled(line, bold=True) for line in rest)]


def _table(catalog: Catalog, wanted: Wanted, width: int) -> Iterator[str]:
    """One line a branch. Those that do not fit are one line for each reason."""
    gpus = wanted.gpus
    fits = width >= len(f"{_HEAD}{_SUPPORT}") + _LEAST_WHY
    before_why = len(_HEAD) + (len(_SUPPORT) if fits else 0)
    yield f"{_HEAD}{_SUPPORT if fits else ''}why"
    unfit: dict[str, list[str]] = {}
    for branch in reversed(catalog.drivers):
        if unfit_for := _unfit(branch, wanted):
            unfit.setdefault(unfit_for, []).append(branch.branch)
            continue
        worst = _worst(catalog, branch, gpus)
        status = worst.status if worst else "unknown"
        newest = branch.releases[-1].version if branch.releases else ""
        column = styled(f"{_WORDS[status]:<10}", fg=_COLORS.get(status))
        support = f"{_support(branch, wanted.today):<{len(_SUPPORT)}}" if fits else ""
        reason = _shortened(_reason(branch, worst, gpus), width - before_why)
        cuda = f"{branch.cuda:<4}"
        yield f"  {branch.branch:<6}  {column}  {newest:<11}  {cuda}  {support}{reason}".rstrip()
    for reason, branches in unfit.items():
        yield from wrapped(f"{', '.join(branches)}: {reason}", width, "  ", hanging="  ")


def _unfit(branch: DriverBranch, wanted: Wanted) -> str:
    """Why it drives none of the cards, or runs no programs of the CUDA; or ""."""
    supports = [runs_on(branch, gpu) for gpu in wanted.gpus]
    if supports and not any(supports):
        return supports[0].reason
    is_too_old = wanted.cuda and not runs_cuda(branch, wanted.cuda)
    return f"too old for programs of CUDA {wanted.cuda}" if is_too_old else ""


def _worst(catalog: Catalog, branch: DriverBranch, gpus: Sequence[DrivenGpu]) -> Verdict | None:
    """Its newest release."""
    if not branch.releases:
        return None
    found = judged(catalog, versions.parse(branch.releases[-1].version), gpus)
    return found[0] if found else None


def _support(branch: DriverBranch, today: date) -> str:
    end = branch.end_of_life
    if end in {"", ENDED}:
        return end
    return f"{ENDED} {end}" if has_ended(branch, today) else f"until {end}"


def _reason(branch: DriverBranch, worst: Verdict | None, gpus: Sequence[DrivenGpu]) -> str:
    if worst is None:
        others = [one for one in branch.verdicts if one.purpose != "install"]
        if others and not gpus:
            return "differs by card: --gpu NAME"
        known = next((one for one in others if any(concerns(one, gpu) for gpu in gpus)), None)
        return f"no reports; older releases: {_short(known)}" if known else "no reports"
    bad = (
        one
        for one in branch.verdicts
        if one.status == "bad" and one.versions and one is not worst
        if not gpus or any(concerns(one, gpu) for gpu in gpus)
    )
    older = dict.fromkeys(f"{one.versions} is bad" for one in bad)
    return "; ".join((_short(worst), *older))


def _short(verdict: Verdict) -> str:
    return verdict.short or verdict.why.partition(". ")[0].rstrip(".")


def _shortened(text: str, width: int) -> str:
    return shorten(text, max(width, _LEAST_WHY), placeholder=" …")


def _evidence(catalog: Catalog, wanted: Wanted, width: int) -> list[str]:
    """Newest branch first; branches that do not fit last, one line each."""
    gpus = wanted.gpus
    lines = [line for gpu in gpus for line in _card(gpu)]
    unfit: list[str] = []
    for branch in reversed(catalog.drivers):
        if unfit_for := _unfit(branch, wanted):
            unfit.append(f"{branch.branch:<5} unsupported  {unfit_for}")
            continue
        flavors = dict.fromkeys(flavor for gpu in gpus for flavor in runs_on(branch, gpu).flavors)
        modules = f", {' or '.join(flavors)} modules" if flavors else ""
        lines += ["", styled(branch.branch, bold=True) + f"  {_about(branch)}{modules}"]
        verdicts = [v for v in branch.verdicts if not gpus or any(concerns(v, g) for g in gpus)]
        for verdict in verdicts:
            lines += _verdict(verdict, branch, width)
        if not verdicts:
            lines.append(MARGIN + styled("unknown", dim=True) + "  no reports")
    return [*lines[0 if gpus else 1 :], *([""] if unfit else []), *unfit]


def _card(gpu: DrivenGpu) -> Iterator[str]:
    last = f"last branch {gpu.last_branch}" if gpu.last_branch else "still supported"
    if isinstance(gpu, UnlistedGpu):
        yield styled(gpu.name, bold=True) + f"  {gpu.architecture}, not in the catalog, {last}"
        return
    limits = f" ({gpu.watts_min} to {gpu.watts_max} W)" if gpu.watts_min and gpu.watts_max else ""
    yield styled(gpu.name, bold=True) + (
        f"  {gpu.architecture}, {gpu.memory_gib} GiB, {gpu.watts_default} W{limits}, {last}"
    )


def _peers(gpus: Sequence[DrivenGpu], width: int, *, in_full: bool) -> Iterator[str]:
    """What P2P two such cards have: by the stock driver, by modules of one's own, by NVLink."""
    most = None if in_full else 1
    listed = [gpu for gpu in gpus if not isinstance(gpu, UnlistedGpu)]
    by_text = grouped(listed, lambda gpu: (gpu.p2p_why, gpu.p2p_own, gpu.nvlink_gb_per_s))
    for (why, own, rate), same in by_text.items():
        name = f" ({same[0].name})" if len(by_text) > 1 else ""
        yield from wrapped(f"P2P{name}: {why}", width, "  ", hanging="  ", most=most)
        if own:
            yield from wrapped(f"own modules: {own}", width, "    ", hanging="  ", most=most)
        if rate:
            yield f"    NVLink: {rate:g} GB/s one way, all links together"


def _about(branch: DriverBranch) -> str:
    parts = [branch.kind, f"CUDA {branch.cuda}" if branch.cuda else ""]
    if branch.end_of_life:
        parts.append(f"end of life {branch.end_of_life}".replace("life ended", "life reached"))
    if branch.releases:
        newest = branch.releases[-1]
        parts.append(f"newest {newest.version}" + (f" of {newest.date}" if newest.date else ""))
    return ", ".join(part for part in parts if part)


def _verdict(verdict: Verdict, branch: DriverBranch, width: int) -> Iterator[str]:
    status = styled(f"{verdict.status:<10}", fg=_COLORS[verdict.status])
    cards = "every card" if verdict.gpus == ("*",) else ", ".join(verdict.gpus)
    purpose = "" if verdict.purpose == "any" else f", for {verdict.purpose}"
    since = f", known since {verdict.since}" if verdict.since else ""
    yield f"{MARGIN}{status} {_scope(verdict, branch)}: {cards}{purpose}{since}"
    yield from wrapped(verdict.why, width, MARGIN * 2)
    for evidence in verdict.evidence:
        yield from wrapped(f"- {evidence}", width, MARGIN * 2, hanging="  ")


def _scope(verdict: Verdict, branch: DriverBranch) -> str:
    if not verdict.versions:
        return "every version"
    listed = [
        release.version
        for release in branch.releases
        if versions.matches(verdict.versions, versions.parse(release.version))
    ]
    return listed[0] if len(listed) == 1 else verdict.versions
