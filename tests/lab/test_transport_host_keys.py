"""Whom we talk to is settled before anything is said."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from rigops.transport import HostKeyPolicy, UnknownKey, connect
from tests.lab.connecting import refusal, says
from tests.lab.sshd import (
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
    yield from lab_with(tmp_path, trusted=False)


def test_an_unknown_host_key_is_refused_with_its_fingerprint_and_nobody_logs_in(lab: Lab) -> None:
    error = refusal(lab.target())
    assert error.kind == "key_unknown"
    assert lab.sshd.fingerprint() in str(error)
    assert "ssh-ed25519" in str(error)
    assert f"--accept-host-key {lab.sshd.fingerprint()}" in error.problems[0].fix
    assert error.problems[0].value == lab.sshd.fingerprint()
    assert not lab.known_hosts.exists()
    assert "publickey" not in lab.sshd.log.read_text()


def test_a_key_accepted_by_fingerprint_is_written_down_and_never_asked_about_again(
    lab: Lab,
) -> None:
    lab.known_hosts.write_text("somewhere ssh-ed25519 AAAA")  # and no newline at its end
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint() + "="}))
    assert says(lab.target(), accepted) == b"here\n"
    lines = lab.known_hosts.read_text().splitlines(keepends=True)
    assert lines == ["somewhere ssh-ed25519 AAAA\n", lab.sshd.known_line()]
    assert says(lab.target()) == b"here\n"


def test_a_new_known_hosts_file_and_its_folder_are_private(lab: Lab) -> None:
    file = lab.folder / "new" / "known_hosts"
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}))
    assert says(lab.target(known_hosts_file=str(file)), accepted) == b"here\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_hashed_entry_is_written_where_the_configuration_wants_it_and_found_again(
    lab: Lab,
) -> None:
    lab.config.write_text("HashKnownHosts yes\nGlobalKnownHostsFile /dev/null\n")
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}))
    assert says(lab.target(), accepted) == b"here\n"
    assert lab.known_hosts.read_text().startswith("|1|")
    assert says(lab.target()) == b"here\n"
    found = keygen("-F", f"[127.0.0.1]:{lab.sshd.port}", "-f", str(lab.known_hosts))
    assert "ssh-ed25519" in found


def test_the_question_shows_the_key_and_a_no_is_a_no(lab: Lab) -> None:
    asked: list[UnknownKey] = []

    def answer(key: UnknownKey) -> bool:
        asked.append(key)
        return len(asked) > 1

    policy = HostKeyPolicy(ask=answer)
    assert refusal(lab.target(), policy).kind == "key_unknown"
    assert says(lab.target(), policy) == b"here\n"
    assert says(lab.target(), policy) == b"here\n"
    assert [key.fingerprint for key in asked] == [lab.sshd.fingerprint()] * 2
    assert asked[0].host == "rig"
    assert asked[0].address == f"[127.0.0.1]:{lab.sshd.port}"


def test_two_connections_at_once_ask_one_question(lab: Lab) -> None:
    asked: list[UnknownKey] = []
    answers: list[bytes] = []

    def answer(key: UnknownKey) -> bool:
        asked.append(key)
        return True

    def work() -> None:
        answers.append(says(lab.target(), HostKeyPolicy(ask=answer)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [b"here\n"] * 2
    assert len(asked) == 1
    assert lab.known_hosts.read_text() == lab.sshd.known_line()


def test_thinking_about_the_question_does_not_use_up_the_deadline(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = [0.0]

    def answer(_: UnknownKey) -> bool:
        ahead[0] = 600
        return True

    now = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0])
    monkeypatch.setattr("rigops.transport.clock.time", now)
    policy = HostKeyPolicy(ask=answer)
    with connect(lab.target(), deadline_s=60, host_keys=policy) as connection:
        assert connection.run(["true"], deadline_s=60).exit_code == 0
    assert ahead == [600]


def test_a_changed_host_key_is_refused_and_both_fingerprints_are_shown(
    lab: Lab, tmp_path: Path
) -> None:
    other = make_key(tmp_path / "other")
    words = public(other).split()
    lab.known_hosts.write_text(f"# mine\n[127.0.0.1]:{lab.sshd.port} {words[0]} {words[1]}\n")
    before = lab.known_hosts.read_text()
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}), ask=lambda _: True)
    error = refusal(lab.target(), accepted)
    assert error.kind == "key_changed"
    assert lab.sshd.fingerprint() in str(error)
    assert fingerprint_of(other) in str(error)
    assert f"{lab.known_hosts}:2" in str(error)
    fix = error.problems[0].fix
    assert f"ssh-keygen -R '[127.0.0.1]:{lab.sshd.port}' -f {lab.known_hosts}" in fix
    assert lab.known_hosts.read_text() == before
    assert "publickey" not in lab.sshd.log.read_text()


def test_strict_checking_switched_off_in_the_ssh_configuration_changes_nothing(lab: Lab) -> None:
    lab.config.write_text("StrictHostKeyChecking no\nGlobalKnownHostsFile /dev/null\n")
    assert refusal(lab.target()).kind == "key_unknown"
    assert not lab.known_hosts.exists()


def test_a_revoked_key_is_refused_even_where_it_is_also_known(lab: Lab) -> None:
    lab.trust()
    blob = " ".join(public(lab.sshd.host_key()).split()[:2])
    with lab.known_hosts.open("a") as file:
        file.write(f"@revoked * {blob}\n")
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}))
    error = refusal(lab.target(), accepted)
    assert error.kind == "key_changed"
    assert "@revoked" in str(error)
    assert lab.sshd.fingerprint() in str(error)


def test_lines_that_mean_nothing_here_are_passed_over(lab: Lab, tmp_path: Path) -> None:
    authority = public(make_key(tmp_path / "ca")).strip()
    lines = [
        b"\xff\xfe garbage \x00",
        b"* ssh-frobnicate AAAAB3NzaC1",
        b"|1|not|base64 ssh-ed25519 AAAA",
        b"@mystery * ssh-ed25519 AAAA",
        b"127.0.0.1 1024 35 1234567890123456789",
        b"x" * 200_000,
        f"@cert-authority *.elsewhere.example {authority}".encode(),
        lab.sshd.known_line().encode(),
    ]
    lab.known_hosts.write_bytes(b"\n".join(lines))
    assert says(lab.target()) == b"here\n"


def test_a_known_key_is_found_under_a_pattern_an_alias_and_without_its_port(lab: Lab) -> None:
    blob = " ".join(public(lab.sshd.host_key()).split()[:2])
    lab.known_hosts.write_text(f"[127.0.0.*]:{lab.sshd.port} {blob}\n")
    assert says(lab.target()) == b"here\n"
    lab.known_hosts.write_text(f"127.0.0.1 {blob}\n")
    assert says(lab.target()) == b"here\n"
    lab.known_hosts.write_text(f"the-rig {blob}\n")
    assert refusal(lab.target()).kind == "key_unknown"
    lab.config.write_text("HostKeyAlias the-rig\nGlobalKnownHostsFile /dev/null\n")
    assert says(lab.target()) == b"here\n"


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_a_server_with_several_keys_is_asked_for_the_one_that_is_known(
    tmp_path: Path, kind: str
) -> None:
    require_sshd()
    with Sshd(tmp_path / "server", key_types=("ed25519", "rsa", "ecdsa")) as sshd:
        lab = make_lab(tmp_path, sshd)
        lab.known_hosts.write_text(sshd.known_line(kind))
        assert says(lab.target()) == b"here\n"


def test_a_key_of_another_type_than_the_known_one_counts_as_changed_as_it_does_for_openssh(
    lab: Lab, tmp_path: Path
) -> None:
    words = public(make_key(tmp_path / "old", kind="rsa")).split()
    lab.known_hosts.write_text(f"[127.0.0.1]:{lab.sshd.port} {words[0]} {words[1]}\n")
    assert refusal(lab.target()).kind == "key_changed"
    options = [f"UserKnownHostsFile={lab.known_hosts}", "StrictHostKeyChecking=yes"]
    command = ["ssh", "-F", str(lab.config), "-p", str(lab.sshd.port), "-oBatchMode=yes"]
    command += [f"-o{option}" for option in options]
    openssh = subprocess.run([*command, "127.0.0.1", "true"], capture_output=True, check=False)
    assert b"IDENTIFICATION HAS CHANGED" in openssh.stderr


def test_a_known_hosts_file_that_cannot_be_written_does_not_undo_the_answer(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    accepted = HostKeyPolicy(accept=frozenset({lab.sshd.fingerprint()}))
    target = lab.target(known_hosts_file=str(lab.key / "below-a-file"))
    assert says(target, accepted) == b"here\n"
    assert "could not be written" in caplog.text


def test_importing_the_transport_does_not_import_paramiko() -> None:
    program = "import sys, rigops.transport; assert 'paramiko' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)
