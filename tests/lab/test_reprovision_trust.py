"""Before the new host key is accepted, nothing is sent to a host; and then to that key alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from rigops.capture.document import Capture, document
from rigops.reprovision import trust
from rigops.reprovision.bootstrap import Bootstrap
from rigops.transport import HostKeyPolicy, TransportError
from rigops.transport.key_files import fingerprint
from tests.lab.sshd import Lab, Sshd, lab_with
from tests.shards import LAB_REPROVISION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rigops.reprovision.trust import Introduction

pytestmark = pytest.mark.shard(LAB_REPROVISION)

PASSWORD = "never-to-be-sent"
EVERYTHING = ("LogLevel DEBUG3", "PasswordAuthentication yes")  # the log has each message
A_LOGIN = "userauth"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A host that was known by another key before it was installed again."""
    for lab in lab_with(tmp_path, *EVERYTHING):
        lab.sshd.stop()
        reinstalled = other_server(lab, "reinstalled")
        with reinstalled:
            yield Lab(lab.folder, reinstalled, lab.key, lab.config, lab.known_hosts)


def other_server(lab: Lab, name: str) -> Sshd:
    return Sshd(lab.folder / name, EVERYTHING, port=lab.sshd.port)


def write_inventory(lab: Lab) -> Path:
    target = lab.target()
    data = {
        "ssh_hostname": target.hostname,
        "ssh_port": target.port,
        "ssh_user": target.user,
        "ssh_key": target.key,
        "ssh_known_hosts_file": target.known_hosts_file,
        "ssh_config_file": target.config_file,
    }
    inventory = lab.folder / "inventory.py"
    inventory.write_text(f"rigs = [('rig', {data!r})]\n")
    return inventory


def rigops(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rigops", *words],
        env={**os.environ, "XDG_DATA_HOME": str(lab.folder / "data")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def fingerprints_of(known_hosts: str) -> list[str]:
    return [fingerprint(b64decode(line.split()[2])) for line in known_hosts.splitlines()]


def introduced(lab: Lab, *captured: str) -> Introduction:
    return trust.introduce(lab.target(), captured, HostKeyPolicy())


def test_the_new_key_is_seen_and_nobody_logs_in(lab: Lab) -> None:
    before = lab.known_hosts.read_bytes()

    found = introduced(lab)

    assert (found.state, found.fingerprint) == ("changed", lab.sshd.fingerprint())
    assert found.known is not None
    assert lab.known_hosts.read_bytes() == before
    assert A_LOGIN not in lab.sshd.log.read_text()
    assert "kex" in lab.sshd.log.read_text()


def test_an_accepted_key_is_the_known_one_and_other_lines_stay(lab: Lab) -> None:
    other = "somewhere ssh-ed25519 AAAA # no newline at its end"
    lab.known_hosts.write_text(lab.known_hosts.read_text() + other)

    assert trust.accept(introduced(lab)) == []

    assert lab.known_hosts.read_text() == lab.sshd.known_line() + other
    assert introduced(lab).state == "known"


def test_another_key_than_the_accepted_one_is_refused_and_gets_nothing(lab: Lab) -> None:
    inventory = write_inventory(lab)
    place = lab.folder / "data" / "rigops" / "vault" / "captures" / "rig" / "20261125T163000Z"
    place.mkdir(parents=True)
    captured = Capture(host="rig", status="safe", at="2026-11-25T16:30:00Z", place=str(place))
    (place / "capture.json").write_text(json.dumps(document([captured])))
    known = lab.known_hosts.read_bytes()
    (other,) = fingerprints_of(lab.known_hosts.read_text())
    words = ["reprovision", "rig", "-i", str(inventory), "--yes", "--json"]

    for more in ((), ("--accept-host-key", other)):
        said = rigops(lab, *words, *more)
        (host,) = json.loads(said.stdout)["hosts"]

        assert (said.returncode, host["status"]) == (3, "unknown"), said.stderr
        assert host["error"]["kind"] == "key_changed"
        assert lab.sshd.fingerprint() in host["error"]["message"]
        assert [one["stage"] for one in host["stages"]] == ["trust"]
    assert lab.known_hosts.read_bytes() == known
    assert "kex" in lab.sshd.log.read_text()
    assert A_LOGIN not in lab.sshd.log.read_text()


def test_openssh_follows_with_the_configuration_that_rigops_prints(lab: Lab) -> None:
    lab.sshd.allow(lab.key)
    config = lab.folder / "rigs"
    config.write_text(rigops(lab, "ssh-config", "-i", str(write_inventory(lab))).stdout)
    login = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "rig", "true"]
    before = subprocess.run(login, check=False, capture_output=True, text=True)

    trust.accept(introduced(lab))

    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in before.stderr
    assert subprocess.run(login, check=False).returncode == 0


def test_the_key_of_the_captured_host_is_recognized(lab: Lab) -> None:
    assert introduced(lab, lab.sshd.fingerprint()).state == "captured"


def test_a_revoked_key_is_refused(lab: Lab) -> None:
    lab.known_hosts.write_text(f"@revoked {lab.sshd.known_line()}")

    with pytest.raises(TransportError, match="@revoked"):
        introduced(lab)


def test_between_acceptance_and_login_another_server_gets_no_key_and_no_password(
    lab: Lab,
) -> None:
    trust.accept(introduced(lab))
    lab.sshd.stop()
    asked: list[str] = []

    def ask(login: str, *, again: bool) -> str:
        asked.append(f"{login} {again}")
        return PASSWORD

    for prefers_password in (False, True):
        with other_server(lab, f"man-in-the-middle-{prefers_password}") as middle:
            bootstrap = Bootstrap(
                lab.target(user="root"),
                Capture(host="rig", status="safe"),
                "root",
                ask=ask,
                prefers_password=prefers_password,
            )
            with pytest.raises(TransportError) as refused:
                bootstrap.run()
            log = middle.log.read_text()

        assert refused.value.kind == "key_changed"
        assert middle.fingerprint() in str(refused.value)
        assert "kex" in log
        assert A_LOGIN not in log
