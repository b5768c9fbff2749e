"""A host as capture describes it now: with the driver and the packages that it really has."""

from __future__ import annotations

from dataclasses import replace

from rigops.capture import controller
from rigops.capture.controller import Passphrase
from rigops.capture.describe import describe
from rigops.capture.document import Capture
from rigops.capture.flow import probe_whole
from rigops.capture.subject import Subject
from rigops.catalog import Catalog
from rigops.concerns.concern import HostRequest
from rigops.doctor.examined import Examined
from rigops.errors import REPORT_IT, HostError, rigops_error
from rigops.hosts.access import Chosen, HostAccess
from rigops.hosts.parallel import Console
from rigops.probe.package_names import RUN_FILE, is_driver
from rigops.probe.sections.nvidia_version import SECTION as DRIVER
from rigops.probe.sections.nvidia_version import NvidiaVersion
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.packages import Packages
from rigops.probe.snapshot import Answer, HostSnapshot
from rigops.record import journal, lockfile
from rigops.vault.store import Store


def describe_now(
    request: HostRequest, store: Store, catalog: Catalog, access: HostAccess, console: Console
) -> Capture:
    """As capture describes a host; stored nowhere, since the capture before it stays.

    Of the proven driver's packages, those that are installed.
    """
    chosen = Chosen(request.name, request.target, request.spec)
    (collected,) = probe_whole([chosen], access, console)
    if collected.bundle is None:
        error = collected.error or HostError("fault", "nothing was collected", REPORT_IT)
        raise rigops_error(message=error.message, fix=error.fix, host=request.name)
    known = lockfile.read(request.lock).hosts if request.lock else {}
    locked = known.get(request.name)
    pinned = locked.sets[0] if locked and locked.sets else None
    snapshot = HostSnapshot(collected.bundle)
    found = describe(
        Subject(
            host=request.name,
            examined=Examined(snapshot, request.spec, catalog),
            locked=locked,
            controller=controller.look(store, request.name, pinned, "", Passphrase()),
            at=collected.bundle.collected_at or journal.now(),
            login=request.target.user,
        )
    )
    return with_installed(with_loaded(found, snapshot[DRIVER]), snapshot[PACKAGES].value)


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
