"""A host as capture describes it, to be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.capture import controller
from rigops.capture.controller import Passphrase
from rigops.capture.describe import describe
from rigops.capture.subject import Subject
from rigops.cli.collected_hosts import ProbeOptions, all_sections, probe_hosts
from rigops.cli.failure import REPORT_IT
from rigops.cli.hosts import Chosen, host_catalog
from rigops.cli.options import default_inventory
from rigops.doctor.examined import Examined
from rigops.errors import HostError, Problem, RigopsError
from rigops.probe.sections.identity import SECTION as IDENTITY
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.snapshot import HostSnapshot
from rigops.record import journal, lockfile
from rigops.reprovision.driver_packages import with_installed
from rigops.transport import HostKeyPolicy

if TYPE_CHECKING:
    from rigops.capture.document import Capture
    from rigops.concerns.concern import HostRequest
    from rigops.vault.store import Store


def describe_now(
    request: HostRequest,
    store: Store,
    inventory_path: Path | None,
    *,
    login: str,
    sudo_password: str | None,
) -> Capture:
    """As capture describes a host; stored nowhere, since the capture before it stays.

    Of the proven driver's packages, those that are installed.
    """
    spec, target = request.spec, replace(request.target, user=login)
    chosen = Chosen(request.name, target, spec)
    probed = ProbeOptions(
        policy=HostKeyPolicy(),
        sudo_password=sudo_password,
        sections=lambda _: (*all_sections(), IDENTITY),
    )
    (collected,) = probe_hosts([chosen], probed, lambda one: (one, "examined"))
    if collected.bundle is None:
        error = collected.error or HostError("fault", "nothing was collected", REPORT_IT)
        raise RigopsError(Problem(message=error.message, fix=error.fix, host=request.name))
    catalog = host_catalog(spec, inventory_path)
    known = lockfile.read(request.lock or lockfile.path_of(default_inventory())).hosts
    locked = known.get(request.name)
    pinned = locked.sets[0] if locked and locked.sets else None
    snapshot = HostSnapshot(collected.bundle)
    found = describe(
        Subject(
            host=request.name,
            examined=Examined(snapshot, spec, catalog),
            locked=locked,
            controller=controller.look(store, request.name, pinned, "", Passphrase()),
            at=collected.bundle.collected_at or journal.now(),
            login=login,
        )
    )
    return with_installed(found, snapshot[PACKAGES].value)
