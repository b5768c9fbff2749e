"""SSH by the `ssh` program, for what only OpenSSH can do.

One `ssh -N` logs in and listens on a control socket in a private directory; every command is a
short `ssh` through it. It never prompts and never trusts a new key: our own policy decides first.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from rigops.transport.clock import Clock, Watch
from rigops.transport.connection import LOST_FIX, STILL_RUNNING, Connection, Execution, command_line
from rigops.transport.errors import Kind, TransportError, clean, timed_out
from rigops.transport.host_keys import HostKeyPolicy, HostKeys, unknown_key
from rigops.transport.key_files import blob_type, fingerprint, parse_line
from rigops.transport.known_hosts import HostKey
from rigops.transport.local import Process, kill_group
from rigops.transport.route import Route, Server, ssh_program

_SSH_FAILED: Final = 255
_POLL: Final = 0.02
_GRACE: Final = 3.0
_QUIET: Final = (
    "BatchMode=yes",
    "LogLevel=ERROR",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
)
_STRICT: Final = ("StrictHostKeyChecking=yes", "UpdateHostKeys=no", "CheckHostIP=no")


def _options(values: Iterable[str]) -> list[str]:
    return [word for value in values for word in ("-o", value)]


def _base(server: Server) -> list[str]:
    return [*server.options, "-T", *_options(_QUIET)]


def _jump_options(before: Sequence[Server]) -> list[str]:
    """For the jump hosts, whose keys are checked as strictly as the target's."""
    if not before:
        return []
    *rest, jump = before
    words = [
        "ssh",
        *_base(jump),
        *_options(_STRICT),
        "-o",
        "ControlPath=none",
        *_jump_options(rest),
    ]
    # ssh replaces percent signs here, then a shell takes the quotes away.
    command = shlex.join([*words, "-W"]).replace("%", "%%") + " '[%h]:%p' -- "
    command += shlex.quote(jump.alias).replace("%", "%%")
    return _options((f"ProxyCommand={command}", "ProxyUseFdpass=no"))


def login_command(route: Route, control: Path, seconds: float) -> list[str]:
    """The ssh that logs in once and then waits."""
    values = (
        *_STRICT,
        "ControlMaster=yes",
        f"ControlPath={control}",
        "ControlPersist=no",
        f"ConnectTimeout={max(1, int(seconds + 1))}",
        "ServerAliveInterval=15",
        "ServerAliveCountMax=4",
    )
    end = route.end
    words = ["ssh", "-N", *_base(end), *_options(values), *_jump_options(route.servers[:-1])]
    return [*words, "--", end.alias]


def run_command(server: Server, control: Path, argv: Sequence[str]) -> list[str]:
    """The ssh that runs one command through the first one, and only through it."""
    values = ("ControlMaster=no", f"ControlPath={control}", "ProxyCommand=false")
    return ["ssh", *_base(server), *_options(values), "--", server.alias, command_line(argv)]


def key_command(route: Route, file: Path, seconds: float) -> list[str]:
    """The ssh that only writes the host key to a file; it offers no key and no password."""
    values = (
        "StrictHostKeyChecking=accept-new",
        f"UserKnownHostsFile={file}",
        "GlobalKnownHostsFile=/dev/null",
        "HashKnownHosts=no",
        "UpdateHostKeys=no",
        "CheckHostIP=no",
        "PubkeyAuthentication=no",
        "PasswordAuthentication=no",
        "KbdInteractiveAuthentication=no",
        "GSSAPIAuthentication=no",
        "HostbasedAuthentication=no",
        "ControlMaster=no",
        "ControlPath=none",
        f"ConnectTimeout={max(1, int(seconds + 1))}",
    )
    end = route.end
    # Ours come first, since ssh takes the first value that it is given.
    words = ["ssh", *_options(values), *_base(end), *_jump_options(route.servers[:-1])]
    return [*words, "--", end.alias, "true"]


