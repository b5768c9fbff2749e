"""Words for findings that one cause explains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rigops.doctor.finding import HOST, UNKNOWN_CARD, Finding
from rigops.report.words import grouped

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostReport
    from rigops.doctor.stories import Story

GPU: Final = "gpu "


def short(subject: str) -> str:
    return subject.removeprefix(GPU).removeprefix("0000:")


class Told:
    """What explains the findings of a host, and what they explain."""

    def __init__(self, host: HostReport) -> None:
        cards = host.facts.get("gpus")
        self._host = host
        self._in_all = len(cards) if isinstance(cards, list) else 0
        self._of_cause: dict[object, list[Story]] = {}
        self._of_effect: dict[object, list[Story]] = {}
        for story in host.stories:
            self._of_cause.setdefault(_mark(host.findings[story.cause]), []).append(story)
            for at in story.effects:
                self._of_effect.setdefault(_mark(host.findings[at]), []).append(story)

    def stories(self, causes: Iterable[Finding]) -> list[Story]:
        return [story for one in causes for story in self._of_cause.get(_mark(one), ())]

    def explained(self, causes: Sequence[Finding]) -> str:
        """The effects by id, with what the causes' lines do not say: cards, a worse status."""
        places = dict.fromkeys(at for story in self.stories(causes) for at in story.effects)
        effects = [self._host.findings[at] for at in places]
        return ", ".join(self._labels(causes, effects))

    def causes(self, effects: Iterable[Finding]) -> str:
        stories = (story for one in effects for story in self._of_effect.get(_mark(one), ()))
        return ", ".join(dict.fromkeys(self._host.findings[one.cause].id for one in stories))

    def _labels(self, causes: Sequence[Finding], effects: Iterable[Finding]) -> Iterator[str]:
        graver = {"fail"} - {one.status for one in causes}
        known = {one.subject for one in causes} | {HOST, UNKNOWN_CARD}
        for (label, status), alike in grouped(
            effects, lambda one: (_label(one), one.status)
        ).items():
            others = dict.fromkeys(one.subject for one in alike if one.subject not in known)
            gpus = [short(one) for one in others if one.startswith(GPU)]
            named = (
                f"{len(gpus)} GPUs" if 1 < len(gpus) == self._in_all else f"GPU {', '.join(gpus)}"
            )
            details = [*graver & {status}, *([named] if gpus else [])]
            details += [one for one in others if not one.startswith(GPU)]
            yield f"{label} ({', '.join(details)})" if details else label


def _mark(finding: Finding) -> object:
    """Also of one whose summary has been folded with others."""
    return finding.id, finding.status, finding.subject, finding.evidence


def _label(finding: Finding) -> str:
    return f"xid {finding.data['xid']}" if "xid" in finding.data else finding.id
