"""What only OpenSSH can do goes through the ssh program, with the same answers and errors."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from paramiko.message import Message

from rigops.transport import Connection, HostKeyPolicy, Target, TransportError, connect
from rigops.transport.route import Route, Server, parse_settings
from rigops.transport.ssh_program import (
    ProgramConnection,
    key_command,
    login_command,
    run_command,
)
from tests.lab.connecting import KNOWN_ONLY, cut_while_it_sleeps, refusal
from tests.lab.sshd import (
    USER,
    Lab,
    Sshd,
    fingerprint_of,
    is_running,
    keygen,
    lab_with,
    make_key,
    make_lab,
    public,
    require_sshd,
    until,
)
from tests.shards import LAB_TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_TRANSPORT)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """The user can log in with a certificate only, which is named in the configuration."""
    require_sshd()
    authority = make_key(tmp_path / "ca")
    with Sshd(tmp_path / "server", (f"TrustedUserCAKeys {authority}.pub",)) as sshd:
        lab = make_lab(tmp_path, sshd)
        sshd.authorized.write_text("")
        keygen("-s", str(authority), "-I", "me", "-n", USER, f"{lab.key}.pub")
        certificate = lab.key.with_name("id-cert.pub").rename(tmp_path / "elsewhere.pub")
        lab.config.write_text(
            f"GlobalKnownHostsFile /dev/null\nCertificateFile {certificate}\n"
            f"Host bastion\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {USER}\n"
            f"  IdentityFile {lab.key}\n"
        )
        yield lab


@pytest.fixture
def connection(lab: Lab) -> Iterator[Connection]:
    lab.trust()
    with connect(lab.target(), host_keys=KNOWN_ONLY) as connection:
        assert isinstance(connection, ProgramConnection)
        yield connection


def says(target: Target, policy: HostKeyPolicy = KNOWN_ONLY) -> bytes:
    with connect(target, host_keys=policy) as connection:
        assert isinstance(connection, ProgramConnection)
        return connection.run(["echo", "here"], deadline_s=60).stdout


def test_a_certificate_named_in_the_configuration_logs_in_once_for_many_commands(
    lab: Lab, connection: Connection
) -> None:
    answer = connection.run(
        ["sh", "-c", "echo $0 it\\'s; echo err >&2; exit 7", "-x"], deadline_s=60
    )
    assert (answer.exit_code, answer.stdout, answer.stderr) == (7, b"-x it's\n", b"err\n")
    assert connection.run(["sh", "-c", "exit 255"], deadline_s=60).exit_code == 255
    script = connection.run_script("echo hello; exit 3", deadline_s=60)
    assert (script.exit_code, script.stdout, script.complete) == (3, b"hello\n", True)
    assert lab.sshd.log.read_text().count("Accepted publickey") == 1
    assert connection.description == f"{USER}@127.0.0.1:{lab.sshd.port}"


def test_much_goes_both_ways_and_is_bounded_through_the_program(connection: Connection) -> None:
    answer = connection.run(["cat"], stdin=b"x" * 20_000_000, deadline_s=60)
    assert hashlib.sha256(answer.stdout).digest() == hashlib.sha256(b"x" * 20_000_000).digest()
    words = ["head", "-c", "20000000", "/dev/zero"]
    answer = connection.run(words, deadline_s=60, max_output=1000)
    assert (len(answer.stdout), answer.stdout_dropped) == (1000, 20_000_000 - 1000)


def test_a_deadline_ends_the_command_there_too_through_the_program(connection: Connection) -> None:
    word = f"{300 + secrets.randbelow(600)}.{secrets.randbelow(10**12):012d}"
    with pytest.raises(TransportError) as caught:
        connection.run(["sh", "-c", f"sleep {word}; true"], deadline_s=5)
    assert caught.value.kind == "timeout"
    until(lambda: not is_running(word), "the command to end")
    with pytest.raises(TransportError, match="closed"):
        connection.run(["true"], deadline_s=60)


def test_a_cut_connection_is_lost_through_the_program(lab: Lab, connection: Connection) -> None:
    word = f"{300 + secrets.randbelow(600)}.{secrets.randbelow(10**12):012d}"
    error = cut_while_it_sleeps(lab, connection, f"echo some; sleep {word}; true", word)
    assert error.kind == "lost"


def test_the_program_leaves_no_process_and_no_file_behind(lab: Lab) -> None:
    lab.trust()
    before = set(Path(tempfile.gettempdir()).glob("rigops-*"))
    connection = connect(lab.target(), host_keys=KNOWN_ONLY)
    (place,) = set(Path(tempfile.gettempdir()).glob("rigops-*")) - before
    assert place.stat().st_mode & 0o777 == 0o700
    assert is_running(str(place))
    connection.close()
    connection.close()
    assert not place.exists()
    until(lambda: not is_running(str(place)), "ssh to end")


def test_the_program_does_not_weaken_the_check_of_unknown_keys(lab: Lab) -> None:
    with lab.config.open("a") as file:
        file.write("Host *\n  StrictHostKeyChecking no\n")
    error = refusal(lab.target())
    assert error.kind == "key_unknown"
    assert lab.sshd.fingerprint() in str(error)
    assert not lab.known_hosts.exists()
    assert "Accepted" not in lab.sshd.log.read_text()
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}))
    assert says(lab.target(), accepted) == b"here\n"
    assert lab.known_hosts.read_text() == lab.sshd.known_line()
    assert says(lab.target()) == b"here\n"


def test_the_program_refuses_a_changed_key_with_both_fingerprints(lab: Lab, tmp_path: Path) -> None:
    words = public(make_key(tmp_path / "other")).split()
    lab.known_hosts.write_text(f"[127.0.0.1]:{lab.sshd.port} {words[0]} {words[1]}\n")
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}))
    error = refusal(lab.target(), accepted)
    assert error.kind == "key_changed"
    assert lab.sshd.fingerprint() in str(error)
    assert fingerprint_of(tmp_path / "other") in str(error)
    assert f"{lab.known_hosts}:1" in str(error)
    assert "ssh-keygen -R" in error.problems[0].fix


def test_the_program_refuses_a_revoked_key(lab: Lab) -> None:
    lab.trust()
    with lab.known_hosts.open("a") as file:
        file.write(f"@revoked * {' '.join(public(lab.sshd.host_key()).split()[:2])}\n")
    assert refusal(lab.target()).kind == "key_changed"


def test_the_program_says_what_was_refused_and_why_it_was_needed(lab: Lab) -> None:
    lab.trust()
    other = make_key(lab.folder / "stranger")
    error = refusal(lab.target(key=str(other), user="nobody-of-this-name"))
    assert error.kind == "auth"
    assert "Permission denied" in str(error)
    assert "CertificateFile in the ssh configuration" in str(error)
    lab.sshd.stop()
    assert refusal(lab.target()).kind == "refused"
    assert refusal(lab.target(hostname="no-such-rig.invalid")).kind == "dns"


def test_without_the_program_the_error_says_what_to_install(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rigops.transport.ssh_program.ssh_program", lambda: None)
    error = refusal(lab.target())
    assert "CertificateFile in the ssh configuration" in str(error)
    assert "openssh-client" in error.problems[0].fix


def test_a_silent_server_costs_the_program_no_more_than_the_deadline(lab: Lab) -> None:
    lab.trust()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with lab.known_hosts.open("a") as file:
            file.write(lab.sshd.known_line().replace(str(lab.sshd.port), str(port)))
        start = time.monotonic()
        with pytest.raises(TransportError) as caught:
            connect(lab.target(port=port), deadline_s=3, host_keys=KNOWN_ONLY)
        assert 3 <= time.monotonic() - start < 3 + 30
    assert caught.value.kind == "timeout"


def test_a_jump_host_is_checked_as_strictly_by_the_program(lab: Lab, tmp_path: Path) -> None:
    with Sshd(tmp_path / "inner", lab.sshd.options) as sshd:
        with lab.config.open("a") as file:
            file.write(
                f"  StrictHostKeyChecking no\n  UserKnownHostsFile {lab.known_hosts}\n"
                f"Host inside\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {USER}\n"
                f"  IdentityFile {lab.key}\n  UserKnownHostsFile {lab.known_hosts}\n"
                f"  ProxyJump bastion\n"
            )
        target = Target(name="inside", config_file=str(lab.config), allow_agent=False)
        lab.known_hosts.write_text(sshd.known_line())
        error = refusal(target)
        assert (error.kind, error.host) == ("key_unknown", "bastion")
        assert lab.sshd.fingerprint() in str(error)
        lab.known_hosts.write_text(lab.sshd.known_line())
        error = refusal(target)
        assert (error.kind, error.host) == ("key_unknown", "inside")
        lab.trust()
        accepted = HostKeyPolicy(accept=frozenset({sshd.fingerprint()}))
        assert says(target, accepted) == b"here\n"
        assert sshd.known_line() in lab.known_hosts.read_text()


def test_a_proxy_command_is_used(tmp_path: Path) -> None:
    for lab in lab_with(tmp_path, trusted=False):
        jump = tmp_path / "jump"
        jump.write_text(
            f"UserKnownHostsFile {tmp_path}/jump_known\nIdentityFile {lab.key}\n"
            f"Port {lab.sshd.port}\nUser {USER}\n"
        )
        (tmp_path / "jump_known").write_text(lab.sshd.known_line())
        lab.config.write_text(
            f"GlobalKnownHostsFile /dev/null\n"
            f"ProxyCommand ssh -F {jump} -W %h:%p 127.0.0.1\nHostKeyAlias behind\n"
        )
        error = refusal(lab.target())
        assert error.kind == "key_unknown"
        accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}))
        assert says(lab.target(), accepted) == b"here\n"
        assert lab.known_hosts.read_text().startswith("behind ssh-ed25519 ")


def certified(tmp_path: Path) -> Iterator[tuple[Lab, Path]]:
    """A server with a certificate of its host key, and the authority that signed it."""
    require_sshd()
    authority = make_key(tmp_path / "ca")
    host = make_key(tmp_path / "server_key")
    keygen("-s", str(authority), "-h", "-I", "rig", "-n", "127.0.0.1", f"{host}.pub")
    options = (f"HostKey {host}", f"HostCertificate {host}-cert.pub")
    for lab in lab_with(tmp_path, *options, key_types=(), trusted=False):
        yield lab, authority


def test_a_host_known_by_its_certificate_authority_only_is_reached(tmp_path: Path) -> None:
    for lab, authority in certified(tmp_path):
        line = f"@cert-authority [127.0.0.1]:{lab.sshd.port} {public(authority)}"
        lab.known_hosts.write_text(line)
        assert says(lab.target()) == b"here\n"
        other = public(make_key(tmp_path / "other-ca"))
        lab.known_hosts.write_text(f"@cert-authority [127.0.0.1]:{lab.sshd.port} {other}")
        assert refusal(lab.target()).kind == "key_unknown"


@pytest.mark.parametrize(
    "option",
    ["Ciphers chacha20-poly1305@openssh.com", "KexAlgorithms sntrup761x25519-sha512@openssh.com"],
)
def test_a_server_that_speaks_only_newer_algorithms_is_reached(tmp_path: Path, option: str) -> None:
    for lab in lab_with(tmp_path, option):
        assert says(lab.target()) == b"here\n"


def test_a_new_plain_key_with_a_trusted_certificate_is_no_changed_key(tmp_path: Path) -> None:
    for lab, authority in certified(tmp_path):
        old = " ".join(public(make_key(tmp_path / "old")).split()[:2])
        name = f"[127.0.0.1]:{lab.sshd.port}"
        lab.known_hosts.write_text(f"{name} {old}\n@cert-authority {name} {public(authority)}")
        assert says(lab.target()) == b"here\n"


class SecurityKeyAgent:
    """An ssh-agent with one security key in software: what a touched USB key would answer."""

    TYPE = "sk-ssh-ed25519@openssh.com"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key = Ed25519PrivateKey.generate()
        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.blob = self.strings(self.TYPE.encode(), raw, b"ssh:")
        self.signed = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @staticmethod
    def strings(*parts: bytes) -> bytes:
        message = Message()
        for part in parts:
            message.add_string(part)
        return message.asbytes()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link, link.makefile("rb") as stream:
                while head := stream.read(4):
                    request = Message(stream.read(int.from_bytes(head, "big")))
                    answer = self._answer(request)
                    link.sendall(len(answer).to_bytes(4, "big") + answer)

    def _answer(self, request: Message) -> bytes:
        kind = request.get_byte()
        if kind == b"\x0b":  # which keys are there?
            return b"\x0c\0\0\0\x01" + self.strings(self.blob, b"a security key")
        if kind == b"\x0d" and request.get_binary() == self.blob:  # sign this
            self.signed += 1
            touched, counter = b"\x01", self.signed.to_bytes(4, "big")
            digest = hashlib.sha256(request.get_binary()).digest()
            application = hashlib.sha256(b"ssh:").digest()
            signature = self.key.sign(application + touched + counter + digest)
            return b"\x0e" + self.strings(
                self.strings(self.TYPE.encode(), signature) + touched + counter
            )
        return b"\x05"  # no


@pytest.mark.parametrize("named", [False, True], ids=["any", "named"])
def test_a_security_key_logs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    agent = SecurityKeyAgent(Path(tempfile.mkdtemp(dir=tmp_path)) / "a")
    try:
        for lab in lab_with(tmp_path):
            line = f"{agent.TYPE} {base64.b64encode(agent.blob).decode()}\n"
            lab.sshd.authorized.write_text(line)
            file = tmp_path / "id_sk.pub"
            file.write_text(line)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(agent.path))
            key = str(tmp_path / "id_sk") if named else None
            target = lab.target(key=key, allow_agent=True, look_for_keys=False)
            assert says(target) == b"here\n"
            assert agent.signed == 1
    finally:
        agent.close()


def test_a_security_key_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    for lab in lab_with(tmp_path):
        agent = SecurityKeyAgent(tmp_path / "a")
        agent.close()
        write_security_key(tmp_path / "id_sk", agent.blob)
        error = refusal(lab.target(key=str(tmp_path / "id_sk")))
        assert error.kind == "auth"
        assert "is a security key (sk-ssh-ed25519@openssh.com)" in str(error)
        assert "a plugged-in security key" in error.problems[0].fix


def write_security_key(path: Path, blob: bytes) -> None:
    """A private key file for a device that is not plugged in."""
    secret = SecurityKeyAgent.strings(os.urandom(16))
    head = b"openssh-key-v1\0" + SecurityKeyAgent.strings(b"none", b"none", b"")
    data = head + b"\0\0\0\x01" + SecurityKeyAgent.strings(blob, secret)
    text = base64.encodebytes(data).decode()
    path.write_text(
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}-----END OPENSSH PRIVATE KEY-----\n"
    )
    path.chmod(0o600)


def asked_of_ssh(command: list[str]) -> dict[str, list[str]]:
    """What ssh itself understands of a command line of ours."""
    words = [command[0], "-G", *command[1:]]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    return parse_settings(done.stdout)


def test_the_command_lines_are_strict_whatever_the_configuration_says(tmp_path: Path) -> None:
    require_sshd()
    config = tmp_path / "config"
    config.write_text(
        "StrictHostKeyChecking no\nControlMaster auto\nControlPath /c\nRequestTTY yes\n"
        "RemoteCommand reboot\nLocalForward 1234 x:1\nProxyCommand nc %h %p\n",
    )
    end = Server(
        name="rig",
        alias="rig",
        hostname="rig",
        port=2222,
        user="me",
        options=("-F", str(config), "-p", "2222"),
    )
    route = Route(servers=(end,))
    log_in = asked_of_ssh(login_command(route, tmp_path / "c", 5))
    assert log_in["stricthostkeychecking"] == ["true"]
    assert log_in["batchmode"] == ["yes"]
    assert log_in["controlpath"] == [str(tmp_path / "c")]
    assert log_in["port"] == ["2222"]
    assert "remotecommand" not in log_in
    run = asked_of_ssh(run_command(end, tmp_path / "c", ["rm", "-rf", "a b"]))
    assert run["proxycommand"] == ["false"]
    assert run["controlmaster"] == ["false"]
    look = asked_of_ssh(key_command(route, tmp_path / "seen", 5))
    assert look["userknownhostsfile"] == [str(tmp_path / "seen")]
    assert look["pubkeyauthentication"] == ["false"]
    assert look["proxycommand"] == ["nc %h %p"]
