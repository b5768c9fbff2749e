"""Runs one concern on the host of pyinfra's context, for rigops and for plain pyinfra."""

from __future__ import annotations

from pyinfra.context import host

from rigops.concerns.record_rebuilt import record_rebuilt
from rigops.concerns.registry import concern, read
from rigops.plan.context import provide


def deploy(name: str) -> None:
    run = concern(name).deploy
    if run is not None:
        spec = read(host.data.dict())
        provide(host, spec)
        record_rebuilt(name="Ownership record")
        run(spec)
