"""A rollback of the configuration: applies what was declared before, and worked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.concerns import registry
from rigops.errors import Problem, RigopsError
from rigops.json_fields import readable
from rigops.python_literal import literal
from rigops.record import declared
from rigops.record.declared import DeclaredKeys
from rigops.transport import connect

if TYPE_CHECKING:
    from rigops.concerns.concern import HostRequest
    from rigops.hosts.access import HostAccess

_READ_S: Final = 30.0
_DRIVER: Final = "nvidia_driver"


def earlier_request(request: HostRequest, access: HostAccess) -> HostRequest:
    """With the keys that were declared before; those of the driver stay as in the inventory."""
    with connect(request.target, host_keys=access.host_keys) as connection:
        done = connection.run(["cat", declared.PATH], deadline_s=_READ_S)
    record = readable(DeclaredKeys.from_json, done.stdout.decode(errors="replace"))
    if record is None or record.before is None:
        raise RigopsError(
            Problem(
                message="no earlier configuration that worked is recorded there",
                host=request.name,
                fix="change the inventory, and apply it; the next apply that works is recorded",
            )
        )
    stays = {name: value for name, value in request.data.items() if not _goes_back(name)}
    data = {**stays, **{name: v for name, v in record.before.items() if _goes_back(name)}}
    return replace(request, data=data, spec=registry.read(data))


def lines_to_change(inventory: Mapping[str, object], earlier: HostRequest) -> Iterator[str]:
    """Of the inventory, which still has what was gone back from."""
    for name in sorted({*inventory, *earlier.data}):
        if not _goes_back(name) or inventory.get(name) == earlier.data.get(name):
            continue
        if name in earlier.data:
            yield f"write {literal(name)}: {literal(earlier.data[name])}, in the inventory"
        else:
            yield f"remove {literal(name)} from the inventory"


def _goes_back(name: str) -> bool:
    key = registry.keys().get(name)
    return key is not None and not key.stays_here and registry.concern_of(name) != _DRIVER
