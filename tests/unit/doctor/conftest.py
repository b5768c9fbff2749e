"""Every check that a test runs here keeps to the sections and kinds of fix that it declares."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from rigops.doctor.finding import Finding
from rigops.doctor.registry import CHECKS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH
from rigops.probe.sections.p2p_bandwidth_test import SECTION as P2P_TEST
from rigops.probe.snapshot import HostSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.doctor.check import Check
    from rigops.doctor.examined import Examined
    from rigops.probe.section import Section
    from rigops.probe.snapshot import Answer


# Where they are there, and they are not asked for that.
_NAME_CARDS_TOO = (KERNEL_LOG, NVBANDWIDTH, P2P_TEST)


class _Watched(HostSnapshot):
    """Remembers which sections were looked into."""

    @property
    def seen(self) -> set[str]:
        found: set[str] = self.__dict__.setdefault("seen_names", set())
        return found

    def __getitem__(self, section: Section[Any]) -> Answer[Any]:
        self.seen.add(section.name)
        return super().__getitem__(section)


def _watched(check: Check) -> Callable[[Examined], list[Finding]]:
    run = check.run

    @wraps(run)
    def watched(examined: Examined) -> list[Finding]:
        snapshot = _Watched(examined.snapshot.bundle, examined.snapshot.answers)
        found = run(replace(examined, snapshot=snapshot))
        several = [found] if isinstance(found, Finding) else found
        if isinstance(examined.snapshot, _Watched):  # one check asks another
            examined.snapshot.seen.update(snapshot.seen)
        known = {section.name for section in (*check.sections, *_NAME_CARDS_TOO)}
        undeclared = snapshot.seen - known
        assert not undeclared, f"{check.id} does not say that it needs {sorted(undeclared)}"
        for one in several:
            assert one.fix is None or one.fix.kind in check.fixes, one
        return several

    return watched


for _check in CHECKS:
    object.__setattr__(_check, "run", _watched(_check))
