"""Snapshots that go to a server over ssh, where the key may do that and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.seed import SSHD_PORT
from tests.lab.snapshot_host import HERE, KEY, KNOWN, LIVE, SECOND, SnapshotHost, let_in
from tests.lab.sshd import until
from tests.shards import LAB_SNAPSHOTS

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_SNAPSHOTS)

ASK: Final = f"ssh -T -i {KEY} -o BatchMode=yes -o UserKnownHostsFile={KNOWN} server"


@pytest.fixture(scope="module")
def pair(module_lab: Lab) -> tuple[SnapshotHost, SnapshotHost]:
    """A host, and the server that it sends to."""
    host, server = (SnapshotHost(one) for one in module_lab.up("epyc-8x4090", "epyc-8x4090"))
    for one in (host, server):
        one.install()
        one.start_anew()
    server.does(f"mkdir -p /backup; mount {SECOND} /backup; mkdir /backup/epyc; touch /secret")
    let_in(server, host, "/backup/epyc", SSHD_PORT)
    host.declare(send_to="root@server:/backup/epyc")
    return host, server


def test_it_gets_what_it_lacks_and_the_next_one_is_small(
    pair: tuple[SnapshotHost, SnapshotHost],
) -> None:
    host, server = pair

    first = host.run("backup")
    host.change()
    second = host.run("backup")

    assert (first.code, second.code) == (0, 0), first.text + second.text + first.stderr
    assert second.result["sent"][0]["parent"] == first.names("sent")[0]
    assert second.result["sent"][0]["bytes"] < 2_000_000
    there = server.does("ls /backup/epyc/data%2Fhome").split()
    assert there[-1] == host.here()[-1]
    theirs = server.does(f"sha256sum </backup/epyc/data%2Fhome/{there[-1]}/sub/big")
    assert theirs == host.does(f"sha256sum <{LIVE}/sub/big")
    assert host.state()["target"]["state"] == "present"


def test_of_a_receive_that_was_cut_off_nothing_stays(
    pair: tuple[SnapshotHost, SnapshotHost],
) -> None:
    host, server = pair
    host.run("backup")
    host.change(5)
    half = "20261124T010203Z-manual"
    host.does(f"btrfs -q subvolume snapshot -r {LIVE} {HERE}/{half}")
    before = server.does("ls -A /backup/epyc /backup/epyc/*")
    host.host.run(
        f"btrfs -q send {HERE}/{half} | head -c 1000000 | {ASK} receive data%2Fhome {half}"
    )
    until(lambda: server.does("ls -A /backup/epyc /backup/epyc/*") == before, "its removal")

    ran = host.run("backup")

    assert ran.code == 0, ran.text
    assert half in server.does("ls /backup/epyc/data%2Fhome").split()


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "sh",
        "list ../../data",
        "list ..",
        "receive data%2Fhome/../.. 20261124T010203Z-manual",
        "receive data%2Fhome",
        "delete data%2Fhome ../../../secret",
        "delete data%2Fhome pinned",
        "send data%2Fhome",
        "list 'a;id'",
        "tar data%2Fhome {name} ../../../../../../secret",
        "tar data%2Fhome {name} /etc/shadow",
        "tar data%2Fhome {name} out/etc/shadow",
        "cat /secret",
    ],
)
def test_the_key_does_nothing_else(pair: tuple[SnapshotHost, SnapshotHost], asked: str) -> None:
    host, server = pair
    if host.host.run(f"test -L {LIVE}/out").returncode != 0:  # once for all of them
        host.does(f"ln -sfn / {LIVE}/out")
        host.run("backup")
    name = host.here()[-1]
    before = server.does("ls -R /backup; ls /secret")

    done = host.host.run(f"{ASK} {json.dumps(asked.format(name=name))}")

    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ") or "Error: " in done.stderr
    assert server.does("ls -R /backup; ls /secret") == before


def test_one_file_comes_as_tar(pair: tuple[SnapshotHost, SnapshotHost]) -> None:
    host, _ = pair
    name = host.here()[-1]
    asked = f"{ASK} tar data%2Fhome {name} small | tar -xO"

    assert host.does(asked) == "one"


def test_a_server_that_does_not_answer_is_no_failure(
    pair: tuple[SnapshotHost, SnapshotHost],
) -> None:
    host, _ = pair
    host.does("sed -i 's/Port .*/Port 1/' /root/.ssh/config")
    away = host.run("backup")
    host.does(f"sed -i 's/Port .*/Port {SSHD_PORT}/' /root/.ssh/config")
    assert away.code == 0
    assert host.state()["target"]["state"] == "unreachable"
    assert "is unreachable" in away.text


def test_a_server_whose_disk_is_not_mounted_is_named_and_gets_nothing(
    pair: tuple[SnapshotHost, SnapshotHost],
) -> None:
    host, server = pair
    server.does("umount -l /backup")
    gone = host.run("backup")
    server.does("mkdir /backup/epyc")
    other = host.run("backup")
    left = server.does("ls -A /backup/epyc; rmdir /backup/epyc")
    server.does(f"mount {SECOND} /backup")

    assert (gone.code, other.code, left) == (1, 1, "")
    assert "/backup/epyc does not exist on the server" in gone.text
    assert "not on btrfs" in other.text
    assert host.state()["target"]["state"] == "failed"
    assert host.run("backup").code == 0
