"""SSH spoken natively, by paramiko: one TCP connection, many commands."""

from __future__ import annotations

import errno
import logging
import shlex
import socket
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, NoReturn

import paramiko

from rigops.transport.clock import Clock, Watch
from rigops.transport.connection import Connection, Execution, pieces
from rigops.transport.errors import NeedsProgramError, TransportError, clean, timed_out
from rigops.transport.host_keys import HostKeyPolicy, HostKeys
from rigops.transport.login import Login
from rigops.transport.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.transport.result import Sink
    from rigops.transport.route import Route, Server

_KEEPALIVE: Final = 15
_UNANSWERED_MS: Final = 60_000
_BLOCK: Final = 256 * 1024
_GRACE: Final = 3.0

# paramiko reports on its own logger with stack traces; what matters reaches the user as an error.
_WIRE: Final = "rigops.transport.wire"
logging.getLogger(_WIRE).setLevel(logging.CRITICAL)

_RSA_NAMES: Final = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")}


class Session(paramiko.Transport):
    """Inside another one that ended before it, its thread cannot even close what it talks through.

    Which of the two threads comes first is chance; what was lost is told by whoever used it.
    """

    def run(self) -> None:
        with suppress(EOFError, OSError):
            super().run()


class Link:
    """The TCP connection and the transports inside it, closed together from the outside in."""

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
            with suppress(Exception):
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


def _reach(link: Link, jump: Server | None, keys: HostKeys, watch: Watch) -> None:
    """From here or from the jump host to an SSH server that has named itself."""
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
        hint = f"is it on, and is {server.port} its SSH port?"
        raise timed_out(server.name, server.who, watch.step, watch.clock.allowed, hint) from error
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        raise NeedsProgramError(f"no algorithm in common ({clean(str(error))})") from error
    if isinstance(error, paramiko.ChannelException) and jump is not None:
        raise TransportError(
            "refused",
            f"{server.who}: {jump.who} could not connect to it ({clean(error.text)})",
            host=server.name,
            fix=f"try it on {jump.name}: nc -vz {server.hostname} {server.port}",
        ) from error
    if isinstance(error, socket.gaierror):
        raise TransportError(
            "dns",
            f"{server.who}: there is no address for {server.hostname!r} "
            f"({clean(error.strerror or str(error))})",
            host=server.name,
            fix="check the spelling, /etc/hosts and the ssh configuration",
        ) from error
    if isinstance(error, OSError) and watch.step != "the SSH handshake":
        raise TransportError(
            "refused",
            f"{server.who}: {clean(error.strerror or str(error))}",
            host=server.name,
            fix=f"is it on, does sshd run there, and is {server.port} its port?",
        ) from error
    said = clean(str(error)) or type(error).__name__
    raise TransportError(
        "lost",
        f"{server.who}: the SSH handshake broke off ({said})",
        host=server.name,
        fix=f"is port {server.port} an SSH server, and does it take more connections?",
    ) from error


def _dial(link: Link, server: Server, watch: Watch) -> socket.socket:
    watch.step = f"looking up {server.hostname}"
    family = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(server.family, socket.AF_UNSPEC)
    finder = Worker(
        lambda: socket.getaddrinfo(server.hostname, server.port, family, socket.SOCK_STREAM)
    )
    if not finder.finish(watch.clock.wait()):
        raise TimeoutError
    addresses = finder.value()
    watch.step = f"connecting to port {server.port}"
    failure: OSError = OSError(errno.EADDRNOTAVAIL, "no address")
    for number, (kind, _, protocol, _, address) in enumerate(addresses):
        stream = socket.socket(kind, socket.SOCK_STREAM, protocol)
        try:
            stream.settimeout(max(watch.clock.wait() / (len(addresses) - number), 0.001))
            if server.bind_address:
                stream.bind((server.bind_address, 0))
            stream.connect(address)
            _tune(stream)
        except OSError as error:
            stream.close()
            failure = error
        else:
            link.add_socket(stream)
            return stream
    raise failure


