"""What cannot be reprovisioned is said before anything is reached."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rigops.capture.document import Capture, document
from tests.lab.sshd import free_port
from tests.unit.cli.conftest import apart

if TYPE_CHECKING:
    from pathlib import Path

INVENTORY = """\
rigs = [
    "@local", "@docker/x",
    ("a", {{"ssh_hostname": "127.0.0.1", "ssh_port": {port}, "ssh_config_file": "ssh_config"}}),
]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ssh_config").write_text("UserKnownHostsFile known_hosts\n")
    (tmp_path / "inventory.py").write_text(INVENTORY.format(port=free_port()))
    return tmp_path


def capture(folder: Path, host: str) -> None:
    place = folder / "data" / "rigops" / "vault" / "captures" / host / "20261125T163000Z"
    place.mkdir(parents=True)
    found = Capture(host=host, status="safe", at="2026-11-25T16:30:00Z", place=str(place))
    (place / "capture.json").write_text(json.dumps(document([found])))


def test_what_is_missing_is_a_usage_error(folder: Path) -> None:
    capture(folder, "a")
    wrong = {
        (): "HOST",
        ("nobody",): "not in the inventory",
        ("@local",): "only a host over ssh",
        ("@docker/x",): "connector docker is not supported",
        ("a", "--as", "old"): "captures/old",
        ("a", "--ask-password"): "no terminal to type a password on",
        ("a", "--accept-host-key", "MD5:1"): "not a host key fingerprint",
    }

    every = apart(folder, *(("reprovision", *words) for words in wrong))

    for (words, says), said in zip(wrong.items(), every, strict=True):
        assert said.code == 2, words
        assert says in said.err


def test_a_host_that_is_away_is_unknown_and_its_capture_is_named(folder: Path) -> None:
    captures = ("a", "old")
    for name in captures:
        capture(folder, name)

    every = apart(folder, *(("reprovision", "a", "--as", name, "--json") for name in captures))

    for name, said in zip(captures, every, strict=True):
        assert said.code == 3, said.err
        (host,) = said.json()["hosts"]
        assert (host["host"], host["as"], host["status"]) == ("a", name, "unknown")
        assert host["error"]["kind"] == "refused"
        assert [one["stage"] for one in host["stages"]] == ["trust"]
