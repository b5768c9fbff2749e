"""What goes wrong with backups: each is named, harms nothing, and the next run succeeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.borg_host import (
    BORG,
    LIVE,
    PASSPHRASE,
    PROGRAM,
    REPOSITORY,
    SECRET,
    STATE,
    WRAPPER,
    BorgHost,
)
from tests.lab.test_restore import below
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_BORG)

RIG: Final = "epyc-8x4090"
LOCK: Final = f"mkdir {REPOSITORY}/lock.exclusive; touch {REPOSITORY}/lock.exclusive"
# A byte of the largest piece of data is another one.
CORRUPT: Final = f"""
import glob, os
path = max(glob.glob("{REPOSITORY}/data/*/*"), key=os.path.getsize)
with open(path, "r+b") as file:
    file.seek(os.path.getsize(path) // 2)
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 255]))
"""


@pytest.fixture(scope="module")
def on(module_lab: Lab) -> BorgHost:
    found = BorgHost(module_lab.one(RIG))
    found.install()
    return found


@dataclass(frozen=True)
class Row:
    """What goes wrong, what a person reads, and what ends it. `code`: of the run meanwhile."""

    name: str
    breaks: str
    says: str
    state: str = "failed"
    code: int = 1
    mends: str = ":"
    words: tuple[str, ...] = ("backup",)  # that mend it, or that follow


ROWS: Final = (
    Row(
        "the disk is not mounted",
        "umount /mnt/backup",
        "is absent (last seen: 2",
        "absent",
        mends="mount /dev/sdb /mnt/backup",
    ),
    Row(
        "the repository was moved",
        f"mv {REPOSITORY} /mnt/backup/new; sed -i s,{REPOSITORY},/mnt/backup/new,"
        " /etc/rigops/borg.json",
        "was at another place before",
        words=("backup", "--moved"),
    ),
    Row(
        "another host works on it",
        f"{LOCK}/other@123.99-0",
        "locked by other (process 99) for 0 min",
        "locked",
        mends=f"{BORG} break-lock {REPOSITORY}",
    ),
    Row(
        "another host's lock is stale",
        f"{LOCK}/other@123.99-0; touch -d '3 days ago' {REPOSITORY}/lock.exclusive/*",
        "locked by other (process 99) for 3 d",
        "locked",
        mends=f"{BORG} break-lock {REPOSITORY}",
    ),
    Row(
        "an own process has crashed",
        f"{LOCK}/$(python3 -c 'import socket, uuid;"
        ' print(f"{socket.getfqdn()}@{uuid.getnode()}")\').4194000-0',
        "new in",
        "ok",
        code=0,
    ),
    Row(
        "the passphrase is wrong",
        f"chmod 600 {SECRET}; echo wrong >{SECRET}",
        "the passphrase does not open the repository",
        mends=f"echo {PASSPHRASE} >{SECRET}; chmod 400 {SECRET}",
    ),
    Row(
        "the passphrase is empty",
        f"chmod 600 {SECRET}; : >{SECRET}",
        "the passphrase is empty",
        "ok",  # nothing was asked
        mends=f"echo {PASSPHRASE} >{SECRET}; chmod 400 {SECRET}",
    ),
    Row(
        "the disk is full",
        f"head -c 30000000 /dev/urandom >{LIVE}/more; cat /dev/zero >/mnt/backup/fill 2>/dev/null;"
        " sync; cat /dev/zero >>/mnt/backup/fill 2>/dev/null; sync; :",
        "full",
        mends="rm /mnt/backup/fill; sync; btrfs filesystem sync /mnt/backup",
    ),
    Row(
        "the disk is read-only",
        "mount -o remount,ro /mnt/backup",
        "read-only",
        mends="mount -o remount,rw /mnt/backup",
    ),
    Row(
        "the key is lost",
        f"{BORG} key export {REPOSITORY} /root/key; sed -i '/^key/,$d' {REPOSITORY}/config",
        "lost its key",
        mends=f"{BORG} key import {REPOSITORY} /root/key; rm /root/key",
    ),
    Row(
        "another repository is in its place",
        f"mv {REPOSITORY} /mnt/backup/x; {BORG} init -e repokey-blake2 {REPOSITORY}",
        "another repository than before",
        mends=f"rm -r {REPOSITORY}; mv /mnt/backup/x {REPOSITORY}",
    ),
    Row(
        "an old copy of the repository was put back",
        f"cp -a {REPOSITORY} /mnt/backup/old; echo more >{LIVE}/more; {BORG} create"
        f" {REPOSITORY}::by-hand {LIVE}; mv {REPOSITORY} /mnt/backup/x;"
        f" mv /mnt/backup/old {REPOSITORY}",
        "older than it was",
        mends=f"rm -r {REPOSITORY}; mv /mnt/backup/x {REPOSITORY}",
    ),
    Row(
        "only the beginning of a repository is there",
        f"mv {REPOSITORY} /mnt/backup/x; mkdir -p {REPOSITORY}/data",
        "is no repository of borg 1, or only the beginning of one",
        mends=f"rm -r {REPOSITORY}; mv /mnt/backup/x {REPOSITORY}",
    ),
    Row(
        "a declared path is gone",
        f'sed -i \'s,"{LIVE}","{LIVE}"\\, "/nowhere",\' /etc/rigops/borg.json',
        "/nowhere does not exist",
        mends="mkdir /nowhere",
    ),
    Row(
        "borg 2 is installed",
        f"printf '#!/bin/sh\\necho borg 2.0.0b5\\n' >{WRAPPER}; chmod 755 {WRAPPER}",
        "borg 2 is a beta",
        "ok",  # nothing was asked
        mends=f"rm {WRAPPER}",
    ),
    Row(
        "borg is gone",
        "mv /usr/bin/borg /usr/bin/borg.gone",
        "borg is not installed",
        "ok",
        mends="mv /usr/bin/borg.gone /usr/bin/borg",
    ),
    Row(
        "a killed run has left its snapshot",
        f"btrfs -q subvolume snapshot -r {LIVE} /data/.rigops/borg/data%2Fhome",
        "new in",
        "ok",
        code=0,
    ),
    Row("the state is damaged", "echo '{' >/var/lib/rigops/borg.json", "new in", "ok", code=0),
    Row(
        "the cache is gone",
        "rm -r /var/cache/rigops",
        "new in",
        "ok",
        code=0,
    ),
    Row(
        "another file system lies over a path",
        f"mount -t tmpfs none {LIVE}; echo x >{LIVE}/x",
        "is on another file system than at the last backup",
        mends=f"umount {LIVE}",
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_failure_is_named_harms_nothing_and_the_next_run_succeeds(row: Row, on: BorgHost) -> None:
    on.begin(keep="")
    before = on.does(f"{BORG} list --format '{{name}} {{id}}{{NL}}' {REPOSITORY}")
    on.does(row.breaks)

    ran = on.run("backup")

    assert ran.code == row.code, ran.text + ran.stderr
    assert row.says in ran.text
    assert all(one["fix"] for one in ran.errors), ran.errors
    if "damaged" not in row.name:
        assert on.state()["repository"]["state"] == row.state
    assert on.does(f"{PROGRAM} check").count("finding") == 5
    on.does(row.mends)
    following = on.run(*row.words)
    assert following.code == 0, following.text + following.stderr
    place = on.state()["repository"]["location"]
    after = on.does(f"{BORG} list --format '{{name}} {{id}}{{NL}}' {place}").splitlines()
    assert set(before.splitlines()) < set(after)
    assert on.does("ls -A /data/.rigops/borg") == ""
    on.does("rmdir /nowhere || :")


def test_to_the_timer_an_absent_disk_is_normal_and_to_a_person_it_is_a_failure(
    on: BorgHost,
) -> None:
    on.begin()
    before, drilled = on.archives(), on.state().get("last_drill")
    on.does("umount /mnt/backup")

    ran = on.run("run")
    noted = on.state()["repository"]
    timed = on.run("drill", "--by-timer")
    asked = [on.run(*words) for words in (("backup",), ("backup", "--dry-run"), ("drill",))]

    for one in (ran, timed):
        assert (one.code, one.errors) == (0, []), one.text
        assert "is absent (last seen: 2" in one.text
    assert noted["state"] == "absent"
    assert "finding\twarn\tborg.repository" in on.does(f"{PROGRAM} check")
    for one in asked:
        assert (one.code, "is absent" in one.errors[0]["message"]) == (1, True)
    assert on.state().get("last_drill") == drilled
    on.does("mount /dev/sdb /mnt/backup")
    for words in (("run",), ("drill", "--by-timer")):
        assert on.run(*words).code == 0
    assert set(before) < set(on.archives())


def test_a_repository_that_is_gone_from_its_disk_is_a_failure_to_the_timer_too(
    on: BorgHost,
) -> None:
    on.begin()
    on.does(f"mv {REPOSITORY} /mnt/backup/x")

    ran = on.run("run")

    assert ran.code == 1
    assert "is gone, and its disk is there" in ran.text
    assert on.state()["repository"]["state"] == "failed"
    on.does(f"mv /mnt/backup/x {REPOSITORY}")
    assert on.run("run").code == 0


def test_what_was_never_opened_is_a_failure_to_the_timer_too(on: BorgHost) -> None:
    on.start_anew()

    ran = on.run("run")

    assert (ran.code, len(ran.errors)) == (1, 1)
    assert "there is no repository yet" in ran.text


def test_beside_a_backup_of_a_person_the_timer_waits_for_its_next_run(on: BorgHost) -> None:
    on.begin()
    on.does(
        "mkdir -p /run/rigops; { flock 9; echo $$ >&9; sleep 600; } 9>>/run/rigops/borg.lock"
        " >/dev/null 2>&1 </dev/null & echo $! >/run/busy;"
        " until ! flock -n /run/rigops/borg.lock true; do :; done"
    )

    by_timer, by_person = on.run("run"), on.run("backup")

    on.does("pkill -P $(cat /run/busy); rm /run/busy")
    assert (by_timer.code, by_person.code) == (0, 1)
    assert "another run works on the backups" in by_timer.text
    assert on.run("run").code == 0


def test_archives_that_vanished_stop_prune_and_compact(on: BorgHost) -> None:
    on.begin(keep="")
    on.run("backup")
    first, second = on.archives()
    on.does(f"{BORG} delete {REPOSITORY}::{first}")

    ran = on.run("backup")
    again = on.run("backup")

    for one in (ran, again):
        assert one.code == 1
        assert f"1 archives are gone that retention keeps ({first})" in one.text
        assert (one.names("pruned"), len(one.names("created"))) == ([], 1)
    assert second in on.archives()
    assert on.run("backup", "--accept-lost").code == 0
    assert on.run("backup").code == 0


def test_old_archives_go_and_those_of_others_stay(on: BorgHost) -> None:
    on.begin(keep="1h")
    for day in (1, 2):
        on.does(f"{BORG} create {REPOSITORY}::epyc-2026110{day}T060000Z {LIVE}/thesis")
    on.does(f"{BORG} create {REPOSITORY}::other-20261101T060000Z {LIVE}/thesis")
    on.does(f"{BORG} create {REPOSITORY}::by-hand {LIVE}/thesis")
    on.does(f"{BORG} create {REPOSITORY}::epyc-20261103T060000Z.checkpoint {LIVE}/thesis")

    dry = on.run("backup", "--dry-run")
    ran = on.run("backup")

    gone = {f"epyc-2026110{day}T060000Z" for day in (1, 2)} | {"epyc-20261103T060000Z.checkpoint"}
    assert set(dry.names("pruned")) >= gone
    assert set(ran.names("pruned")) >= gone, ran.text
    assert {"by-hand", "other-20261101T060000Z", *ran.names("created")} <= set(on.archives())
    assert not gone & set(on.archives())
    assert on.state()["last_compact_at"]


def test_planted_corruption_is_found_by_the_check_and_by_the_drill(on: BorgHost) -> None:
    on.begin()
    whole = on.run("drill")
    assert (whole.code, whole.result["drill"]["differing"]) == (0, []), whole.text + whole.stderr
    assert on.state()["last_drill"]["result"] == "ok"
    assert "\tok\t" in on.does(f"{PROGRAM} check | grep borg.drill")
    on.does(f"cp -a {REPOSITORY} /root/whole")
    on.python(CORRUPT)

    drilled = on.run("drill")
    on.declare(check_every_days=0)
    checked = on.run("backup")

    for ran in (drilled, checked):
        assert ran.code == 1
        assert "damage" in ran.text, ran.text
        assert "do not repair it before that" in ran.text
    assert on.state()["last_drill"]["result"] == "failed"
    assert on.state()["last_check"]["result"] == "failed"
    assert on.does(f"{PROGRAM} check | grep -c fail") == "2"
    on.does(f"rm -r {REPOSITORY}; mv /root/whole {REPOSITORY}; rm -r /var/cache/rigops")
    on.does("rm -r /var/lib/rigops/borg")  # or it is an old copy that was put back
    assert on.run("backup", "--accept-lost").code == 0
    assert on.run("drill").code == 0


def test_the_exported_key_opens_a_repository_that_lost_its_own(on: BorgHost) -> None:
    on.begin()
    exported = on.run("export-key").result
    on.does(f"sed -i '/^key/,$d' {REPOSITORY}/config")
    on.does("cat >/root/key", exported["key"])
    on.does(f"{BORG} key import {REPOSITORY} /root/key; rm /root/key")

    assert on.run("drill").code == 0
    assert "BORG PAPER KEY" in exported["paper"]


def test_what_matches_nothing_and_what_has_no_room_is_refused(on: BorgHost) -> None:
    on.begin()
    on.does("mkdir -p /run/small && mount -t tmpfs -o size=8m tmpfs /run/small")

    missing = on.run("restore", "--path", f"{LIVE}/never")
    through_link = on.run("restore", "--path", f"{LIVE}/thesis/link/x")
    large = on.run("restore", "--path", LIVE, "--to", "/run/small")
    relative = on.run("restore", "--path", "thesis")

    assert "is in no archive" in missing.text
    assert "is in no archive" in through_link.text
    assert "MiB free, the restore needs" in large.text
    assert "is no absolute path" in relative.text
    assert on.does("ls -A /run/small; umount /run/small") == ""


def test_without_its_credential_it_starts_nothing(on: BorgHost) -> None:
    on.begin()

    done = on.host.run(f"{PROGRAM} backup")

    assert done.returncode == 1
    assert "systemctl start rigops-borg" in done.stdout


SERVER: Final = "ssh://root@{address}:2200/mnt/backup/remote"
SERVE: Final = """
mkdir -p /root/.ssh /etc/rigops; cp -n /root/.ssh/authorized_keys /root/.ssh/before
rm -f /etc/rigops/borg_key* /etc/rigops/borg_known_hosts
ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/rigops/borg_key
{ cat /root/.ssh/before; printf 'command="borg serve --append-only \
--restrict-to-repository /mnt/backup/remote",restrict '; cat /etc/rigops/borg_key.pub; } \
>/root/.ssh/authorized_keys
"""


def test_a_server_that_only_appends(on: BorgHost) -> None:
    on.start_anew(repository=SERVER.format(address=on.host.address))
    on.does(SERVE)
    for words in (("init",), ("backup",), ("backup",), ("drill",)):
        ran = on.run(*words)
        assert ran.code == 0, ran.text + ran.stderr
    was = on.look(LIVE)
    on.does(f"rm -r {LIVE}/thesis")
    on.restore(f"{LIVE}/thesis", "--in-place")
    assert below(on.look(LIVE), "thesis") == below(was, "thesis")

    on.does(
        "mv /root/.ssh/authorized_keys /root/.ssh/aside; cp /root/.ssh/before"
        " /root/.ssh/authorized_keys"
    )
    refused = on.run("backup")
    on.does("mv /root/.ssh/aside /root/.ssh/authorized_keys")
    on.does(
        "cp /etc/rigops/borg_known_hosts /root/known; ssh-keygen -q -t ed25519 -N '' -f"
        " /root/other; sed -i \"s,AAAA.*,$(cut -d' ' -f2 /root/other.pub),\""
        " /etc/rigops/borg_known_hosts"
    )
    changed = on.run("backup")
    on.does("cp /root/known /etc/rigops/borg_known_hosts; rm /root/other* /root/known")
    on.does("cp -p /root/.ssh/authorized_keys /root/keys")
    on.does("sed -i 's,command=\"borg,command=\"PATH=/nowhere borg,' /root/.ssh/authorized_keys")
    without_borg = on.run("run")
    on.does(f"cp -p /root/keys /root/.ssh/authorized_keys; rm /root/keys; cp {STATE} /root/state")
    on.declare(repository=SERVER.format(address=on.host.address).replace(":2200", ":2201"))
    unreachable, never_opened = on.run("backup"), on.run("run")
    on.does(f"sed s,:2200/,:2201/, /root/state >{STATE}")
    later = on.run("run")

    assert "refuses this host's key" in refused.text
    assert "another host key" in changed.text
    assert "does not answer" in unreachable.text
    assert (without_borg.code, never_opened.code, later.code) == (1, 1, 1), later.text
    assert "the server has no borg" in without_borg.text, without_borg.text
    assert "does not answer" in later.text
    assert on.state()["repository"]["state"] == "unreachable"
    on.does(f"mv /root/state {STATE}")
    on.declare(repository=SERVER.format(address=on.host.address))
    assert on.run("backup").code == 0
