"""Odd login shells, addresses, resolvers and agents, somebody in the middle, hosts that flood."""

from __future__ import annotations

import json
import os
import resource
import shlex
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops.probe.collect import ProbeError, collect
from rigops.probe.registry import SECTIONS
from rigops.transport import HostKeyPolicy, Target, TransportError, connect, with_password
from tests.lab import accounts, namespace
from tests.lab.connecting import KNOWN_ONLY, refusal
from tests.lab.requirements import lacks
from tests.lab.sshd import Lab, Sshd, lab_with, make_key, until
from tests.lab.test_transport_login import add_to_agent
from tests.lab.test_transport_program import SecurityKeyAgent, write_security_key
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.shard(ATTACK)

PASSWORD = 'it\'s a $ecret \\ with "quotes" & !more'
WORDS = ["a b", "it's", '"', "$HOME", "`id`", "\\", "!!", "~", "*", "é", "a\nb", "", "-n", "#"]

_ROOT = Path(__file__).resolve().parents[2]
_REACH = """
import json, sys, threading, time
from rigops.transport import HostKeyPolicy, Target, TransportError, connect

port, key, known, deadline, accept, *configs_and_names = sys.argv[1:]
found = {}

def reach(config, name):
    start = time.monotonic()
    target = Target(name=name, port=int(port), key=key, config_file=config,
                    known_hosts_file=known, allow_agent=False)
    try:
        policy = HostKeyPolicy(accept=frozenset([accept]))
        with connect(target, deadline_s=float(deadline), host_keys=policy) as connection:
            done = connection.run(["echo", "here"], deadline_s=60)
            answer = [type(connection).__name__, done.stdout.decode()]
    except TransportError as error:
        answer = [error.kind, str(error), error.problems[0].fix]
    found[f"{config} {name}"] = [round(time.monotonic() - start, 1), *answer]

pairs = list(zip(configs_and_names[::2], configs_and_names[1::2]))
threads = [threading.Thread(target=reach, args=pair) for pair in pairs]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps([found[" ".join(pair)] for pair in pairs]))
"""


def reached(
    lab: Lab,
    steps: list[str],
    deadline_s: float,
    *pairs: tuple[Path, str],
    network: Sequence[str] = (),
) -> list[list[Any]]:
    """By a process of its own: seconds, and the connection and its answer or the error."""
    words = [word for pair in pairs for word in map(str, pair)]
    program = [
        sys.executable, "-c", _REACH, str(lab.sshd.port), str(lab.key), str(lab.known_hosts),
        str(deadline_s), lab.sshd.fingerprint(), *words,
    ]  # fmt: skip
    command = [*network, *namespace.enter([*steps, "exec " + shlex.join(program)])]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    answers: list[list[Any]] = json.loads(done.stdout)
    return answers


# ---- login shells

FISH = "mkdir -p .config/fish; echo 'echo noise; echo noise >&2' >.config/fish/config.fish"
SHELLS = {
    "bash": ("/bin/bash", ""),
    "restricted bash": ("/bin/rbash", ""),
    "dash": ("/bin/sh", ""),
    "fish": ("/usr/bin/fish", ""),
    "fish that greets": ("/usr/bin/fish", FISH),
    "tcsh": ("/usr/bin/tcsh", ""),
    "csh": ("/bin/csh", ""),
    "tcsh that greets": ("/usr/bin/tcsh", "echo 'echo noise; set path=(/usr/bin /bin)' >.tcshrc"),
    "zsh": ("/usr/bin/zsh", ""),
    "zsh that greets": ("/usr/bin/zsh", "echo 'echo noise; setopt sh_word_split' >.zshenv"),
}


@pytest.mark.parametrize(("shell", "setup"), SHELLS.values(), ids=SHELLS)
def test_every_shell_passes_on_what_it_is_given(tmp_path: Path, shell: str, setup: str) -> None:
    with accounts.running(tmp_path, shell) as here:
        here.inside(f"cd /home/rig; {setup or ':'}; chown -R rig: .")
        here.inside("echo 'rig ALL=(ALL) ALL' >/etc/sudoers.d/rig")
        here.inside(f"chpasswd <<'END'\nrig:{PASSWORD}\nEND\n")
        with connect(here.lab.target(), host_keys=KNOWN_ONLY) as connection:
            said = connection.run(["printf", "%s|", *WORDS], deadline_s=60)
            assert said.stdout.decode() == "".join(f"{word}|" for word in WORDS)
            assert said.stderr == b""
            script = connection.run_script("echo out; echo err >&2; exit 3", deadline_s=60)
            assert (script.stdout, script.stderr, script.exit_code) == (b"out\n", b"err\n", 3)
            assert script.complete
            root = with_password(connection, PASSWORD)
            assert root.kind == "password"
            assert connection.run(["id", "-u"], privilege=root, deadline_s=60).stdout == b"0\n"
            some = [section for section in SECTIONS if section.name in {"uname", "limits"}]
            found = collect(connection, some, as_root=root).bundle
            assert found.root
            assert found.sections["uname"].text.startswith("Linux ")
            with pytest.raises(TransportError, match="did not finish"):
                connection.run(["sleep", "4712"], deadline_s=4)
        until(lambda: here.inside("pgrep -f 'sleep [4]712' || true") == "", "its end there")


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/bin/false", "/no/such/shell"])
def test_a_login_without_a_shell_is_said(tmp_path: Path, shell: str) -> None:
    with (
        accounts.running(tmp_path, shell) as here,
        connect(here.lab.target(), host_keys=KNOWN_ONLY) as connection,
    ):
        assert connection.run(["true"], deadline_s=60).exit_code != 0
        with pytest.raises(ProbeError, match="its login shell ran no command"):
            collect(connection, SECTIONS[:1])
        with pytest.raises(TransportError, match="its login shell ran no command"):
            with_password(connection, PASSWORD)


