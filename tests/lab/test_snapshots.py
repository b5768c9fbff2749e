"""Snapshots of a booted host's btrfs: taken, pruned, and sent to its other disk or to a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.snapshot_host import FIRST, HERE, LIVE, PROGRAM, SECOND, SnapshotHost
from tests.shards import LAB_SNAPSHOTS

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_SNAPSHOTS)

RIG: Final = "epyc-8x4090"
THERE: Final = "/there/rigops/epyc/data%2Fhome"
WRAPPER: Final = "/usr/local/sbin/btrfs"  # found before the real one


@pytest.fixture(scope="module")
def on(module_lab: Lab) -> SnapshotHost:
    found = SnapshotHost(module_lab.one(RIG))
    found.install()
    return found


@pytest.mark.story
def test_what_is_due_is_taken_and_sent_and_the_next_one_is_small(on: SnapshotHost) -> None:
    on.start_anew()

    first = on.run("run")
    again = on.run("run")
    on.change()
    second = on.run("backup")

    assert (first.code, again.code, second.code) == (0, 0, 0), first.text + second.text
    assert first.result["sent"], first
    assert first.result["sent"][0]["parent"] is None
    assert again.result["created"] == again.result["sent"] == []
    (sent,) = second.result["sent"]
    assert sent["parent"] == first.names("created")[0]
    assert sent["bytes"] < 2_000_000 < first.result["sent"][0]["bytes"]
    assert on.here() == on.there() == [*first.names("created"), *second.names("created")]
    digests = on.digests()
    assert {digests[f"{HERE}/{name}"] for name in on.here()} == {
        digests[f"{THERE}/{name}"] for name in on.there()
    }
    state = on.state()
    assert state["subvolumes"][LIVE]["error"] is None
    assert state["target"]["newest_at"][LIVE] == state["subvolumes"][LIVE]["newest_at"]
    assert "fail" not in on.does(f"{PROGRAM} check")


def test_a_dry_run_says_what_a_run_does_and_changes_nothing(on: SnapshotHost) -> None:
    on.start_anew()
    on.run("run")
    before = (on.here(), on.there(), on.state())

    dry = on.run("backup", "--dry-run")

    assert (on.here(), on.there(), on.state()) == before
    done = on.run("backup")
    assert dry.names("sent") != []
    for what in ("created", "sent", "pruned"):
        assert len(dry.result[what]) == len(done.result[what])


def test_old_ones_go_and_the_newest_parent_of_an_absent_disk_stays(on: SnapshotHost) -> None:
    on.start_anew(keep="1h")
    on.run("backup")
    (sent,) = on.here()
    old = [f"202611{day:02}T060000Z-timer" for day in range(1, 4)]
    for name in [*old, "20261101T070000Z-apply", "20261104T060000Z-manual"]:
        on.does(f"btrfs -q subvolume snapshot -r {LIVE} {HERE}/{name}")
    on.does(f"echo 20261104T060000Z-manual >{HERE}/pinned")
    on.declare(keep="1h", send_to="00000000-0000-4000-8000-000000000000")
    on.change()

    ran = on.run("backup")

    # That disk is absent, and it is another one than the first: both keep their parents.
    assert ran.code == 0, ran.text
    assert sorted(ran.names("pruned")) == old
    assert "is absent" in ran.text
    assert on.state()["target"]["state"] == "absent"
    newest = ran.names("created")[0]
    assert on.here() == ["20261101T070000Z-apply", "20261104T060000Z-manual", sent, newest]
    on.declare(keep="1h", send_to=on.uuid(SECOND))
    back = on.run("run")
    assert [one["parent"] for one in back.result["sent"]] == [sent]


def test_after_the_first_disk_is_gone_the_next_backup_builds_upon_what_was_restored(
    on: SnapshotHost,
) -> None:
    on.start_anew()
    on.change(20)
    on.run("backup")
    (sent,) = on.there()
    # A new disk: what a restore does by hand.
    on.does(f"umount /data; mkfs.btrfs --quiet --force {FIRST}; mount {FIRST} /data")
    on.does(f"mkdir -p {HERE}")
    on.does_there(f"btrfs -q send {THERE}/{sent} | btrfs -q receive {HERE}")
    on.does(f"btrfs -q subvolume snapshot {HERE}/{sent} {LIVE}; echo new >{LIVE}/new")

    ran = on.run("backup", "--moved")

    assert ran.code == 0, ran.text
    assert [one["parent"] for one in ran.result["sent"]] == [sent]
    assert ran.result["sent"][0]["bytes"] < 20_000_000 * 0.05
    assert on.does_there(f"cat {THERE}/{ran.names('sent')[0]}/new") == "new"


def test_a_second_run_at_once_is_refused_with_the_first_ones_process(on: SnapshotHost) -> None:
    on.start_anew()
    on.does("systemd-run -q --unit=holds flock /run/rigops/snapshots.lock sleep 60")
    on.does("until ! flock -n /run/rigops/snapshots.lock true; do sleep 0.1; done")
    try:
        ran, timer = on.run("backup"), on.run("run")
        before = on.here()
        created = on.run("create", "--kind", "apply")
    finally:
        on.does("systemctl stop holds")

    assert (ran.code, timer.code, before) == (1, 0, [])
    assert "another run works on the snapshots (process" in ran.errors[0]["message"]
    assert "another run works on the snapshots (process" in timer.text
    assert on.here() == created.names("created")  # an apply does not wait for hours of sending


def test_another_host_that_sends_to_the_same_disk_is_left_alone(on: SnapshotHost) -> None:
    on.start_anew()
    on.run("backup")
    kept = on.does_there(
        f"btrfs -q subvolume create {THERE}/20261101T060000Z-manual.mine; ls {THERE}"
    )
    other = SnapshotHost(on.host, "other")
    other.declare(send_to=on.uuid(SECOND))
    other.change()

    ran = other.run("backup")

    assert ran.code == 0, ran.text
    assert on.does_there(f"ls {THERE}") == kept
    assert set(other.there()) >= set(ran.names("created"))


@dataclass(frozen=True)
class Row:
    """What goes wrong, what a person reads, and what ends it. `code`: of the run meanwhile."""

    name: str
    breaks: str
    says: str
    code: int = 1
    mends: str = ":"
    sends: bool = True  # after that


INTERRUPTED = f"""
head -c 5000000 /dev/urandom >{LIVE}/interrupted
btrfs -q subvolume snapshot -r {LIVE} {HERE}/20261124T010203Z-manual
unshare -m sh -c 'mount {SECOND} /there; mkdir {THERE}/../@receiving-0;
  btrfs -q send {HERE}/20261124T010203Z-manual | head -c 2000000 |
  btrfs -q receive {THERE}/../@receiving-0; test -d {THERE}/../@receiving-0/20261124T010203Z-manual'
