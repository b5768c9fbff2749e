"""SSH by paramiko: one TCP connection, many commands."""

from __future__ import annotations

import errno
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from typing import Final, NoReturn

import paramiko
from paramiko.packet import Packetizer

from rigops.transport.clock import Clock, Watch, has_ended, start_thread
from rigops.transport.connection import (
    LOST_FIX,
    STILL_RUNNING,
    Connection,
    Execution,
    command_line,
    pieces,
)
from rigops.transport.errors import NeedsProgramError, TransportError, clean, timed_out
from rigops.transport.host_keys import HostKeyPolicy, HostKeys
from rigops.transport.known_hosts import HostKey
from rigops.transport.login import Login, forward_agent
from rigops.transport.result import Sink
from rigops.transport.route import Route, Server

_KEEPALIVE: Final = 15
_UNANSWERED_MS: Final = 60_000
_BLOCK: Final = 256 * 1024
_GRACE_S: Final = 3.0
_MOST_QUEUED: Final = 10_000  # the windows of channels allow some hundreds
_MOST_BEFORE_VERSION: Final = 64 * 1024  # a line has at most 255, and few come before it

# paramiko reports on its own logger with stack traces; what matters reaches the user as an error.
_WIRE: Final = "rigops.transport.wire"
logging.getLogger(_WIRE).setLevel(logging.CRITICAL)

_RSA_NAMES: Final = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")}


class Packets(Packetizer):
    """Ends where a server sends text without end instead of its SSH version.

    paramiko copies all that came before at each read, for minutes and whatever the deadline.
    """

    _before_version = 0

    def _read_timeout(self, timeout: float) -> bytes:
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]  # not in the stubs
        self._before_version += len(data)
        if self._before_version > _MOST_BEFORE_VERSION:
            raise EOFError(": no SSH version in its first 64 KiB")
        return data


class Session(paramiko.Transport):
    """Its thread fails where a session around it ended first; its user reports the loss.

    Data sent during a key exchange waits in a queue. In paramiko the sender waits, and where
    that is the very thread that finishes the exchange, as when it answers to a channel that closes,
    the connection is lost after 30 s.
    """

    def __init__(self, stream: socket.socket | paramiko.Channel) -> None:
        super().__init__(stream)
        self.packetizer = Packets(stream)  # type: ignore[arg-type]  # a channel is a socket to it
        self._queue: deque[paramiko.Message] = deque()

    def run(self) -> None:
        with suppress(EOFError, OSError):
            super().run()

    def _send_user_message(self, data: paramiko.Message) -> None:
        with self.clear_to_send_lock:
            if not self.active:
                return
            if len(self._queue) >= _MOST_QUEUED:
                raise paramiko.SSHException("the server asks without end during a key exchange")
            self._queue.append(data)
            if self.clear_to_send.is_set():
                self._send_queue()

    def _parse_newkeys(self, m: paramiko.Message) -> None:
        super()._parse_newkeys(m)  # type: ignore[misc]  # not in the stubs
        with self.clear_to_send_lock:
            self._send_queue()

    def _send_queue(self) -> None:
        while self._queue:
            self._send_message(self._queue.popleft())  # type: ignore[attr-defined]  # as above