def open_program(route: Route, policy: HostKeyPolicy, clock: Clock, reason: str) -> Connection:
    if ssh_program() is None:
        raise TransportError(
            "auth",
            f"{route.end.who}: the ssh program is not installed, but needed: {reason}",
            host=route.end.name,
            fix="apt install openssh-client (or your system's package of OpenSSH)",
        )
    # The name of a socket may have about a hundred characters, and some TMPDIRs are long.
    short = "/tmp" if Path("/tmp").is_dir() else None  # noqa: S108 - mkdtemp makes it private
    place = Path(tempfile.mkdtemp(prefix="rigops-", dir=short))
    connection = ProgramConnection(route.end, place, reason)
    done = False
    try:
        for number in range(len(route.servers)):
            _settle_key(type(route)(servers=route.servers[: number + 1]), policy, clock, place)
        connection.log_in(route, clock)
        done = True
        return connection
    finally:
        if not done:
            connection.close()


def _settle_key(route: Route, policy: HostKeyPolicy, clock: Clock, place: Path) -> None:
    """Fetch the key of an unknown server first, and let the policy decide."""
    keys = HostKeys(route.end)
    if keys.plain or keys.without_port or keys.authorities:
        return  # ssh itself compares
    key = _fetch_key(route, clock, place)
    keys.settle(key.key_type, key.blob, policy, clock)


def fetch_shown_key(route: Route, policy: HostKeyPolicy, clock: Clock) -> HostKey:
    """Of the end of the route, which is offered no key and no password."""
    with tempfile.TemporaryDirectory(prefix="rigops-") as name:
        for number in range(len(route.servers) - 1):
            before = type(route)(servers=route.servers[: number + 1])
            _settle_key(before, policy, clock, Path(name))
        return _fetch_key(route, clock, Path(name))


def _fetch_key(route: Route, clock: Clock, place: Path) -> HostKey:
    server = route.end
    file = place / "seen"
    errors = _run_quietly(key_command(route, file, clock.wait()), server, clock)
    try:
        words = file.read_bytes().split()
    except OSError:
        raise explain(server, errors, "") from None
    finally:
        file.unlink(missing_ok=True)
    names = [words[0].split(b",")[0].lower()] if words else []
    key = parse_line(b" ".join(words[:3]), names, file, 0)
    if key is None:
        raise unknown_key(server, "unreadable", "?")
    return HostKey(blob_type(key.blob) or "?", key.blob)


