"""Logging in: keys, agents, jump hosts, aliases, and what is said when it fails."""

from __future__ import annotations

import socket
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import paramiko
import pytest
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL
from paramiko.server import InteractiveQuery

from rigops.errors import UsageError
from rigops.transport import HostKeyPolicy, Target, connect
from tests.lab.connecting import KNOWN_ONLY, refusal, says
from tests.lab.sshd import (
    USER,
    Lab,
    Sshd,
    fingerprint_of,
    keygen,
    lab_with,
    make_key,
    make_lab,
    public,
    require_sshd,
)
from tests.shards import LAB_TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_TRANSPORT)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from lab_with(tmp_path)


def add_to_agent(key: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(key)], check=True, stdin=subprocess.DEVNULL)


def test_a_wrong_user_is_refused_and_named(lab: Lab) -> None:
    error = refusal(lab.target(user="nobody-of-this-name"))
    assert error.kind == "auth"
    assert f"nobody-of-this-name@127.0.0.1:{lab.sshd.port}" in str(error)
    assert str(lab.key) in str(error)


def test_a_key_that_the_server_does_not_take_is_named_with_a_fix(lab: Lab, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    error = refusal(lab.target(key=str(other)))
    assert error.kind == "auth"
    assert str(other) in str(error)
    fix = f"ssh-copy-id -p {lab.sshd.port} {USER}@127.0.0.1"
    assert fix in error.problems[0].fix


def test_a_missing_key_file_is_named(lab: Lab) -> None:
    error = refusal(lab.target(key=str(lab.folder / "gone")))
    assert error.kind == "auth"
    assert f"there is no key file {lab.folder / 'gone'}" in str(error)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_keys_of_other_types_log_in_too(lab: Lab, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / "key", kind=kind)
    lab.sshd.allow(key)
    assert says(lab.target(key=str(key))) == b"here\n"


def test_a_locked_key_outside_the_agent_says_ssh_add(lab: Lab, tmp_path: Path) -> None:
    key = make_key(tmp_path / "locked", passphrase="a secret phrase")
    lab.sshd.allow(key)
    error = refusal(lab.target(key=str(key)))
    assert error.kind == "auth"
    assert error.problems[0].fix == f"ssh-add {key}"


def test_a_locked_key_opens_with_its_passphrase_and_a_wrong_one_is_not_repeated(
    lab: Lab, tmp_path: Path
) -> None:
    key = make_key(tmp_path / "locked", passphrase="a secret phrase")
    lab.sshd.allow(key)
    assert says(lab.target(key=str(key), key_password="a secret phrase")) == b"here\n"
    error = refusal(lab.target(key=str(key), key_password="not that phrase"))
    assert "does not unlock" in str(error)
    assert "not that phrase" not in f"{error} {error!r} {error.problems}"


def test_a_locked_key_in_the_agent_logs_in(lab: Lab, tmp_path: Path, agent: Path) -> None:
    plain = make_key(tmp_path / "locked")
    lab.sshd.allow(plain)
    add_to_agent(plain)
    keygen("-p", "-P", "", "-N", "a secret phrase", "-f", str(plain))
    assert says(lab.target(key=str(plain), allow_agent=True)) == b"here\n"
    assert says(lab.target(key=None, allow_agent=True, look_for_keys=False)) == b"here\n"
    assert agent.exists()


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_agent_keys_of_other_types_log_in(lab: Lab, tmp_path: Path, agent: Path, kind: str) -> None:
    key = make_key(tmp_path / "key", kind=kind)
    lab.sshd.allow(key)
    add_to_agent(key)
    (tmp_path / "key").unlink()
    assert says(lab.target(key=None, allow_agent=True, look_for_keys=False)) == b"here\n"
    assert agent.exists()


def test_a_public_key_file_picks_its_key_in_the_agent(
    lab: Lab, tmp_path: Path, agent: Path
) -> None:
    for number in range(7):  # more than a server lets one try
        add_to_agent(make_key(tmp_path / f"other{number}"))
    add_to_agent(lab.key)
    lab.key.unlink()
    lab.config.write_text(
        f"GlobalKnownHostsFile /dev/null\nIdentitiesOnly yes\nIdentityAgent {agent}\n"
        f"IdentityFile {lab.key}.pub\n"
    )
    assert says(lab.target(key=None, allow_agent=True)) == b"here\n"


def test_too_many_keys_say_how_to_name_one(lab: Lab, tmp_path: Path, agent: Path) -> None:
    for number in range(8):
        add_to_agent(make_key(tmp_path / f"other{number}"))
    error = refusal(lab.target(key=None, allow_agent=True, look_for_keys=False))
    assert error.kind == "auth"
    assert "closed the connection during the login" in str(error)
    assert "IdentitiesOnly" in error.problems[0].fix
    assert agent.exists()


def test_an_agent_that_is_gone_is_mentioned(lab: Lab, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    lab.config.write_text(f"GlobalKnownHostsFile /dev/null\nIdentityAgent {tmp_path}/nothing\n")
    error = refusal(lab.target(key=str(other), allow_agent=True))
    assert f"the ssh agent at {tmp_path}/nothing does not answer" in str(error)


def test_the_agent_is_lent_to_the_host_only_on_request(lab: Lab, agent: Path) -> None:
    add_to_agent(lab.key)
    for forward, expected in ((True, fingerprint_of(lab.key)), (False, "")):
        target = lab.target(allow_agent=True, forward_agent=forward)
        with connect(target, host_keys=KNOWN_ONLY) as connection:
            answer = connection.run(["ssh-add", "-l"], deadline_s=60)
        assert expected in answer.stdout.decode()
        assert (answer.exit_code == 0) is forward
    assert agent.exists()


def test_a_certificate_beside_its_key_logs_in(tmp_path: Path) -> None:
    require_sshd()
    authority = make_key(tmp_path / "ca")
    options = (f"TrustedUserCAKeys {authority}.pub",)
    with Sshd(tmp_path / "server", options) as sshd:
        lab = make_lab(tmp_path, sshd)
        lab.trust()
        sshd.authorized.write_text("")
        assert refusal(lab.target()).kind == "auth"
        keygen("-s", str(authority), "-I", "me", "-n", USER, f"{lab.key}.pub")
        assert says(lab.target()) == b"here\n"


def test_an_alias_of_the_ssh_configuration_with_an_include_is_enough(
    lab: Lab, tmp_path: Path
) -> None:
    (tmp_path / "more").write_text(
        f"Host big-*\n  HostName 127.0.0.1\n  Port {lab.sshd.port}\n  User {USER}\n"
        f"  IdentityFile {lab.key}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {lab.known_hosts}\n"
    )
    lab.config.write_text(f"Include {tmp_path}/more\nGlobalKnownHostsFile /dev/null\n")
    target = Target(name="big-rig", config_file=str(lab.config), allow_agent=False)
    with connect(target, host_keys=KNOWN_ONLY) as connection:
        assert connection.run(["echo", "here"], deadline_s=60).stdout == b"here\n"
        assert connection.description == f"{USER}@127.0.0.1:{lab.sshd.port}"


def test_without_an_ssh_program_the_configuration_is_read_all_the_same(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.config.write_text(
        f"Host rig\n  HostName 127.0.0.1\n  Port {lab.sshd.port}\n  User {USER}\n"
        f"  IdentityFile {lab.key}\n  UserKnownHostsFile {lab.known_hosts}\n"
    )
    monkeypatch.setattr("rigops.transport.route.ssh_program", lambda: None)
    target = Target(name="rig", config_file=str(lab.config), allow_agent=False)
    assert says(target) == b"here\n"


def test_a_broken_ssh_configuration_is_the_users_to_mend(lab: Lab) -> None:
    lab.config.write_text("Nonsense yes\n")
    with pytest.raises(UsageError, match="Bad configuration option"):
        connect(lab.target(), host_keys=KNOWN_ONLY)


@pytest.fixture
def inner(lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """A second server, reached through the first, with its own user file."""
    with Sshd(tmp_path / "inner") as sshd:
        sshd.allow(lab.key)
        lab.config.write_text(
            f"GlobalKnownHostsFile /dev/null\nUserKnownHostsFile {lab.known_hosts}\n"
            f"IdentityFile {lab.key}\nUser {USER}\n"
            f"Host bastion\n  HostName 127.0.0.1\n  Port {lab.sshd.port}\n"
            f"Host middle\n  HostName 127.0.0.1\n  Port {lab.sshd.port}\n"
            f"  HostKeyAlias 127.0.0.1-again\n"
            f"Host inside\n  HostName 127.0.0.1\n  Port {sshd.port}\n  ProxyJump bastion\n"
            f"Host deep\n  HostName 127.0.0.1\n  Port {sshd.port}\n  ProxyJump middle,bastion\n"
        )
        yield Lab(tmp_path, sshd, lab.key, lab.config, lab.known_hosts)


def test_a_jump_host_is_passed_and_both_host_keys_are_checked(lab: Lab, inner: Lab) -> None:
    target = Target(name="inside", config_file=str(inner.config), allow_agent=False)
    error = refusal(target)
    assert error.kind == "key_unknown"
    assert inner.sshd.fingerprint() in str(error)
    inner.trust()
    assert says(target) == b"here\n"
    assert "Accepted publickey" in lab.sshd.log.read_text()
    lab.known_hosts.write_text(inner.sshd.known_line())
    error = refusal(target)
    assert error.kind == "key_unknown"
    assert error.host == "bastion"
    assert lab.sshd.fingerprint() in str(error)


def test_a_chain_of_jump_hosts_is_passed_in_its_order(lab: Lab, inner: Lab) -> None:
    inner.trust()
    target = Target(name="deep", config_file=str(inner.config), allow_agent=False)
    error = refusal(target)
    assert (error.kind, error.host) == ("key_unknown", "middle")
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}))
    assert says(target, accepted) == b"here\n"
    assert "127.0.0.1-again ssh-ed25519" in lab.known_hosts.read_text()


def test_a_target_that_the_jump_host_cannot_reach_is_named(lab: Lab, inner: Lab) -> None:
    inner.sshd.stop()
    assert lab.sshd.process is not None
    target = Target(name="inside", config_file=str(inner.config), allow_agent=False)
    error = refusal(target)
    assert error.kind == "refused"
    assert f"bastion ({USER}@127.0.0.1:{lab.sshd.port}) could not connect" in str(error)


class PasswordServer(paramiko.ServerInterface):
    """Takes one password; real sshd would need a system account for that."""

    def __init__(self, methods: str) -> None:
        self.methods = methods
        self.seen: list[str] = []

    def get_allowed_auths(self, username: str) -> str:
        self.seen.append(f"asked by {username}")
        return self.methods

    def check_auth_password(self, username: str, password: str) -> int:
        self.seen.append(f"password of {username}")
        right = password == "open sesame"
        return AUTH_SUCCESSFUL if right else AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.seen.append(f"{key.get_name()} of {username}")
        return AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> InteractiveQuery:
        self.seen.append(f"questions for {username}{submethods}")
        return InteractiveQuery("", "", ("Password: ", False))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        return self.check_auth_password("answer", responses[0])


def serve(folder: Path, methods: str, rounds: int) -> Iterator[tuple[int, PasswordServer]]:
    key = paramiko.Ed25519Key.from_private_key_file(str(make_key(folder / "host")))
    interface = PasswordServer(methods)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def work() -> None:
            for _ in range(rounds):
                link, _ = listener.accept()
                with paramiko.Transport(link) as transport:
                    transport.add_server_key(key)
                    # A client that does not like the key may hang up before this has returned.
                    with suppress(EOFError, paramiko.SSHException):
                        transport.start_server(server=interface)
                    transport.join(60)

        thread = threading.Thread(target=work)
        thread.start()
        port = listener.getsockname()[1]
        (folder / "known").write_text(f"[127.0.0.1]:{port} {public(folder / 'host')}")
        yield port, interface
        thread.join()


def password_target(folder: Path, port: int, password: str) -> Target:
    (folder / "config").write_text("GlobalKnownHostsFile /dev/null\n")
    return Target(
        name="rig",
        hostname="127.0.0.1",
        port=port,
        user="me",
        key=str(make_key(folder / "mine")),
        password=password,
        config_file=str(folder / "config"),
        known_hosts_file=str(folder / "known"),
        allow_agent=False,
    )


@pytest.mark.parametrize("methods", ["publickey,password", "publickey,keyboard-interactive"])
def test_a_password_is_the_last_resort(tmp_path: Path, methods: str) -> None:
    for port, server in serve(tmp_path, methods, 1):
        target = password_target(tmp_path, port, "open sesame")
        connect(target, host_keys=KNOWN_ONLY).close()
        assert "ssh-ed25519 of me" in server.seen
        assert server.seen[-1].startswith("password of")


def test_a_wrong_password_is_refused_and_nowhere_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    for port, _ in serve(tmp_path, "password", 1):
        target = password_target(tmp_path, port, "open barley")
        error = refusal(target)
        assert error.kind == "auth"
        assert "tried the password" in str(error)
        everything = f"{error} {error!r} {error.problems} {target!r} {caplog.text}"
        assert "barley" not in everything


def test_no_password_is_sent_to_a_host_whose_key_is_not_accepted(tmp_path: Path) -> None:
    for port, server in serve(tmp_path, "password", 1):
        (tmp_path / "known").write_text("")
        target = password_target(tmp_path, port, "open sesame")
        assert refusal(target).kind == "key_unknown"
        assert server.seen == []


def test_no_address_and_no_listener_are_told_apart(lab: Lab) -> None:
    lab.sshd.stop()
    error = refusal(lab.target())
    assert error.kind == "refused"
    assert f"127.0.0.1:{lab.sshd.port}" in str(error)
    error = refusal(lab.target(hostname="no-such-rig.invalid"))
    assert error.kind == "dns"
    assert "no-such-rig.invalid" in str(error)
