"""A check: a pure function with an id, a title and an explanation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, field, replace
from inspect import cleandoc
from typing import Any

from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, FixKind
from rigops.probe.section import Section

Run = Callable[[Examined], "Finding | list[Finding]"]


@dataclass(frozen=True)
class Check:
    """A decorator that makes a check of a function: its docstring is the title and explanation.

    `needs` are the sections that it looks into. With `needs_gpu` it is skipped where there is no
    card, and may count cards too. `fixes` are the kinds of fix that its findings may have. It is
    essential always, or where one of `keys` is declared: then it must be possible to judge.
    `cause_rank`: of findings of one status those with the lower rank come first, so that a cause
    is above what it brings about: below 1000 it explains others, above it others explain it.
    """

    id: str
    _: KW_ONLY
    needs: tuple[Section[Any], ...] = ()
    needs_gpu: bool = True
    fixes: tuple[FixKind, ...] = ()
    keys: frozenset[str] = frozenset()
    essential: bool = False
    cause_rank: int = 1000
    run: Run = field(default=lambda _: [])

    def __call__(self, run: Run) -> Check:
        return replace(self, run=run)

    @property
    def title(self) -> str:
        return cleandoc(self.run.__doc__ or "").partition("\n")[0].removesuffix(".")

    @property
    def explanation(self) -> str:
        return " ".join(cleandoc(self.run.__doc__ or "").partition("\n")[2].split())

    @property
    def is_for_apply(self) -> bool:
        """Whether apply can fix what it finds."""
        return any("apply" in kind for kind in self.fixes)

    @property
    def sections(self) -> tuple[Section[Any], ...]:
        """All that it may look into."""
        return (*views.COUNTS_CARDS, *self.needs) if self.needs_gpu else self.needs

    def findings(self, examined: Examined) -> list[Finding]:
        if self.needs_gpu and views.has_no_gpu(examined):
            return [Finding("skipped", views.NO_GPU, id=self.id)]
        found = self.run(examined)
        several = [found] if isinstance(found, Finding) else found
        return [replace(finding, id=self.id) for finding in several]
