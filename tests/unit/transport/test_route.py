from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rigops.errors import UsageError
from rigops.transport import Target, TransportError
from rigops.transport.clock import Clock
from rigops.transport.route import (
    Route,
    Server,
    home,
    make_server,
    parse_settings,
    read_settings_without_program,
    resolve,
)
from rigops.transport.ssh_program import explain, login_command, run_command

PRINTED = """\
host rig
user me
hostname 10.0.0.5
port 2222
addressfamily inet6
identitiesonly yes
hashknownhosts yes
gssapiauthentication yes
identityfile ~/.ssh/id_rsa
identityfile %d/keys/%h-%r
identityagent none
userknownhostsfile /home/me/.ssh/known_hosts ~/.ssh/more
globalknownhostsfile /dev/null
hostkeyalias the-rig
proxyjump none
"""


def server(**changes: object) -> Server:
    values: dict[str, object] = {
        "name": "rig",
        "alias": "rig",
        "hostname": "10.0.0.5",
        "port": 22,
        "user": "me",
    }
    return Server(**{**values, **changes})  # type: ignore[arg-type]  # real fields


def test_what_ssh_prints_becomes_a_server() -> None:
    found = make_server(Target(name="rig"), parse_settings(PRINTED))
    assert found.where == "me@10.0.0.5:2222"
    assert found.who == "rig (me@10.0.0.5:2222)"
    assert found.identities == (home() / ".ssh/id_rsa", home() / "keys/10.0.0.5-me")
    assert found.only_identities
    assert found.agent_socket is None
    assert found.known_hosts == (Path("/home/me/.ssh/known_hosts"), home() / ".ssh/more")
    assert found.lookup == "the-rig"
    assert found.family == "inet6"
    assert found.hash_known_hosts
    assert found.only_openssh == ""


def test_what_the_user_says_wins_over_the_configuration() -> None:
    target = Target(name="rig", key="/k", known_hosts_file="/kh", forward_agent=True)
    found = make_server(target, parse_settings(PRINTED))
    assert found.identities == (Path("/k"),)
    assert found.known_hosts == (Path("/kh"),)
    assert found.forward_agent


def test_usual_keys_are_left_out_on_request() -> None:
    found = make_server(Target(name="rig", look_for_keys=False), parse_settings(PRINTED))
    assert found.identities == (home() / "keys/10.0.0.5-me",)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("proxycommand nc %h %p", "ProxyCommand"),
        ("certificatefile /c", "CertificateFile"),
        ("pkcs11provider /lib.so", "PKCS11Provider"),
        ("knownhostscommand /bin/x", "KnownHostsCommand"),
        ("revokedhostkeys /krl", "RevokedHostKeys"),
    ],
)
def test_what_only_openssh_can_do_is_seen(line: str, named: str) -> None:
    found = make_server(Target(name="rig"), parse_settings(line))
    assert found.only_openssh.startswith(named)


def test_the_agent_may_be_named_in_several_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/usual")
    monkeypatch.setenv("MY_AGENT", "/run/mine")

    def socket(line: str, *, allow_agent: bool = True) -> str | None:
        target = Target(name="rig", allow_agent=allow_agent)
        return make_server(target, parse_settings(line)).agent_socket

    assert socket("") == "/run/usual"
    assert socket("identityagent SSH_AUTH_SOCK") == "/run/usual"
    assert socket("identityagent $MY_AGENT") == "/run/mine"
    assert socket("identityagent ${MY_AGENT}") == "/run/mine"
    assert socket("identityagent ~/agent") == str(home() / "agent")
    assert socket("", allow_agent=False) is None


@pytest.mark.parametrize(
    ("hostname", "port", "expected"),
    [("Rig.lan", 22, "rig.lan"), ("rig", 2222, "[rig]:2222"), ("::1", 22, "::1")],
)
def test_the_name_in_known_hosts_files(hostname: str, port: int, expected: str) -> None:
    assert server(hostname=hostname, port=port).lookup == expected


def configured(tmp_path: Path, text: str) -> str:
    file = tmp_path / "config"
    file.write_text(text)
    return str(file)


def test_jumps_are_followed_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rigops.transport.route.ssh_program", lambda: None)
    config = configured(
        tmp_path,
        "Host rig\n ProxyJump a,me@b:2222\nHost a\n HostName a.lan\n ProxyJump first\n"
        "Host b\n HostName b.lan\n ProxyJump ignored\n",
    )
    route = resolve(Target(name="rig", config_file=config), Clock(10))
    assert [server.hostname for server in route.servers] == ["first", "a.lan", "b.lan", "rig"]
    assert route.servers[2].where == "me@b.lan:2222"