def _run_quietly(command: list[str], server: Server, clock: Clock, stdin: bytes = b"") -> str:
    try:
        answer = subprocess.run(
            command,
            input=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            timeout=clock.wait(),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise timed_out(server.name, server.who, "the SSH handshake", clock.allowed) from error
    return answer.stderr.decode(errors="replace")


class ProgramConnection(Connection):
    def __init__(self, server: Server, place: Path, reason: str) -> None:
        super().__init__(server.name, server.where)
        self._server = server
        self._place = place
        self._reason = reason
        self._control = place / "c"
        self._master: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def log_in(self, route: Route, clock: Clock) -> None:
        log = self._place / "log"
        with log.open("wb") as stream:
            self._master = subprocess.Popen(
                login_command(route, self._control, clock.wait()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                start_new_session=True,
            )
        while not self._control.exists():
            if self._master.poll() is not None:
                errors = log.read_text(encoding="utf-8", errors="replace")
                raise explain(self._server, errors, self._reason)
            if clock.left() <= 0:
                printed = clean(log.read_bytes()) or "nothing"
                step = f"logging in with ssh ({self._reason}; it printed {printed})"
                fix = _fix("timeout", self._server)
                raise timed_out(self.name, self._server.who, step, clock.allowed, fix)
            time.sleep(_POLL)

    def close(self) -> None:
        with self._lock:
            master, self._master = self._master, None
        if master is not None:
            if master.poll() is None:
                kill_group(master)
            master.wait()
        shutil.rmtree(self._place, ignore_errors=True)

    def _execute(self, execution: Execution, deadline_s: float) -> int:
        if self._master is None:
            raise self._lost("closed")
        process = Process(run_command(self._server, self._control, execution.argv))

        def abandon() -> None:
            if ending := execution.ending():
                argv, stdin = ending
                command = run_command(self._server, self._control, argv)
                _run_quietly(command, self._server, Clock(_GRACE), stdin)
            process.kill()

        with Watch(Clock(deadline_s), abandon) as watch:
            code = process.communicate(execution.stdin, execution.out, execution.err)
        if watch.expired:
            self.close()
            step = f"running {execution.label}"
            raise timed_out(self.name, self.description, step, deadline_s, STILL_RUNNING)
        if code in (_SSH_FAILED, -1) and self._is_lost():
            self.close()
            raise self._lost("lost in the middle of a command")
        return code

    def _is_lost(self) -> bool:
        """The ssh that holds the connection ends with it."""
        master = self._master
        if master is None:
            return True
        with suppress(subprocess.TimeoutExpired):
            master.wait(0.5)
        return master.poll() is not None

    def _lost(self, how: str) -> TransportError:
        return TransportError(
            "lost",
            f"{self.description}: the connection was {how}",
            host=self.name,
            fix=LOST_FIX,
        )


_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    (r"REVOKED HOST KEY|marked as revoked", "key_changed"),
    (r"HOST IDENTIFICATION HAS CHANGED|host key for .{0,300} has changed", "key_changed"),
    (r"host key is known for|Host key verification failed|[Cc]ertificate invalid", "key_unknown"),
    (r"Permission denied|Too many authentication failures|No supported auth", "auth"),
    (r"Could not resolve hostname", "dns"),
    (r"timed out|Timeout, server", "timeout"),
    (r"Connection refused|No route to host|Network is unreachable", "refused"),
    (r"open failed|prohibited|Connection closed|Connection reset", "refused"),
)


def explain(server: Server, errors: str, reason: str) -> TransportError:
    """From what ssh printed when it could not log in."""
    kind: Kind = next((kind for pattern, kind in _KINDS if re.search(pattern, errors)), "lost")
    seen = re.search(r"SHA256:[A-Za-z0-9+/]{43}", errors)
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith("@")]
    text = clean(" / ".join(lines)) or "ssh printed nothing"
    if kind == "key_changed":
        text = _changed(server, errors, seen[0] if seen else "a new key")
    why = f" (by the ssh program, since {reason})" if reason else ""
    return TransportError(
        kind,
        f"{server.who}: {text}{why}",
        host=server.name,
        fix=_fix(kind, server),
        value=seen[0] if seen and kind.startswith("key") else None,
    )


def _changed(server: Server, errors: str, seen: str) -> str:
    if re.search(r"REVOKED|revoked", errors):
        return f"the host key {seen} is marked @revoked"
    place = re.search(r"Offending (\S{1,100}) key in (.{1,4096}):([0-9]{1,9})", errors)
    old = ""
    if place:
        keys = HostKeys(server).plain
        prints = [fingerprint(key.blob) for key in keys if key.line == int(place[3])]
        old = f", but {place[2]}:{place[3]} has {place[1]} {' '.join(prints)}"
    return f"HOST KEY CHANGED: the server shows {seen}{old}"


def _fix(kind: Kind, server: Server) -> str:
    file = f" -f {shlex.quote(str(server.known_hosts[0]))}" if server.known_hosts else ""
    name = shlex.quote(server.lookup)
    command = shlex.join(["ssh", *server.options, server.alias])
    if kind == "auth" and server.password is not None:
        return "log in with a key; the ssh program does not get the password"
    fixes: dict[Kind, str] = {
        "key_changed": f"if the host was reinstalled: ssh-keygen -R {name}{file}",
        "key_unknown": f"log in once by hand to compare the key: {command}",
        "auth": f"make this work without a prompt (ssh-add, a plugged-in security key, a valid "
        f"certificate): {command} true",
        "dns": "check the spelling, /etc/hosts and the ssh configuration",
    }
    return fixes.get(kind, f"try it by hand: {command}")
