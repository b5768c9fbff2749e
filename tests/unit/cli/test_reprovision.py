"""What cannot be reprovisioned is said before anything is reached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rigops.capture.document import Capture, document
from tests.lab.sshd import free_port
from tests.unit.cli.conftest import Said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

INVENTORY = """\
rigs = [
    ("a", {{"ssh_hostname": "127.0.0.1", "ssh_port": {port}, "ssh_config_file": "ssh_config"}}),
    "@local",
]
"""


@pytest.fixture
def rigops(tmp_path: Path) -> Rigops:
    """In a process of its own: what converges makes gevent replace the threads of all of it."""
    (tmp_path / "ssh_config").write_text("UserKnownHostsFile known_hosts\n")
    (tmp_path / "inventory.py").write_text(INVENTORY.format(port=free_port()))

    def run(*arguments: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "rigops", *arguments],
            cwd=tmp_path,
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run


def capture(folder: Path, host: str) -> None:
    place = folder / "data" / "rigops" / "vault" / "captures" / host / "20261125T163000Z"
    place.mkdir(parents=True)
    found = Capture(host=host, status="safe", at="2026-11-25T16:30:00Z", place=str(place))
    (place / "capture.json").write_text(json.dumps(document([found])))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "HOST"),
        (("nobody",), "not in the inventory"),
        (("@local",), "only a host over ssh"),
        (("a",), "no capture in"),
        (("a", "--as", "old"), "captures/old"),
        (("a", "--ask-password"), "no terminal to type a password on"),
        (("a", "--accept-host-key", "MD5:1"), "not a host key fingerprint"),
    ],
)
def test_what_is_missing_is_a_usage_error(
    rigops: Rigops, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    if "MD5:1" in words:
        capture(tmp_path, "a")

    said = rigops("reprovision", *words)

    assert said.code == 2, said.err
    assert says in said.err


@pytest.mark.parametrize("captured_as", ["a", "old"])
def test_a_host_that_is_away_is_unknown_and_its_capture_is_named(
    rigops: Rigops, tmp_path: Path, captured_as: str
) -> None:
    capture(tmp_path, captured_as)

    said = rigops("reprovision", "a", "--as", captured_as, "--json")

    assert said.code == 3, said.err
    (host,) = said.json()["hosts"]
    assert (host["host"], host["as"], host["status"]) == ("a", captured_as, "unknown")
    assert host["error"]["kind"] == "refused"
    assert [one["stage"] for one in host["stages"]] == ["trust"]