"""
FAILING = """cat >{wrapper} <<'END'
#!/bin/sh
case "$*" in *{shape}*) {do} ;; esac
exec /usr/bin/btrfs "$@"
END
chmod 755 {wrapper}; test -x /usr/bin/btrfs"""


def failing(shape: str, do: str) -> str:
    return FAILING.format(wrapper=WRAPPER, shape=shape, do=do)


ROWS = (
    Row("an interrupted receive", INTERRUPTED, "removed what an interrupted run left", code=0),
    Row(
        "the parent vanishes there once it is listed",
        failing(
            "receive",
            f"mount {SECOND} /there; for one in {THERE}/*; do"
            f' /usr/bin/btrfs -q subvolume delete "$one" >&2; done; umount /there; rm {WRAPPER}',
        ),
        "is sent in full",
        code=0,
    ),
    Row(
        "the parent here was made writable",
        f"btrfs property set -f {HERE}/*Z-* ro false",
        "is sent in full",
        code=0,
    ),
    Row(
        "the copy there was made writable",
        f"unshare -m sh -c 'mount {SECOND} /there; btrfs property set -f {THERE}/*Z-* ro false;"
        f" echo mine >$(ls -d {THERE}/*Z-*)/mine'",
        "has another snapshot with the name",
        mends=f"unshare -m sh -ec 'mount {SECOND} /there; cat {THERE}/*/mine;"
        f" btrfs -q subvolume delete {THERE}/*Z-*'",
    ),
    Row(
        "the copy there was made writable and is gone here",
        f"unshare -m sh -c 'mount {SECOND} /there; btrfs property set -f {THERE}/*Z-* ro false';"
        f" btrfs -q subvolume delete {HERE}/*Z-*; sleep 1",  # its name is free here at once
        "was made writable: it stays",
        code=0,
        mends=f"unshare -m sh -ec 'mount {SECOND} /there; test $(ls -d {THERE}/*Z-* | wc -l) = 2'",
    ),
    Row(
        "the target is full",
        f"head -c 30000000 /dev/urandom >{LIVE}/big; unshare -m sh -c"
        f" 'mount {SECOND} /there; cat /dev/zero >/there/fill 2>/dev/null; :'",
        "MiB free",
        mends=f"unshare -m sh -c 'mount {SECOND} /there;"
        " rm /there/fill; btrfs filesystem sync /there'",
    ),
    Row(
        "the target is no btrfs",
        f"mkfs.ext4 -q -F -U $(blkid -p -o value -s UUID {SECOND}) {SECOND}; blkid {SECOND}",
        "is ext4, not btrfs",
        mends=f"mkfs.btrfs -q -f {SECOND}; blkid {SECOND}; sed -i"
        ' "s/\\"send_to\\": \\"[^\\"]*/\\"send_to\\": \\"'
        f'$(blkid -p -o value -s UUID {SECOND})/" /etc/rigops/snapshots.json',
    ),
    Row(
        "the target's folder is a file",
        f"unshare -m sh -ec 'mount {SECOND} /there; mv /there/rigops /there/away;"
        " touch /there/rigops'",
        "not followed here. move it away, or name the path without it",
        mends=f"unshare -m sh -ec 'mount {SECOND} /there; rm /there/rigops;"
        " mv /there/away /there/rigops'",
    ),
    Row(
        "the target does not write",
        f"blockdev --setro {SECOND}",
        "read-only",
        mends=f"blockdev --setrw {SECOND}",
    ),
    Row(
        "the target is absent",
        'sed -i \'s/"send_to": "[^"]*/"send_to": "00000000-0000-4000-8000-000000000000/\''
        " /etc/rigops/snapshots.json",
        "is absent (last seen: never)",
        code=0,
        sends=False,
    ),
    Row(
        "the target is the same disk",
        f"sed -i s/$(blkid -p -o value -s UUID {SECOND})/$(blkid -p -o value -s UUID {FIRST})/"
        " /etc/rigops/snapshots.json",
        "is the file system of /data/home",
        sends=False,
    ),
    Row(
        "the target's folder is a file",
        f"unshare -m sh -c 'mount {SECOND} /there; rm -rf /there/rigops/epyc.x;"
        " mv /there/rigops /there/put-aside; touch /there/rigops'",
        "is no folder",
        mends=f"unshare -m sh -c 'mount {SECOND} /there; rm /there/rigops; mv /there/put-aside"
        " /there/rigops'",
    ),
    Row(
        "another snapshot has the name there",
        f"btrfs -q subvolume snapshot -r {LIVE} {HERE}/20261124T010203Z-manual; unshare -m sh -c '"
        f"mount {SECOND} /there; mkdir /there/t; btrfs -q subvolume create /there/t/x; btrfs -q"
        " subvolume snapshot -r /there/t/x /there/t/20261124T010203Z-manual; btrfs -q send"
        f" /there/t/20261124T010203Z-manual | btrfs -q receive {THERE}'",
        "has another snapshot with the name 20261124T010203Z-manual",
        mends=f"unshare -m sh -c 'mount {SECOND} /there; btrfs -q subvolume delete"
        f" {THERE}/20261124T010203Z-manual'",
    ),
    Row(
        "a nested subvolume",
        f"btrfs -q subvolume create {LIVE}/machines",
        "nested subvolumes are not in its snapshots: machines",
        code=0,
    ),
    Row(
        "an old root that has a subvolume inside is to be pruned",
        "for n in 1 2 3 4; do btrfs -q subvolume create"
        f" {HERE}/2026110${{n}}T000000Z-rollback; done;"
        f" btrfs -q subvolume create {HERE}/20261101T000000Z-rollback/inside",
        "subvolumes are inside",
        mends=f"btrfs -q subvolume delete {HERE}/20261101T000000Z-rollback/inside",
    ),
    Row(
        "a folder has the name of the next snapshots",
        "for n in 0 1 2 3 4 5; do"
        f' mkdir {HERE}/$(date -u -d "+$n sec" +%Y%m%dT%H%M%SZ)-manual; done',
        "snapshot ",
        code=0,
    ),
    Row(
        "an active swap file",
        failing(
            "*snapshot*",
            "echo \"ERROR: cannot snapshot '/data/home': Text file busy\" >&2; exit 1",
        ),
        "a swap file in it is active",
        mends=f"rm {WRAPPER}",
    ),
    Row(
        "the subvolume is not mounted",
        "umount /data",
        "/data/home does not exist",
        mends=f"mount {FIRST} /data",
    ),
    Row(
        "the subvolume is a plain directory",
        f"mv {LIVE} {LIVE}.x; mkdir {LIVE}",
        "is a directory, not a subvolume",
        mends=f"rmdir {LIVE}; mv {LIVE}.x {LIVE}",
    ),
    Row(
        "another file system lies over it",
        f"mount -t tmpfs none {LIVE}",
        "is on another file system than at the last backup",
        mends=f"umount {LIVE}",
    ),
    Row(
        "the clock went back",
        f"btrfs -q subvolume snapshot -r {LIVE} {HERE}/20990101T000000Z-timer",
        "from the future",
        code=0,
    ),
    Row(
        "the first disk is full",
        f"cat /dev/zero >{LIVE}/fill 2>/dev/null; sync; cat /dev/zero >{LIVE}/fill2 2>/dev/null;"
        f" sync; for n in 1 2 3; do cat /dev/zero >>{LIVE}/fill3 2>/dev/null; sync; done; :",
        "",
        code=-1,  # btrfs may still have room for what makes a snapshot
        mends=f"rm {LIVE}/fill*; sync; btrfs filesystem sync /data",
    ),
    Row(
        "the state is damaged",
        "echo '{\"schema' >/var/lib/rigops/snapshots.json",
        "sent ",
        code=0,
    ),
    Row(
        "the settings are damaged",
        "cp /etc/rigops/snapshots.json /tmp/s; echo '{' >/etc/rigops/snapshots.json",
        "/etc/rigops/snapshots.json cannot be read",
        mends="cp /tmp/s /etc/rigops/snapshots.json",
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_failure_is_named_harms_nothing_and_the_next_run_succeeds(
    row: Row, on: SnapshotHost
) -> None:
    on.start_anew(keep="")
    assert on.run("backup").code == 0
    before = on.digests()
    on.does(row.breaks)

    ran = on.run("backup")

    assert row.code in {ran.code, -1}, ran.text + ran.stderr
    assert row.says in ran.text
    assert all(one["message"] for one in ran.errors)
    on.does(row.mends)
    following = on.run("backup")
    assert following.code == (0 if row.sends or row.code == 0 else 1), following.text
    assert bool(following.result["sent"]) == row.sends
    if (
        "no btrfs" not in row.name
        and "made writable" not in row.name
        and "vanishes" not in row.name
    ):
        after = on.digests()
        assert {path: after.get(path) for path in before} == before


def test_one_subvolume_that_fails_does_not_stop_the_others(on: SnapshotHost) -> None:
    on.start_anew()
    on.does("btrfs -q subvolume create /data/other")
    on.declare(send_to=on.uuid(SECOND), subvolumes=["/nowhere", LIVE, "/data/other"])

    ran = on.run("run")

    assert ran.code == 1
    assert [one["path"] for one in ran.result["sent"]] == [LIVE, "/data/other"]
    state = on.state()["subvolumes"]
    assert "does not exist" in state["/nowhere"]["error"]
    assert state[LIVE]["error"] is None


def test_a_scrub_notes_what_it_found(on: SnapshotHost) -> None:
    on.start_anew()
    on.run("backup")

    ran = on.run("scrub")

    assert ran.code == 0, ran.text
    scrubbed = on.state()["scrub"]
    assert set(scrubbed) == {on.uuid(FIRST), on.uuid(SECOND)}
    assert {one["errors"] for one in scrubbed.values()} == {0}
