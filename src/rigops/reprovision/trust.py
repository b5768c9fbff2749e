"""Stage trust: the host key of the reinstalled host, before anything else is sent to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from rigops.dataclass import dataclass
from rigops.transport import HostKey, HostKeyPolicy, Server, Target, TransportError, fetch_shown_key
from rigops.transport.host_keys import HostKeys
from rigops.transport.key_files import KnownKey, fingerprint
from rigops.transport.known_hosts import replace_key

KeyState = Literal["known", "captured", "changed", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Introduction:
    """The key that a host shows, against the one that it had.

    `captured`: fingerprints of the captured host. `state` captured: it is one of these, which were
    trusted then.
    """

    server: Server
    shown: HostKey
    state: KeyState
    known: KnownKey | None = None
    captured: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.shown.blob)


def introduce(target: Target, captured: Collection[str], jump_keys: HostKeyPolicy) -> Introduction:
    """Connects as far as the key exchange. `jump_keys`: for jump hosts alone."""
    server, shown = fetch_shown_key(target, host_keys=jump_keys)
    keys, seen = HostKeys(server), fingerprint(shown.blob)
    for key in keys.revoked:
        if key.blob == shown.blob:
            raise TransportError(
                "key_changed",
                f"{server.who}: the {shown.key_type} host key {seen} is marked @revoked in "
                f"{key.file}:{key.line}",
                host=server.name,
                fix="do not log in; install a new host key on the host",
                value=seen,
            )
    same_type = [one for one in keys.plain if one.key_type == shown.key_type]
    old = next(iter(same_type or keys.plain), None)
    state: KeyState = "unknown" if old is None else "changed"
    if keys.is_known(shown.blob):
        state = "known"
    elif seen in captured:
        state = "captured"
    return Introduction(
        server=server, shown=shown, state=state, known=old, captured=tuple(captured)
    )


def accept(found: Introduction) -> list[str]:
    """From now on this key is the only one that the host may show.

    Returns lines of files that cannot be written and still have the old one.
    """
    return replace_key(found.server, found.shown)


def not_accepted(found: Introduction, why: str) -> TransportError:
    server, seen = found.server, found.fingerprint
    was = f", known is {fingerprint(found.known.blob)}" if found.known else ""
    return TransportError(
        "key_changed" if found.known else "key_unknown",
        f"{server.who}: it shows the {found.shown.key_type} host key {seen}{was}; {why}",
        host=server.name,
        fix=f"compare it with the console of the host, then pass --accept-host-key {seen}",
        value=seen,
    )
