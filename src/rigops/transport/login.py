"""Login over a paramiko transport: agent keys, key files, password, in OpenSSH's order.

And the local agent, lent to sessions on the host.
"""

from __future__ import annotations

import os
import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import paramiko
from paramiko.agent import AgentKey, AgentSSH

from rigops.transport.clock import Clock, has_ended, start_thread
from rigops.transport.errors import NeedsProgramError, TransportError
from rigops.transport.key_files import Identity, fingerprint, read_identity
from rigops.transport.route import Server

_SPOKEN: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)


class Agent(AgentSSH):
    """The agent that this server's configuration names, which need not be SSH_AUTH_SOCK's."""

    def __init__(self, path: str | None, clock: Clock) -> None:
        super().__init__()
        self.trouble = ""
        if path is None:
            return
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(clock.wait() / 2)  # the other half is for key files
            link.connect(path)
            self._connect(link)  # type: ignore[attr-defined]  # as paramiko.Agent does; not in the stubs
            link.settimeout(clock.wait())  # a person may have to touch something
        except (OSError, paramiko.SSHException) as error:
            self.trouble = f"the ssh agent at {path} does not answer ({error})"
            link.close()

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]  # as above


class _CarefulKey(AgentKey):
    """An agent that refuses to sign costs this key, not the connection."""

    def sign_ssh_data(  # type: ignore[override]  # the stubs say Message; agents give bytes
        self, data: bytes, algorithm: str | None = None
    ) -> bytes:
        try:
            return cast("bytes", super().sign_ssh_data(data, algorithm))
        except (paramiko.SSHException, OSError):
            refused = paramiko.Message()
            refused.add_string(algorithm or self.name)
            refused.add_string(b"refused by the agent")
            return refused.asbytes()


