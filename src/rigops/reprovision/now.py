"""A host as capture describes it now, to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.capture import controller
from rigops.capture.controller import Passphrase
from rigops.capture.describe import describe
from rigops.capture.flow import probe_whole
from rigops.capture.subject import Subject
from rigops.doctor.examined import Examined
from rigops.errors import REPORT_IT, HostError, Problem, RigopsError
from rigops.hosts.access import Chosen
from rigops.probe.sections.nvidia_version import SECTION as DRIVER
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.snapshot import HostSnapshot
from rigops.record import journal, lockfile
from rigops.reprovision.driver_packages import with_installed, with_loaded

if TYPE_CHECKING:
    from rigops.capture.document import Capture
    from rigops.catalog import Catalog
    from rigops.concerns.concern import HostRequest
    from rigops.hosts.access import HostAccess
    from rigops.hosts.parallel import Console
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
        raise RigopsError(Problem(message=error.message, fix=error.fix, host=request.name))
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