def test_a_circle_of_jumps_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rigops.transport.route.ssh_program", lambda: None)
    config = configured(tmp_path, "Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
    with pytest.raises(UsageError, match="circular"):
        resolve(Target(name="a", config_file=config), Clock(20))


def test_a_configuration_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ssh configuration"):
        resolve(Target(name="a", config_file=str(tmp_path / "none")), Clock(10))


def test_an_ssh_that_hangs_costs_no_more_than_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\nexec sleep 30\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(TransportError) as caught:
        resolve(Target(name="a"), Clock(0.3))
    assert caught.value.kind == "timeout"
    assert "ssh -G" in str(caught.value)


def test_the_fallback_reader_gives_the_same_kind_of_settings(tmp_path: Path) -> None:
    config = configured(tmp_path, "Host rig\n HostName 10.0.0.5\n IdentityFile /k\n Port 2222\n")
    target = Target(name="rig", config_file=config, user="me")
    found = make_server(target, read_settings_without_program(target))
    assert found.where == "me@10.0.0.5:2222"
    assert found.identities == (Path("/k"),)


def test_the_fallback_reader_knows_match_exec_where_paramiko_came_without_it(
    tmp_path: Path,
) -> None:
    config = configured(tmp_path, 'Match exec "true"\n HostName 10.0.0.5\n')
    program = (
        "import sys, rigops.transport.without_invoke\n"
        "from rigops.transport import Target\n"
        "from rigops.transport.route import read_settings_without_program\n"
        "target = Target(name='rig', config_file=sys.argv[1])\n"
        "print(read_settings_without_program(target)['hostname'])\n"
    )
    found = subprocess.check_output(
        [sys.executable, "-c", program, config], stdin=subprocess.DEVNULL, text=True
    )
    assert found == "['10.0.0.5']\n"


def test_a_command_stays_one_quoted_word_behind_the_host(tmp_path: Path) -> None:
    words = run_command(server(), tmp_path / "c", ["-x", "a b"])
    assert words[-3:] == ["--", "rig", "-x 'a b'"]


def test_jump_hosts_are_nested_with_their_percent_signs_kept(tmp_path: Path) -> None:
    first = server(alias="first", options=("-o", "UserKnownHostsFile=/a%%b"))
    second = server(alias="second")
    command = login_command(Route(servers=(first, second, server())), tmp_path / "c", 5)
    (outer,) = [word for word in command if word.startswith("ProxyCommand=")]
    assert outer.endswith(" -W '[%h]:%p' -- second")
    # As ssh and a shell take it apart, level by level.
    expanded = outer.replace("[%h]:%p", "HERE").replace("%%", "%").replace("HERE", "[%h]:%p")
    inner_words = shlex.split(expanded.partition("=")[2])
    (inner,) = [word for word in inner_words if word.startswith("ProxyCommand=")]
    assert inner.endswith(" -W '[%h]:%p' -- first")
    assert "UserKnownHostsFile=/a%%%%b" in inner
    assert inner_words.count("StrictHostKeyChecking=yes") == 1


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("No ED25519 host key is known for rig and you have requested strict", "key_unknown"),
        ("Host key verification failed.", "key_unknown"),
        ("me@rig: Permission denied (publickey).", "auth"),
        ("ssh: Could not resolve hostname rig: Name or service not known", "dns"),
        ("ssh: connect to host rig port 22: Connection refused", "refused"),
        ("ssh: connect to host rig port 22: No route to host", "refused"),
        ("ssh: connect to host rig port 22: Connection timed out", "timeout"),
        ("channel 0: open failed: connect failed: Connection refused", "refused"),
        ("", "lost"),
        ("something \x1b[31mnew", "lost"),
    ],
)
def test_what_ssh_says_becomes_one_of_our_kinds(said: str, kind: str) -> None:
    error = explain(server(), said, "CertificateFile in the ssh configuration")
    assert error.kind == kind
    assert error.host == "rig"
    assert "\x1b" not in str(error)
    assert "since CertificateFile" in str(error)
    assert error.problems[0].fix


def test_the_programs_errors_never_offer_a_password() -> None:
    error = explain(server(password="open sesame"), "Permission denied (password).", "x")
    assert "does not get the password" in error.problems[0].fix
    assert "sesame" not in f"{error} {error.problems} {server(password='open sesame')!r}"
