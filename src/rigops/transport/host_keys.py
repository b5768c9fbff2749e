"""Which host keys are trusted: those that are known, and those that a person has accepted."""

from __future__ import annotations

import logging
import shlex
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.transport import known_hosts
from rigops.transport.errors import TransportError
from rigops.transport.known_hosts import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.transport.clock import Clock
    from rigops.transport.known_hosts import KnownKey
    from rigops.transport.route import Server

__all__ = ["HostKeyPolicy", "HostKeys", "UnknownKey", "fingerprint"]

_LOG: Final = logging.getLogger("rigops.transport")
_ONE_QUESTION: Final = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class UnknownKey:
    """A host key that nothing is known about, for a person to judge."""

    host: str
    address: str
    key_type: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class HostKeyPolicy:
    """Known keys only, apart from these fingerprints and what `ask` says yes to."""

    accept: frozenset[str] = frozenset()
    ask: Callable[[UnknownKey], bool] | None = None

    def accepts(self, seen: str) -> bool:
        return any(entry.strip().rstrip("=") == seen for entry in self.accept)


class HostKeys:
    """What is known of one server's keys."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._read()

    def _read(self) -> None:
        server = self.server
        bare = server.hostname.lower()
        names = [server.lookup] if server.known_as else [server.lookup, bare]
        found = known_hosts.lookup(server.known_hosts, dict.fromkeys(names))
        ours = [key for key in found if key.name == server.lookup.lower()]
        self.plain = [key for key in ours if not key.marker]
        self.authorities = [key for key in ours if key.marker == "cert-authority"]
        self.revoked = [key for key in found if key.marker == "revoked"]
        # As OpenSSH: a key known for the host at the usual port will do, but is no contradiction.
        self.without_port = [key for key in found if not key.marker and key not in ours]

    @property
    def types(self) -> list[str]:
        """Known types first: a server must not be asked for another key than the known one."""
        return list(dict.fromkeys(key.key_type for key in self.plain + self.without_port))

    @property
    def only_authority(self) -> bool:
        return bool(self.authorities) and not self.plain

    def is_known(self, blob: bytes) -> bool:
        return any(key.blob == blob for key in self.plain + self.without_port)

    def settle(self, key_type: str, blob: bytes, policy: HostKeyPolicy, clock: Clock) -> None:
        """Return if this key may be trusted, having written it down if that is new."""
        self._refuse_revoked(key_type, blob)
        if self.is_known(blob):
            return
        if self.plain:
            raise self._changed(key_type, blob)
        server, seen = self.server, fingerprint(blob)
        # Until an answer is written down, nobody else may be asked about the same key.
        with clock.stopped(), _ONE_QUESTION:
            self._read()
            if self.is_known(blob):
                return
            unknown = UnknownKey(
                host=server.name, address=server.lookup, key_type=key_type, fingerprint=seen
            )
            if not policy.accepts(seen) and (policy.ask is None or not policy.ask(unknown)):
                raise unknown_key(server, key_type, seen)
            self._write(key_type, blob)

    def _refuse_revoked(self, key_type: str, blob: bytes) -> None:
        for key in self.revoked:
            if key.blob == blob:
                raise TransportError(
                    "key_changed",
                    f"{self.server.who}: its {key_type} host key {fingerprint(blob)} is marked "
                    f"@revoked in {key.file}:{key.line}",
                    host=self.server.name,
                    fix="do not log in there; install a new host key on that machine",
                    value=fingerprint(blob),
                )

    def _changed(self, key_type: str, blob: bytes) -> TransportError:
        old = next((key for key in self.plain if key.key_type == key_type), self.plain[0])
        return changed_key(self.server, f"{key_type} {fingerprint(blob)}", fingerprint(blob), old)

    def _write(self, key_type: str, blob: bytes) -> None:
        server = self.server
        if not server.known_hosts:
            return
        try:
            known_hosts.append(
                server.known_hosts[0],
                server.lookup,
                key_type,
                blob,
                hashed=server.hash_known_hosts,
            )
        except OSError as error:
            _LOG.warning(
                "the accepted key of %s could not be written to %s: %s",
                server.name,
                server.known_hosts[0],
                error.strerror,
            )
        else:
            self._read()


def unknown_key(server: Server, key_type: str, seen: str) -> TransportError:
    return TransportError(
        "key_unknown",
        f"{server.who}: its {key_type} host key {seen} is not known",
        host=server.name,
        fix=f"compare the fingerprint on the machine itself, then: "
        f"rigops … --accept-host-key {seen}",
        value=seen,
    )


def changed_key(server: Server, now: str, seen: str | None, old: KnownKey) -> TransportError:
    command = f"ssh-keygen -R {shlex.quote(server.lookup)} -f {shlex.quote(str(old.file))}"
    return TransportError(
        "key_changed",
        f"{server.who}: HOST KEY CHANGED: it shows {now}, but {old.file}:{old.line} has "
        f"{old.key_type} {fingerprint(old.blob)}; either the machine was reinstalled or "
        f"somebody is in between",
        host=server.name,
        fix=f"if you know that it was reinstalled: {command}",
        value=seen,
    )
