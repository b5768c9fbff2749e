"""The fix for a unit of rigops that does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor.finding import Fix, fix_by_hand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.probe.sections.rigops_state import OwnedUnit


def start(
    name: str,
    unit: OwnedUnit | None,
    concern: str,
    declare: Mapping[str, object] | None = None,
) -> Fix:
    """Plan starts it too, unless it is masked."""
    if unit is not None and unit.enabled == "masked":
        return fix_by_hand(f"sudo systemctl unmask {name}")
    text = "`rigops apply` installs and starts it"
    return Fix(kind="apply", concern=concern, declare=declare, is_declared=True, text=text)
