"""Which host keys are trusted: those that are known, and those that a person has accepted."""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable
from typing import Final

from rigops.dataclass import dataclass
from rigops.transport.clock import Clock
from rigops.transport.errors import TransportError
from rigops.transport.key_files import KnownKey, append, fingerprint, lookup
from rigops.transport.route import Server

_LOG: Final = logging.getLogger("rigops.transport")
_ONE_QUESTION: Final = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class UnknownKey:
    """An unknown host key, for a person to judge."""

    host: str
    address: str
    key_type: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class HostKeyPolicy:
    """Known keys only, apart from these fingerprints and those that `ask` returns True for."""

    accept: frozenset[str] = frozenset()
    ask: Callable[[UnknownKey], bool] | None = None

    def accepts(self, seen: str) -> bool:
        return any(entry.strip().rstrip("=") == seen for entry in self.accept)


class HostKeys:
    """The known keys of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._read()

    def _read(self) -> None:
        server = self.server
        bare = server.hostname.lower()
        names = [server.lookup] if server.known_as else [server.lookup, bare]
        found = lookup(server.known_hosts, dict.fromkeys(names))
        ours = [key for key in found if key.name == server.lookup.lower()]
        self.plain = [key for key in ours if not key.marker]
        self.authorities = [key for key in ours if key.marker == "cert-authority"]
        self.revoked = [key for key in found if key.marker == "revoked"]
        # Like OpenSSH: a key known for the host at the usual port will do, but is no contradiction.
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
        """Return if this key may be trusted; a newly accepted one is written to known_hosts."""
        server, seen = self.server, fingerprint(blob)
        for key in self.revoked:
            if key.blob == blob:
                raise TransportError(
                    "key_changed",
                    f"{server.who}: the {key_type} host key {seen} is marked @revoked in "
                    f"{key.file}:{key.line}",
                    host=server.name,
                    fix="do not log in; install a new host key on the host",
                    value=seen,
                )
        if self.is_known(blob):
            return
        if self.plain:
            old = next((key for key in self.plain if key.key_type == key_type), self.plain[0])
            raise changed_key(server, f"{key_type} {seen}", seen, old)
        # Until the answer is written to the file, no second question about the same key is asked.
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

    def _write(self, key_type: str, blob: bytes) -> None:
        server = self.server
        if not server.known_hosts:
            return
        try:
            append(
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
        f"{server.who}: unknown {key_type} host key {seen}",
        host=server.name,
        fix=f"compare it with the console of the host, then pass --accept-host-key {seen}",
        value=seen,
    )


def changed_key(server: Server, now: str, seen: str | None, old: KnownKey) -> TransportError:
    command = f"ssh-keygen -R {shlex.quote(server.lookup)} -f {shlex.quote(str(old.file))}"
    return TransportError(
        "key_changed",
        f"{server.who}: HOST KEY CHANGED: the server shows {now}, but {old.file}:{old.line} has "
        f"{old.key_type} {fingerprint(old.blob)}: the host was reinstalled, or the connection "
        f"is intercepted",
        host=server.name,
        fix=f"if the host was reinstalled: {command}",
        value=seen,
    )
