"""Who asks a server for its key: paramiko where it can, else the ssh program."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rigops.transport import HostKey, HostKeyPolicy, Target, fetch_shown_key, ssh, ssh_program
from rigops.transport.errors import NeedsProgramError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rigops.transport.clock import Clock
    from rigops.transport.route import Route

HERE, PROGRAM = HostKey("ssh-ed25519", b"here"), HostKey("ssh-ed25519", b"program")


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., HostKey]:
    """The key of a server with this configuration."""

    def fetch(configuration: str, *, paramiko_can: bool = True) -> HostKey:
        def here(route: Route, _policy: HostKeyPolicy, _clock: Clock) -> HostKey:
            assert route.end.hostname == "10.0.0.5"
            if paramiko_can:
                return HERE
            raise NeedsProgramError("a key of a kind that paramiko does not read")

        monkeypatch.setattr(ssh, "fetch_shown_key", here)
        monkeypatch.setattr(ssh_program, "fetch_shown_key", lambda *_: PROGRAM)
        file = tmp_path / "ssh_config"
        file.write_text(f"HostName 10.0.0.5\n{configuration}\n")
        target = Target(name="rig", config_file=str(file))
        server, key = fetch_shown_key(target, host_keys=HostKeyPolicy())
        assert server.name == "rig"
        return key

    return fetch


def test_a_server_is_asked_without_a_program(shown: Callable[..., HostKey]) -> None:
    assert shown("") == HERE


@pytest.mark.skipif(not shutil.which("ssh"), reason="openssh-client is not installed")
def test_where_only_openssh_gets_there_its_program_asks(shown: Callable[..., HostKey]) -> None:
    assert shown("ProxyCommand nc %h %p") == PROGRAM


def test_what_paramiko_finds_itself_unable_to_do_the_program_does(
    shown: Callable[..., HostKey],
) -> None:
    assert shown("", paramiko_can=False) == PROGRAM