def _tune(stream: socket.socket) -> None:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # A machine that lost its power never answers the keepalives: the kernel then tells us.
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)


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
        raise login.dropped() from error
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
        run = _Run(self._transport, execution)
        clock = Clock(deadline_s)
        try:
            with Watch(clock, lambda: self._abandon(execution)) as watch:
                try:
                    watch.step = "opening a channel"
                    run.open(clock, self._prepare)
                    watch.step = f"running {execution.label}"
                    run.start()
                    code = run.finish()
                except (OSError, EOFError, paramiko.SSHException) as error:
                    self._explain(error, watch)
            if watch.expired:
                self._explain(EOFError(), watch)
            if not run.is_whole(code):
                self._explain(EOFError("cut off in the middle of a command"), watch)
        finally:
            run.close()
        return code

    def _prepare(self, channel: paramiko.Channel) -> None:
        if self._server.forward_agent and self._server.agent_socket:
            from rigops.transport.forward import forward_agent  # noqa: PLC0415  seldom asked for

            self._forwarded.append(forward_agent(channel, self._server.agent_socket))

    def _abandon(self, execution: Execution) -> None:
        """Time is up. End the command there as well, if the server still listens."""
        Worker(lambda: self._end(execution)).finish(_GRACE)
        self.close()

    def _end(self, execution: Execution) -> None:
        if argv := execution.ending():
            with closing(self._transport.open_session(timeout=_GRACE)) as channel:
                channel.exec_command(shlex.join(argv))
                channel.recv_exit_status()

    def _explain(self, error: Exception, watch: Watch) -> NoReturn:
        server = self._server
        if watch.expired:
            raise timed_out(
                server.name,
                server.where,
                watch.step,
                watch.clock.allowed,
                "the connection is closed; see whether it still runs there",
            ) from error
        if isinstance(error, paramiko.ChannelException) and self._transport.is_active():
            raise TransportError(
                "refused",
                f"{server.where}: the server opens no more sessions ({clean(error.text)})",
                host=server.name,
                fix="run less at once, or raise MaxSessions in its sshd_config",
            ) from error
        self.close()
        said = f" ({clean(str(error))})" if str(error) else ""
        raise TransportError(
            "lost",
            f"{server.where}: the connection was lost while {watch.step}{said}",
            host=server.name,
            fix="look at the machine: did it reboot, lose power or network?",
        ) from error


class _Run:
    """One command on one channel."""

    def __init__(self, transport: paramiko.Transport, execution: Execution) -> None:
        self._transport = transport
        self._execution = execution
        self._channel: paramiko.Channel | None = None
        self._workers: list[Worker[None]] = []

    def open(self, clock: Clock, prepare: Callable[[paramiko.Channel], None]) -> None:
        self._channel = self._transport.open_session(timeout=clock.wait() + 5)
        prepare(self._channel)

    @property
    def channel(self) -> paramiko.Channel:
        if self._channel is None:
            raise EOFError
        return self._channel

    def start(self) -> None:
        channel, err = self.channel, self._execution.err
        command = shlex.join(self._execution.argv)
        channel.exec_command(command.encode("utf-8", "surrogateescape"))
        self._workers.append(Worker(lambda: _drain(channel.recv_stderr, err)))
        if self._execution.stdin == b"":
            channel.shutdown_write()
        else:
            self._workers.append(Worker(self._write))

    def _write(self) -> None:
        channel = self.channel
        done = False
        try:
            for piece in pieces(self._execution.stdin):
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

    def finish(self) -> int:
        channel = self.channel
        _drain(channel.recv, self._execution.out)
        reader, *writer = self._workers
        reader.join()
        reader.value()
        code = channel.recv_exit_status()
        channel.close()
        for worker in writer:
            worker.join()
            worker.value()
        return code

    def is_whole(self, code: int) -> bool:
        """Whether the server ended the output, rather than a connection that broke."""
        if self.channel.eof_received and code >= 0:
            return True
        self._transport.join(0.5)  # a dying transport closes its channels just before it says so
        return self._transport.is_active()

    def close(self) -> None:
        if self._channel is not None:
            with suppress(OSError, EOFError, paramiko.SSHException):
                self._channel.close()


def _drain(read: Callable[[int], bytes], sink: Sink) -> None:
    while data := read(_BLOCK):
        sink.feed(data)
