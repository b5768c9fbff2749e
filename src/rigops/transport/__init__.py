"""The only place that opens SSH connections.

`connect(target, host_keys=HostKeyPolicy())` gives a Connection to a host over SSH, or to this
machine for `LOCAL`. Nothing heavy is imported before a connection is opened.
"""

from __future__ import annotations

from rigops.transport.clock import Clock
from rigops.transport.connection import Connection
from rigops.transport.errors import NeedsProgramError, TransportError
from rigops.transport.holding import Holding
from rigops.transport.host_keys import HostKeyPolicy, UnknownKey
from rigops.transport.known_hosts import HostKey
from rigops.transport.privilege import Privilege
from rigops.transport.result import Result, ScriptResult
from rigops.transport.route import Server, resolve
from rigops.transport.sudo_password import with_password
from rigops.transport.target import LOCAL, Target

__all__ = [
    "LOCAL",
    "Connection",
    "Holding",
    "HostKey",
    "HostKeyPolicy",
    "Privilege",
    "Result",
    "ScriptResult",
    "Server",
    "Target",
    "TransportError",
    "UnknownKey",
    "connect",
    "fetch_shown_key",
    "import_ssh",
    "with_password",
]


def import_ssh() -> None:
    """For callers that can do it while others work: paramiko takes as long as a login."""
    import rigops.transport.without_invoke  # noqa: F401, PLC0415 - imported early, by one thread
    from rigops.transport import ssh  # noqa: F401, PLC0415 - imported early, by one thread


def connect(target: Target, *, deadline_s: float = 20, host_keys: HostKeyPolicy) -> Connection:
    """Log in by paramiko; by the `ssh` program where only OpenSSH can do what is configured.

    Such are security keys, ProxyCommand and host certificates.
    """
    if target.local:
        from rigops.transport.local import LocalConnection  # noqa: PLC0415 - opened only if asked

        return LocalConnection()
    clock = Clock(deadline_s)
    route = resolve(target, clock)
    reason = route.only_openssh
    if not reason:
        import_ssh()
        from rigops.transport.ssh import open_ssh  # noqa: PLC0415 - as there

        try:
            return open_ssh(route, host_keys, clock)
        except NeedsProgramError as need:
            reason = str(need)
    from rigops.transport.ssh_program import open_program  # noqa: PLC0415 - seldom needed

    return open_program(route, host_keys, clock, reason)


def fetch_shown_key(target: Target, *, host_keys: HostKeyPolicy) -> tuple[Server, HostKey]:
    """The key that the server shows now. Only jump hosts before it get a login.

    `host_keys`: for those.
    """
    clock = Clock(20)
    route = resolve(target, clock)
    if not route.only_openssh:
        import_ssh()
        from rigops.transport import ssh  # noqa: PLC0415 - as there

        try:
            return route.end, ssh.fetch_shown_key(route, host_keys, clock)
        except NeedsProgramError:
            pass
    from rigops.transport import ssh_program  # noqa: PLC0415 - seldom needed

    return route.end, ssh_program.fetch_shown_key(route, host_keys, clock)
