"""The container toolkit: whether the declared version is installed, and held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.concerns.container_toolkit import NAME
from rigops.concerns.container_toolkit.concern import CONTAINER_TOOLKIT
from rigops.concerns.container_toolkit.state import CHECK
from rigops.doctor.check import Check
from rigops.doctor.finding import Finding
from rigops.doctor.views import declared
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined

_WHY: Final = (
    "Engines start the toolkit's programs for each new container, and versions differ in how they "
    "hand out cards: one that is not held changes with any upgrade of packages."
)


@Check(
    CHECK,
    needs=(PACKAGES, RIGOPS_STATE),
    needs_gpu=False,
    fixes=("apply", "hands"),
    keys=frozenset({NAME}),
)
def container_toolkit(examined: Examined) -> Finding:
    """The declared container toolkit is installed, and held.

    Compares `container_toolkit` with the four packages of the toolkit, as plan does: one of another
    version, one that is missing or one that is not held is a warning. It is skipped without a
    declaration.
    """
    found = declared.judge(examined, CONTAINER_TOOLKIT, CHECK)
    if found is None:
        return Finding("skipped", f"not declared: {NAME}")
    if found.fix is None or found.fix.kind != "apply":
        return found
    text = "`rigops apply` installs it and holds it"
    why = _WHY if found.status == "warn" else ""
    return replace(found, why=why, fix=replace(found.fix, text=text))
