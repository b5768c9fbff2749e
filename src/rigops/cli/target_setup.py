"""Prints what lets a host's key in on the server that its snapshots are sent to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.cli.options import read_inventory
from rigops.concerns.snapshots.decide import is_remote, server_path, target_setup
from rigops.concerns.snapshots.record import PUBLIC_KEY
from rigops.errors import Problem, RigopsError, usage_error
from rigops.hostside.packing import pack
from rigops.transport import Target

if TYPE_CHECKING:
    from rigops.hosts.access import HostAccess

_READ_S: Final = 30.0


def setup_script(name: str, inventory_path: Path | None, access: HostAccess) -> str:
    """For the server's shell."""
    host = read_inventory(inventory_path).require(name)
    declared = host.spec.snapshots
    send_to = declared.send_to if declared else None
    if send_to is None or not is_remote(send_to):
        raise usage_error(
            message="the snapshots of this host are not sent to a server",
            host=name,
            key="snapshots",
            fix='declare "send_to": "root@server:/path" in it',
        )
    with access.open(Target.from_host_data(name, host.data)) as (connection, privilege):
        done = connection.run(["cat", PUBLIC_KEY], privilege=privilege, deadline_s=_READ_S)
    key = done.stdout.decode(errors="replace").strip()
    if done.exit_code != 0 or len(key.split()) < 2:  # noqa: PLR2004 - its kind and the key
        raise RigopsError(
            Problem(
                message=f"{PUBLIC_KEY} cannot be read there",
                host=name,
                fix=f"rigops apply --limit {name} makes the key; log in as root, or allow sudo",
            )
        )
    return target_setup(key, server_path(send_to)[1], pack("snapshots").text)