# ---- names and addresses


def test_a_name_server_that_never_answers_costs_its_own_host_the_deadline(tmp_path: Path) -> None:
    if reason := lacks():
        pytest.skip(f"lab tier: {reason}")
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.9.9.9\noptions timeout:30 attempts:5\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.9.9.9", 53))
        for lab in lab_with(tmp_path):
            by_program = tmp_path / "by_program"
            by_program.write_text("GlobalKnownHostsFile /dev/null\nBindInterface lo\n")
            steps = [f"mount --bind {resolver} /etc/resolv.conf"]
            names = [(config, name) for config in (lab.config, by_program)
                     for name in ("slow-rig.example", "127.0.0.1")]  # fmt: skip
            slow, good, slow_too, good_too = reached(lab, steps, 20, *names)
            assert slow[1] == "dns"
            assert "looking up slow-rig.example did not finish within 20 s" in slow[2]
            assert "name servers" in slow[3]
            assert slow_too[1] == "timeout"
            assert max(slow[0], slow_too[0]) < 20 + 30
            assert good[1:] == ["SshConnection", "here\n"]
            assert good_too[1:] == ["ProgramConnection", "here\n"]
            assert good[0] < slow[0]


def test_addresses_of_version_6_are_reached_with_and_without_a_zone(tmp_path: Path) -> None:
    if reason := lacks():
        pytest.skip(f"lab tier: {reason}")
    interface = "ip link set lo up; ip address add fe80::77/64 dev lo nodad"
    holder = subprocess.Popen(["unshare", "--net", "sh", "-euc", f"{interface}; exec sleep 600"])
    try:
        inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        until(
            lambda: b"fe80::77" in subprocess.run(
                [*inside, "ip", "address"], capture_output=True, check=False
            ).stdout,
            "the interface",
        )  # fmt: skip
        for lab in lab_with(tmp_path, "ListenAddress ::", network=holder.pid):
            by_program = tmp_path / "by_program"
            (tmp_path / "revoked").touch()
            by_program.write_text(f"RevokedHostKeys {tmp_path}/revoked\n")
            names = [(config, name) for name in ("::1", "fe80::77%lo")
                     for config in (lab.config, by_program)]  # fmt: skip
            found = reached(lab, [], 60, *names, network=inside)
            known = lab.known_hosts.read_text()
            assert [one[1:] for one in found] == [
                ["SshConnection", "here\n"], ["ProgramConnection", "here\n"],
            ] * 2  # fmt: skip
            assert f"[fe80::77%lo]:{lab.sshd.port} " in known
    finally:
        holder.kill()
        holder.wait()


# ---- agents


@pytest.mark.usefixtures("agent")
def test_the_configuration_alone_lends_no_agent(tmp_path: Path) -> None:
    for lab in lab_with(tmp_path):
        add_to_agent(lab.key)
        for more in ("", "BindInterface lo\n"):
            lab.config.write_text(f"GlobalKnownHostsFile /dev/null\nForwardAgent yes\n{more}")
            with connect(lab.target(allow_agent=True), host_keys=KNOWN_ONLY) as connection:
                answer = connection.run(["sh", "-c", "echo ${SSH_AUTH_SOCK-none}"], deadline_s=60)
            assert answer.stdout == b"none\n"
            target = lab.target(allow_agent=True, forward_agent=True)
            with connect(target, host_keys=KNOWN_ONLY) as connection:
                assert connection.run(["ssh-add", "-l"], deadline_s=60).exit_code == 0


@pytest.mark.usefixtures("agent")
def test_a_locked_agent_leaves_the_key_files(tmp_path: Path) -> None:
    for lab in lab_with(tmp_path):
        add_to_agent(lab.key)
        ask = tmp_path / "ask"
        ask.write_text("#!/bin/sh\necho word\n")
        ask.chmod(0o700)
        asking = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
        subprocess.run(["ssh-add", "-x"], check=True, env=asking, stdin=subprocess.DEVNULL)
        target = lab.target(allow_agent=True)
        with connect(target, host_keys=KNOWN_ONLY) as connection:
            assert connection.run(["true"], deadline_s=60).exit_code == 0


