"""Faults of a host that is as declared, because their fixes are not declared."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rigops.catalog import load_once
from rigops.concerns.concern import HostRequest
from rigops.converge.connector import HostChannel
from rigops.probe.collect import ProbeError, collect
from rigops.probe.snapshot import HostSnapshot
from rigops.transport import TransportError


def unfixed_checks(channel: HostChannel, request: HostRequest) -> tuple[str, ...]:
    """The checks of doctor that find them; none where the host did not answer."""
    from rigops.doctor.registry import CHECKS, examine, sections_for  # noqa: PLC0415 - heavy

    checks = [one for one in CHECKS if one.is_for_apply]
    with suppress(TransportError, ProbeError):
        sections = sections_for(checks)
        found = collect(channel.connection, sections, host=request.name, as_root=channel.privilege)
        catalog = load_once(Path(request.spec.catalog) if request.spec.catalog else None)
        findings = examine(HostSnapshot(found.bundle), request.spec, catalog, checks=checks)
        faults = (one for one in findings if one.fix and not one.fix.is_declared)
        return tuple(dict.fromkeys(one.id for one in faults if one.status in {"fail", "warn"}))
    return ()
