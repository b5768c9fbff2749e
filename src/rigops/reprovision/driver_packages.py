"""The driver and the packages that a host really has: the lockfile says what it should have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.probe.package_names import RUN_FILE, is_driver

if TYPE_CHECKING:
    from rigops.capture.document import Capture
    from rigops.probe.sections.nvidia_version import NvidiaVersion
    from rigops.probe.sections.packages import Packages
    from rigops.probe.snapshot import Answer


def with_loaded(now: Capture, loaded: Answer[NvidiaVersion]) -> Capture:
    """Without a driver where none is loaded."""
    is_absent = loaded.is_complete and not (loaded.value and loaded.value.is_loaded)
    return replace(now, driver=None) if is_absent else now


def with_installed(now: Capture, packages: Packages | None) -> Capture:
    """Where packages were not collected, nothing is left out."""
    if now.driver is None or packages is None:
        return now
    installed = {(one.name, one.version) for one in packages.driver}
    return replace(
        now,
        driver=replace(
            now.driver,
            packages=tuple(
                one
                for one in now.driver.packages
                # The probe asks for no others.
                if (one.name, one.version) in installed
                or one.name == RUN_FILE
                or not is_driver(one.name)
            ),
        ),
    )
