"""The container toolkit: known faults of its version, and whether it is the declared one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rigops.catalog import find_toolkit
from rigops.concerns.container_toolkit import NAME
from rigops.concerns.container_toolkit.concern import CONTAINER_TOOLKIT
from rigops.concerns.container_toolkit.state import CHECK
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, Fix
from rigops.doctor.views import declared
from rigops.doctor.views.container_engines import ADVISED, container_engines
from rigops.doctor.views.driver_packages import not_read
from rigops.probe.sections.container import SECTION as CONTAINER
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

_WHY: Final = (
    "Engines start the toolkit's programs for each new container, and versions differ in how they "
    "hand out cards: one that is not held changes with any upgrade of packages."
)


@Check(
    CHECK,
    needs=(CONTAINER, PACKAGES, RIGOPS_STATE),
    needs_gpu=False,
    fixes=("apply", "hands"),
    keys=frozenset({NAME}),
)
def container_toolkit(examined: Examined) -> Finding:
    """The container toolkit is of a version without known faults, and as declared.

    A version that the catalog knows to break containers is a warning, one that breaks some of them
    is information. Where `container_toolkit` is declared, its four packages are compared with it,
    as plan does: one of another version, one that is missing or one that is not held is a warning.
    """
    found = declared.judge(examined, CONTAINER_TOOLKIT, CHECK)
    if found is None:
        return _by_reports(examined)
    if found.fix is None or found.fix.kind != "apply":
        return found
    text = "`rigops apply` installs it and holds it"
    why = _WHY if found.status == "warn" else ""
    return replace(found, why=why, fix=replace(found.fix, text=text))


def _by_reports(examined: Examined) -> Finding:
    snapshot = examined.snapshot
    version = ".".join(map(str, container_engines(snapshot).toolkit))
    if not version:
        if snapshot[CONTAINER].is_exhaustive and not snapshot[CONTAINER].or_empty.tools:
            return Finding("skipped", "the NVIDIA container toolkit is not installed")
        return Finding("unknown", not_read(snapshot[CONTAINER], "the container toolkit"))
    known = find_toolkit(examined.catalog, version)
    if known is None:
        return Finding("ok", f"no report against container toolkit {version}")
    reports = "; ".join(map(str, known.evidence))
    return Finding(
        "warn" if known.status == "bad" else "info",
        f"container toolkit {version} is known to break containers",
        why=f"{known.why} Reported: {reports}.",
        fix=Fix(
            kind="apply",
            concern=NAME,
            declare={NAME: ADVISED},
            text=f'declare "container_toolkit": "{ADVISED}": no report is against it',
        ),
    )