class Link:
    """The TCP connection and the transports inside it, closed together, outermost first."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.transports: list[paramiko.Transport] = []
        self._lock = threading.Lock()
        self.closed = False

    def add_socket(self, link: socket.socket) -> None:
        with self._lock:
            if not self.closed:
                self.sockets.append(link)
                return
        link.close()
        raise OSError(errno.ECONNABORTED, "closed meanwhile")

    def add_transport(self, transport: paramiko.Transport) -> None:
        with self._lock:
            self.transports.append(transport)

    def close(self) -> None:
        with self._lock:
            self.closed = True
            transports, self.transports = self.transports[::-1], []
            sockets, self.sockets = self.sockets, []
        for link in sockets:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        for transport in transports:
            with suppress(Exception):  # it may be dead already; the next one is closed too
                transport.close()
        for transport in transports:
            if transport.is_alive() and transport is not threading.current_thread():
                transport.join(2)
            transport.packetizer.complete_handshake()  # ends a timer thread of paramiko's
        for link in sockets:
            link.close()


def open_ssh(route: Route, policy: HostKeyPolicy, clock: Clock) -> Connection:
    link = Link()
    done = False
    try:
        with Watch(clock, link.close) as watch:
            for number, server in enumerate(route.servers):
                keys = HostKeys(server)
                _reach(link, route.servers[number - 1] if number else None, keys, watch)
                _log_in(link, keys, policy, watch)
        if watch.expired:
            raise timed_out(route.end.name, route.end.who, watch.step, clock.allowed)
        connection = SshConnection(route.end, link)
        done = True
        return connection
    finally:
        if not done:
            link.close()


def fetch_shown_key(route: Route, policy: HostKeyPolicy, clock: Clock) -> HostKey:
    """Of the end of the route, which is offered no key and no password."""
    link = Link()
    try:
        with Watch(clock, link.close) as watch:
            for number, server in enumerate(route.servers):
                keys = HostKeys(server)
                _reach(link, route.servers[number - 1] if number else None, keys, watch)
                if server is not route.end:
                    _log_in(link, keys, policy, watch)
            shown = link.transports[-1].get_remote_server_key()
            address = link.sockets[0].getpeername()[0] if len(route.servers) == 1 else ""
        if watch.expired:
            raise timed_out(route.end.name, route.end.who, watch.step, clock.allowed)
        return HostKey(shown.get_name(), shown.asbytes(), address)
    finally:
        link.close()


def _reach(link: Link, jump: Server | None, keys: HostKeys, watch: Watch) -> None:
    """Connect from here or from the jump host, and finish the SSH handshake."""
    stream: socket.socket | paramiko.Channel
    server = keys.server
    try:
        if jump is None:
            stream = _dial(link, server, watch)
        else:
            watch.step = f"connecting from {jump.name}"
            stream = link.transports[-1].open_channel(
                "direct-tcpip",
                (server.hostname, server.port),
                ("127.0.0.1", 0),
                timeout=watch.clock.wait() + 5,
            )
        watch.step = "the SSH handshake"
        _shake_hands(link, keys, stream, watch)
    except (OSError, EOFError, paramiko.SSHException) as error:
        _explain(error, jump, server, watch)


def _explain(error: Exception, jump: Server | None, server: Server, watch: Watch) -> NoReturn:
    if watch.expired or isinstance(error, TimeoutError):
        if watch.step == _looking_up(server):
            raise TransportError(
                "dns",
                f"{server.who}: {watch.step} did not finish within {watch.clock.allowed:.3g} s",
                host=server.name,
                fix="check the name servers of this machine (/etc/resolv.conf), or set "
                "ssh_hostname to an address",
            ) from error
        fix = f"check that the host is on and that its SSH port is {server.port}"
        raise timed_out(server.name, server.who, watch.step, watch.clock.allowed, fix) from error
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        raise NeedsProgramError(f"no algorithm in common ({clean(str(error))})") from error
    if isinstance(error, paramiko.ChannelException) and jump is not None:
        raise TransportError(
            "refused",
            f"{server.who}: {jump.who} could not connect to it ({clean(error.text)})",
            host=server.name,
            fix=f"run on {jump.name}: nc -vz {server.hostname} {server.port}",
        ) from error
    if isinstance(error, socket.gaierror):
        raise TransportError(
            "dns",
            f"{server.who}: {server.hostname!r} has no address "
            f"({clean(error.strerror or str(error))})",
            host=server.name,
            fix="check the spelling, /etc/hosts and the ssh configuration",
        ) from error
    if isinstance(error, OSError) and watch.step != "the SSH handshake":
        raise TransportError(
            "refused",
            f"{server.who}: {clean(error.strerror or str(error))}",
            host=server.name,
            fix=f"check that the host is on and that sshd listens on port {server.port}",
        ) from error
    reason = clean(str(error)) or type(error).__name__
    raise TransportError(
        "lost",
        f"{server.who}: the SSH handshake failed ({reason})",
        host=server.name,
        fix=f"check that port {server.port} is an SSH server and that it accepts more connections",
    ) from error


def _looking_up(server: Server) -> str:
    return f"looking up {server.hostname}"


def _dial(link: Link, server: Server, watch: Watch) -> socket.socket:
    watch.step = _looking_up(server)
    family = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(server.family, socket.AF_UNSPEC)
    finder = start_thread(
        lambda: socket.getaddrinfo(server.hostname, server.port, family, socket.SOCK_STREAM)
    )
    if not has_ended(finder, watch.clock.wait()):
        raise TimeoutError
    try:
        addresses = finder.result()
    except UnicodeError as error:  # Python's: a part of the name is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, "no name of a host") from error
    watch.step = f"connecting to port {server.port}"
    failure: OSError = OSError(errno.EADDRNOTAVAIL, "no address")
    for number, (kind, _, protocol, _, address) in enumerate(addresses):
        stream = socket.socket(kind, socket.SOCK_STREAM, protocol)
        try:
            stream.settimeout(max(watch.clock.wait() / (len(addresses) - number), 0.001))
            if server.bind_address:
                stream.bind((server.bind_address, 0))
            stream.connect(address)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                # A host without power never answers keepalives: the kernel then ends the stream.
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)
        except OSError as error:
            stream.close()
            failure = error
        else:
            link.add_socket(stream)
            return stream
    raise failure


def _shake_hands(
    link: Link, keys: HostKeys, stream: socket.socket | paramiko.Channel, watch: Watch
) -> None:
    if keys.only_authority:
        raise NeedsProgramError(f"{keys.server.name} is known by a certificate authority only")
    transport = Session(stream)
    link.add_transport(transport)
    transport.set_log_channel(_WIRE)
    options = transport.get_security_options()
    ours = list(options.key_types)
    known = [name for kind in keys.types for name in _RSA_NAMES.get(kind, (kind,))]
    first = [kind for kind in known if kind in ours]
    options.key_types = [*first, *(kind for kind in ours if kind not in first)]
    transport.banner_timeout = transport.handshake_timeout = watch.clock.wait() + 5
    done = threading.Event()
    transport.start_client(event=done)
    while not done.wait(0.1) and transport.is_active():
        pass
    if not transport.is_active() or not transport.initial_kex_done:
        raise transport.get_exception() or EOFError("the server hung up")


def _log_in(link: Link, keys: HostKeys, policy: HostKeyPolicy, watch: Watch) -> None:
    server, transport = keys.server, link.transports[-1]
    login = Login(transport, server, watch.clock)
    try:
        watch.step = "checking the host key"
        shown = transport.get_remote_server_key()
        if keys.plain and keys.authorities and not keys.is_known(shown.asbytes()):
            raise NeedsProgramError(f"{server.name} may have a certificate of its new key")
        keys.settle(shown.get_name(), shown.asbytes(), policy, watch.clock)
        watch.step = f"logging in as {server.user}"
        login()
    except (OSError, EOFError, paramiko.SSHException) as error:
        if watch.expired:
            raise timed_out(server.name, server.who, watch.step, watch.clock.allowed) from error
        raise login.failure("closed the connection during the login") from error
    transport.set_keepalive(_KEEPALIVE)


class SshConnection(Connection):
    def __init__(self, server: Server, link: Link) -> None:
        super().__init__(server.name, server.where)
        self._server = server
        self._link = link
        self._transport = link.transports[-1]
        self._forwarded: list[Callable[[], None]] = []

    def close(self) -> None:
        self._link.close()
        while self._forwarded:
            self._forwarded.pop()()

    def _execute(self, execution: Execution, deadline_s: float) -> int:
        clock = Clock(deadline_s)
        with ExitStack() as stack:
            with Watch(clock, lambda: self._abandon(execution)) as watch:
                try:
                    watch.step = "opening a channel"
                    channel = self._transport.open_session(timeout=clock.wait() + 5)
                    stack.callback(_close, channel)
                    if self._server.forward_agent and self._server.agent_socket:
                        end = forward_agent(channel, self._server.agent_socket)
                        self._forwarded.append(end)
                    watch.step = f"running {execution.label}"
                    code = _communicate(channel, execution)
                except (OSError, EOFError, paramiko.SSHException) as error:
                    self._explain(error, watch)
            if watch.expired:
                self._explain(EOFError(), watch)
            if not channel.eof_received or code < 0:
                # The output may have ended with the connection. A dying transport closes its
                # channels just before it says so itself.
                self._transport.join(0.5)
                if not self._transport.is_active():
                    self._explain(EOFError("in the middle of a command"), watch)
        return code

    def _abandon(self, execution: Execution) -> None:
        """Time is up. End the command on the host too, if the server still answers."""

        def end() -> None:
            if ending := execution.ending():
                argv, stdin = ending
                with closing(self._transport.open_session(timeout=_GRACE_S)) as channel:
                    channel.exec_command(command_line(argv))
                    channel.sendall(stdin)
                    channel.shutdown_write()
                    channel.recv_exit_status()

        has_ended(start_thread(end), _GRACE_S)
        self.close()

    def _explain(self, error: Exception, watch: Watch) -> NoReturn:
        server = self._server
        if watch.expired:
            allowed = watch.clock.allowed
            raise timed_out(
                server.name, server.where, watch.step, allowed, STILL_RUNNING
            ) from error
        if isinstance(error, paramiko.ChannelException) and self._transport.is_active():
            raise TransportError(
                "refused",
                f"{server.where}: the server refused another session ({clean(error.text)})",
                host=server.name,
                fix="run fewer commands at once, or raise MaxSessions in its sshd_config",
            ) from error
        self.close()
        reason = f" ({clean(str(error))})" if str(error) else ""
        raise TransportError(
            "lost",
            f"{server.where}: the connection was lost while {watch.step}{reason}",
            host=server.name,
            fix=LOST_FIX,
        ) from error


def _communicate(channel: paramiko.Channel, execution: Execution) -> int:
    command = command_line(execution.argv)
    channel.exec_command(command.encode("utf-8", "surrogateescape"))
    work = [start_thread(lambda: _drain(channel.recv_stderr, execution.err))]
    if execution.stdin == b"":
        channel.shutdown_write()
    else:
        work.append(start_thread(lambda: _write(channel, execution.stdin)))
    _drain(channel.recv, execution.out)
    work[0].result()
    code = channel.recv_exit_status()
    channel.close()
    for one in work:
        one.result()
    return code


def _write(channel: paramiko.Channel, stdin: bytes | Iterable[bytes]) -> None:
    done = False
    try:
        for piece in pieces(stdin):
            rest = piece
            while rest:
                try:
                    sent = channel.send(rest)
                except OSError:
                    sent = 0
                if not sent:  # the command ended without reading all of it
                    done = True
                    return
                rest = rest[sent:]
        done = True
    finally:
        with suppress(OSError, EOFError, paramiko.SSHException):
            if done:
                channel.shutdown_write()
            else:
                channel.close()  # half an input must not look like a whole one


def _close(channel: paramiko.Channel) -> None:
    with suppress(OSError, EOFError, paramiko.SSHException):
        channel.close()


def _drain(read: Callable[[int], bytes], sink: Sink) -> None:
    try:
        while data := read(_BLOCK):
            sink.feed(data)
    finally:
        sink.finish()