def test_an_agent_that_hangs_leaves_time_for_key_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hanging:
        hanging.bind(str(tmp_path / "agent"))
        hanging.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        for lab in lab_with(tmp_path):
            target = lab.target(allow_agent=True)
            with connect(target, deadline_s=30, host_keys=KNOWN_ONLY) as connection:
                assert connection.run(["true"], deadline_s=60).exit_code == 0
            other = lab.target(allow_agent=True, key=str(tmp_path / "gone"))
            with pytest.raises(TransportError, match=r"agent at .* does not answer"):
                connect(other, deadline_s=15, host_keys=KNOWN_ONLY)


# ---- somebody in the middle


@contextmanager
def serving(handle: Callable[[socket.socket], object]) -> Iterator[int]:
    """A port of which each connection has a thread."""
    handling: list[threading.Thread] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                handling.append(threading.Thread(target=handle, args=listener.accept()[:1]))
                handling[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=serve)
        accepting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *handling):
            thread.join()


@contextmanager
def swapping(first: int, then: int) -> Iterator[int]:
    """A port whose first connection goes to one server, and every later one to another."""
    ports = [first]

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def carry(near: socket.socket) -> None:
        port = ports.pop() if ports else then
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            back = threading.Thread(target=pump, args=(far, near))
            back.start()
            pump(near, far)
            back.join()

    with serving(carry) as port:
        yield port


@pytest.mark.parametrize("how", ["known", "accepted", "accepted, not written"])
def test_the_program_talks_only_to_the_server_whose_key_was_checked(
    tmp_path: Path, how: str
) -> None:
    security_key = SecurityKeyAgent(tmp_path / "a")  # what paramiko cannot log in with
    security_key.close()
    write_security_key(tmp_path / "id_sk", security_key.blob)
    for lab in lab_with(tmp_path / "honest", trusted=False):
        with (
            Sshd(tmp_path / "evil") as evil,
            swapping(lab.sshd.port, evil.port) as port,
        ):
            if how == "known":
                lab.known_hosts.write_text(
                    lab.sshd.known_line().replace(str(lab.sshd.port), str(port))
                )
            policy = HostKeyPolicy(accept=frozenset([lab.sshd.fingerprint()]))
            changes = {"known_hosts_file": "/dev/null/x"} if "not" in how else {}
            error = refusal(
                lab.target(port=port, key=str(tmp_path / "id_sk"), **changes),
                KNOWN_ONLY if how == "known" else policy,
            )
            assert error.kind == ("key_unknown" if "not" in how else "key_changed")
            assert "Postponed" not in evil.log.read_text()
            assert "Failed" not in evil.log.read_text()
            assert "Accepted" not in evil.log.read_text()


# ---- who sends without end


@contextmanager
def pouring(beginning: bytes, more: bytes) -> Iterator[int]:
    """A port where everybody gets more than they can take."""

    def pour(stream: socket.socket) -> None:
        with stream, suppress(OSError):
            stream.sendall(beginning)
            while True:
                stream.sendall(more)

    with serving(pour) as port:
        yield port


@pytest.mark.parametrize("by", ["paramiko", "the program"])
@pytest.mark.parametrize(
    ("beginning", "more"),
    [
        pytest.param(b"", b"x" * 65536, id="a line without end"),
        pytest.param(b"", b"spam\r\n" * 10_000, id="lines"),
        pytest.param(b"SSH-2.0-x\r\n", b"\0" * 65536, id="zeros"),
        pytest.param(b"SSH-2.0-x\r\n", b"\xff" * 65536, id="lengths of 4 GB"),
        pytest.param(b"SSH-2.0-x\r\n", b"\0\0\0\x0c\x0a\x02\0\0\0\0" + b"\0" * 6, id="ignored"),
    ],
)
def test_a_server_that_sends_without_end_costs_neither_memory_nor_more_than_the_deadline(
    tmp_path: Path, by: str, beginning: bytes, more: bytes
) -> None:
    config = tmp_path / "config"
    config.write_text("GlobalKnownHostsFile /dev/null\n")
    with pouring(beginning, more) as port:
        known = tmp_path / "known_hosts"
        if by == "the program":  # which alone knows authorities
            authority = make_key(tmp_path / "authority").with_suffix(".pub").read_text()
            known.write_text(f"@cert-authority [127.0.0.1]:{port} {authority}")
        target = Target(
            name="rig", hostname="127.0.0.1", port=port, user="rig", config_file=str(config),
            known_hosts_file=str(known), allow_agent=False,
        )  # fmt: skip
        began, peak = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        with pytest.raises(TransportError) as error:
            connect(target, deadline_s=4, host_keys=KNOWN_ONLY)

    assert error.value.kind in {"lost", "refused", "timeout"}
    assert time.monotonic() - began < 4 + 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 64 * 1024
