"""Which driver a probed host could have, as `drivers --host`, doctor and init say it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache
from typing import TYPE_CHECKING, Any

from rigops.concerns.nvidia_driver import from_bundle
from rigops.concerns.nvidia_driver.resolver.options import choose

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.concerns.nvidia_driver.resolver.options import Choice
    from rigops.inventory.spec import RigSpec
    from rigops.probe.bundle import Bundle
    from rigops.probe.section import Section
    from rigops.record.lockfile import LockedHost


def unasked(bundle: Bundle, spec: RigSpec | None) -> tuple[Section[Any], ...]:
    """What a choice needs besides what was collected."""
    return tuple(one for one in from_bundle.sections(spec) if one.name not in bundle.sections)


def choice(
    bundle: Bundle, catalog: Catalog, spec: RigSpec | None, locked: LockedHost | None
) -> Choice:
    today = datetime.now(timezone.utc).date()
    return choose(from_bundle.driver_facts(bundle, catalog, spec, locked), today)


def chooser(
    bundle: Bundle, catalog: Catalog, spec: RigSpec | None, locked: LockedHost | None
) -> Callable[[], Choice | None]:
    """Nothing where the host did not answer all of it."""

    @cache
    def choose_driver() -> Choice | None:
        return None if from_bundle.missing(bundle) else choice(bundle, catalog, spec, locked)

    return choose_driver