class Login:
    """One attempt to log in to one server."""

    def __init__(self, transport: paramiko.Transport, server: Server, clock: Clock) -> None:
        self._transport = transport
        self._server = server
        self._clock = clock
        self._tried: list[str] = []
        self._notes: list[str] = []
        self._locked: list[Path] = []
        self._for_openssh: list[str] = []
        self._methods: tuple[str, ...] = ()

    def __call__(self) -> None:
        self._transport.auth_timeout = self._clock.wait() + 5  # the watch is the one that decides
        if self._ask_methods() or self._with_keys() or self._with_password():
            return
        if self._server.gssapi and "gssapi-with-mic" in self._methods:
            usual = Path(f"/tmp/krb5cc_{os.getuid()}")  # noqa: S108 - where Kerberos itself looks
            if os.environ.get("KRB5CCNAME") or usual.exists():
                self._for_openssh.append("there is a Kerberos ticket")
        if self._for_openssh:
            raise NeedsProgramError("; ".join(self._for_openssh))
        raise self.failure("refused the login")

    def _ask_methods(self) -> bool:
        try:
            self._transport.auth_none(self._server.user)
        except paramiko.BadAuthenticationType as refused:
            self._methods = tuple(refused.allowed_types)
            return False
        except paramiko.AuthenticationException:
            self._methods = ("publickey", "password", "keyboard-interactive")
            return False
        return self._transport.is_authenticated()

    def _with_keys(self) -> bool:
        if "publickey" not in self._methods or not self._server.publickey:
            return False
        agent = Agent(self._server.agent_socket, self._clock)
        try:
            if agent.trouble:
                self._notes.append(agent.trouble)
            return any(self._accepts(key, label) for key, label in self._keys(agent))
        finally:
            agent.close()

    def _keys(self, agent: Agent) -> Iterator[tuple[paramiko.PKey, str]]:
        identities = [
            identity for path in self._server.identities if (identity := read_identity(path))
        ]
        if self._server.only_identities and not identities:
            names = ", ".join(str(path) for path in self._server.identities)
            self._notes.append(f"there is no key file {names}")
        named = [identity.blob for identity in identities if identity.blob]
        held = {key.blob: key for key in agent.get_keys()}
        order = [blob for blob in named if blob in held]
        if not self._server.only_identities:
            order += [blob for blob in held if blob not in order]
        for blob in order:
            found = held[blob]
            label = f"{found.comment or found.name} {fingerprint(blob)} of the agent"
            if found.name in _SPOKEN:
                yield _CarefulKey(agent, blob, found.comment), label
            elif found.name.startswith("sk-") or "-cert-" in found.name:
                self._for_openssh.append(f"the agent has a {found.name} key")
        for identity in identities:
            if identity.private and (identity.blob is None or identity.blob not in held):
                yield from self._file_keys(identity)

    def _file_keys(self, identity: Identity) -> Iterator[tuple[paramiko.PKey, str]]:
        path = identity.path
        if identity.is_security_key:
            self._for_openssh.append(f"{path} is a security key ({identity.key_type})")
            return
        if identity.locked and self._server.key_password is None:
            self._locked.append(path)
            return
        certificate = path.with_name(path.name + "-cert.pub")
        if certificate.is_file() and (key := self._load(identity)):
            with suppress(Exception):  # a certificate that cannot be read leaves the plain key
                key.load_certificate(str(certificate))
                yield key, f"{path} with its certificate"
        if key := self._load(identity):
            yield key, str(path)

    def _load(self, identity: Identity) -> paramiko.PKey | None:
        password = self._server.key_password if identity.locked else None
        for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
            if identity.key_type and identity.key_type not in kind.identifiers():
                continue
            try:
                return kind.from_private_key_file(str(identity.path), password)
            except OSError as error:
                self._notes.append(f"{identity.path} cannot be read ({error.strerror})")
                return None
            except Exception:  # noqa: BLE001, S112 - a broken key raises many types; reported below
                continue
        self._notes.append(
            f"ssh_key_password does not unlock {identity.path}"
            if identity.locked
            else f"{identity.path} is not a usable key"
        )
        return None

    def _accepts(self, key: paramiko.PKey, label: str) -> bool:
        self._tried.append(label)
        try:
            more = self._transport.auth_publickey(self._server.user, key)
        except paramiko.BadAuthenticationType as refused:
            self._methods = tuple(refused.allowed_types)
            return False
        except paramiko.SSHException:
            if self._transport.is_active():
                return False
            raise
        if more:
            self._notes.append(f"{label} was accepted, but {' or '.join(more)} is required too")
            self._methods = tuple(more)
            return self._with_password()
        return True

    def _with_password(self) -> bool:
        password = self._server.password
        if password is None or not {"password", "keyboard-interactive"} & set(self._methods):
            return False
        self._tried.append("the password")
        try:
            more = self._transport.auth_password(self._server.user, password)
        except paramiko.SSHException:
            if self._transport.is_active():
                return False
            raise
        return not more

    def failure(self, what: str) -> TransportError:
        server = self._server
        tried = ", ".join(self._tried) or "no key"
        notes = "".join(f"; {note}" for note in dict.fromkeys(self._notes))
        if self._locked:
            paths = [str(path) for path in self._locked]
            notes += f"; locked by a passphrase and not in the agent: {', '.join(paths)}"
            fix = f"ssh-add {shlex.join(paths)}"
        elif self._methods and "publickey" not in self._methods:
            only = f"the server accepts only {' or '.join(self._methods)}"
            fix = f"set ssh_password; {only}" if server.password is None else "check ssh_password"
        else:
            port = "" if server.port == 22 else f"-p {server.port} "  # noqa: PLR2004 - ssh's own port
            fix = f"check the user name, or run: ssh-copy-id {port}{server.user}@{server.hostname}"
        if len(self._tried) > 4:  # noqa: PLR2004 - servers stop at 6 by default
            fix = "set ssh_key in the inventory, or IdentityFile with IdentitiesOnly yes in "
            fix += "the ssh configuration"
        message = f"{server.who}: the server {what}; tried {tried}{notes}"
        return TransportError("auth", message, host=server.name, fix=fix)


def forward_agent(channel: paramiko.Channel, agent_socket: str) -> Callable[[], None]:
    """Ask the server to forward; gives the call that ends it."""
    streams: list[socket.socket | paramiko.Channel] = []
    pumps: list[Future[None]] = []
    lock = threading.Lock()

    def opened(remote: paramiko.Channel) -> None:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            local.connect(agent_socket)
        except OSError:
            local.close()
            start_thread(remote.close)
            return
        with lock:
            streams.extend((local, remote))
            pumps.append(start_thread(lambda: _pump(local, remote)))
            pumps.append(start_thread(lambda: _pump(remote, local)))

    def close() -> None:
        with lock:
            for stream in streams:
                with suppress(OSError, EOFError):
                    stream.shutdown(socket.SHUT_RDWR)
            for pump in pumps:
                has_ended(pump, 1)
            for stream in streams:
                with suppress(OSError, EOFError):
                    stream.close()

    channel.request_forward_agent(opened)
    return close


def _pump(source: socket.socket | paramiko.Channel, sink: socket.socket | paramiko.Channel) -> None:
    with suppress(OSError, EOFError):
        while data := source.recv(16 * 1024):
            sink.sendall(data)
    with suppress(OSError, EOFError):
        sink.shutdown(socket.SHUT_WR)
