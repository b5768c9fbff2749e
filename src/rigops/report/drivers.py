"""The catalog of drivers in lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.catalog import runs_on, versions
from rigops.catalog.lookup import concerns
from rigops.report.terminal import styled
from rigops.report.words import MARGIN, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.catalog import Catalog
    from rigops.catalog.model import DriverBranch, Gpu, Verdict

_COLORS = {"known-good": "green", "caution": "yellow", "bad": "red"}


def drivers_lines(catalog: Catalog, gpus: Sequence[Gpu], width: int) -> list[str]:
    """Newest branch first; branches that drive none of the cards last, one line each."""
    lines = [line for gpu in gpus for line in _card(gpu, width)]
    unfit: list[str] = []
    for branch in reversed(catalog.drivers):
        supports = [runs_on(branch, gpu) for gpu in gpus]
        if supports and not any(supports):
            unfit.append(f"{branch.branch:<5} unsupported  {supports[0].reason}")
            continue
        flavors = dict.fromkeys(flavor for one in supports for flavor in one.flavors)
        modules = f", {' or '.join(flavors)} modules" if flavors else ""
        lines += ["", styled(branch.branch, bold=True) + f"  {_about(branch)}{modules}"]
        verdicts = [v for v in branch.verdicts if not gpus or any(concerns(v, g) for g in gpus)]
        for verdict in verdicts:
            lines += _verdict(verdict, branch, width)
        if not verdicts:
            lines.append(MARGIN + styled("unknown", dim=True) + "  no reports")
    return [*lines[0 if gpus else 1 :], *([""] if unfit else []), *unfit]


def _card(gpu: Gpu, width: int) -> Iterator[str]:
    limits = f" ({gpu.watts_min} to {gpu.watts_max} W)" if gpu.watts_min and gpu.watts_max else ""
    last = f"last branch {gpu.last_branch}" if gpu.last_branch else "still supported"
    yield styled(gpu.name, bold=True) + (
        f"  {gpu.architecture}, {gpu.memory_gib} GiB, {gpu.watts_default} W{limits}, {last}"
    )
    yield from wrapped(f"P2P between two: {gpu.p2p}. {gpu.p2p_why}", width)


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
    since = f", since {verdict.since}" if verdict.since else ""
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
