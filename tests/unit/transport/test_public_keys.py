from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.transport import public_keys as module
from rigops.transport import route
from rigops.transport.public_keys import public_keys, read_public_key
from rigops.transport.target import Target

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed"
)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ~/.ssh of a person without an agent."""
    for one in (module, route):
        monkeypatch.setattr(one, "home", lambda: tmp_path)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    folder = tmp_path / ".ssh"
    folder.mkdir()
    return folder


def _make(path: Path, comment: str) -> str:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(words, check=True)
    return path.with_name(f"{path.name}.pub").read_text().strip()


def _target(folder: Path, **options: str) -> Target:
    config = folder / "config-of-test"
    lines = "".join(f"    {name} {value}\n" for name, value in options.items())
    config.write_text(f"Host rig\n{lines}")
    return Target(name="rig", config_file=str(config))


def test_the_usual_keys_and_all_others_are_found_once(ssh: Path) -> None:
    usual, other = _make(ssh / "id_ed25519", "me@laptop"), _make(ssh / "work", "work")
    found = public_keys(_target(ssh, IdentityFile=str(ssh / "id_ed25519")))
    assert found == (usual, other)


def test_with_identities_only_no_other_key_is_taken(ssh: Path) -> None:
    _make(ssh / "id_ed25519", "me@laptop")
    work = _make(ssh / "work", "work")
    target = _target(ssh, IdentityFile=str(ssh / "work"), IdentitiesOnly="yes")
    assert public_keys(target) == (work,)


def test_a_key_without_its_pub_file_is_read_from_the_private_one(ssh: Path) -> None:
    line = _make(ssh / "work", "work")
    (ssh / "work.pub").unlink()
    target = _target(ssh, IdentityFile=str(ssh / "work"), IdentitiesOnly="yes")
    assert public_keys(target) == (line.rpartition(" ")[0],)


@pytest.mark.skipif(not shutil.which("ssh-agent"), reason="ssh-agent is not installed")
def test_a_key_that_is_in_the_agent_alone_is_found(
    ssh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "agent"
    started = subprocess.run(
        ["ssh-agent", "-s", "-a", str(socket)], check=True, capture_output=True, text=True
    )
    process = int(started.stdout.partition("SSH_AGENT_PID=")[2].partition(";")[0])
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        line = _make(tmp_path / "elsewhere", "of the agent")
        subprocess.run(["ssh-add", "-q", str(tmp_path / "elsewhere")], check=True)
        assert public_keys(_target(ssh)) == (line,)
        assert public_keys(_target(ssh, IdentitiesOnly="yes")) == ()
    finally:
        os.kill(process, signal.SIGTERM)


@pytest.mark.parametrize("text", ["", "ssh-ed25519 AAAA", "ssh-rsa \x1b[31m", "-----BEGIN"])
def test_what_is_no_public_key_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    assert read_public_key(tmp_path / "key") is None


def test_there_are_none_without_an_ssh_folder(ssh: Path) -> None:
    ssh.rmdir()
    assert public_keys(Target(name="@local", local=True)) == ()
