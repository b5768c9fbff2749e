"""The catalog of drivers as rows, for `rigops drivers`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rigops.catalog import versions
from rigops.catalog.lookup import WORST_FIRST, concerns, runs_on
from rigops.catalog.model import EVERY_CARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import DriverBranch, Evidence, Gpu, Purpose, RowStatus, Verdict

_NO_REPORT = "No reports, good or bad."


@dataclass(frozen=True)
class DriverRow:
    branch: str
    version: str | None  # None: the branch as a whole
    status: RowStatus
    gpus: tuple[str, ...]
    purpose: Purpose
    since: str
    why: str
    evidence: tuple[Evidence, ...]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def driver_rows(catalog: Catalog, gpu: Gpu | None = None) -> list[DriverRow]:
    """Return a row for each version and verdict, after those of the branch as a whole."""
    return [row for branch in catalog.drivers for row in _rows(branch, gpu)]


def _rows(branch: DriverBranch, gpu: Gpu | None) -> Iterator[DriverRow]:
    if gpu is not None and not (support := runs_on(branch, gpu)):
        yield _bare(branch, None, "unsupported", (gpu.name,), support.reason)
        return
    verdicts = sorted(
        (verdict for verdict in branch.verdicts if concerns(verdict, gpu)),
        key=lambda verdict: WORST_FIRST.index(verdict.status),
    )
    cards = (gpu.name,) if gpu else (EVERY_CARD,)
    for_all = [verdict for verdict in verdicts if _is_branch_level(verdict, branch)]
    yield from (_judged(branch, None, verdict) for verdict in for_all)
    if not for_all:
        yield _bare(branch, None, "unknown", cards, _NO_REPORT)
    for release in branch.releases:
        version = versions.parse(release.version)
        applying = [one for one in verdicts if versions.matches(one.versions, version)]
        yield from (_judged(branch, release.version, verdict) for verdict in applying)
        if not applying:
            yield _bare(branch, release.version, "unknown", cards, _NO_REPORT)


def _is_branch_level(verdict: Verdict, branch: DriverBranch) -> bool:
    """Hold for whole-branch verdicts, and for those on versions that have no row of their own."""
    return not verdict.versions or not any(
        versions.matches(verdict.versions, versions.parse(release.version))
        for release in branch.releases
    )


def _judged(branch: DriverBranch, version: str | None, verdict: Verdict) -> DriverRow:
    named = version or not verdict.versions
    return DriverRow(
        branch=branch.branch,
        version=version,
        status=verdict.status,
        gpus=verdict.gpus,
        purpose=verdict.purpose,
        since=verdict.since,
        why=verdict.why if named else f"{verdict.versions}: {verdict.why}",
        evidence=verdict.evidence,
    )


def _bare(
    branch: DriverBranch, version: str | None, status: RowStatus, gpus: tuple[str, ...], why: str
) -> DriverRow:
    return DriverRow(
        branch=branch.branch,
        version=version,
        status=status,
        gpus=gpus,
        purpose="any",
        since="",
        why=why,
        evidence=branch.evidence,
    )
