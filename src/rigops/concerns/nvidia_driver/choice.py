"""Which driver a probed host could have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache
from typing import TYPE_CHECKING

from rigops.concerns.nvidia_driver import from_bundle
from rigops.concerns.nvidia_driver.resolver.options import choose

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.concerns.nvidia_driver.resolver.options import Choice
    from rigops.inventory.spec import RigSpec
    from rigops.probe.bundle import Bundle
    from rigops.record.lockfile import LockedHost


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
