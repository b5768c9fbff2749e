"""What a backup reads where snapshots hide other file systems, and where the root is on btrfs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.borg_host import BORG, LIVE, PROGRAM, REPOSITORY, SECRET, WRAPPER, BorgHost
from tests.lab.test_restore import below
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_BORG)

RIG: Final = "epyc-8x4090"
BIG: Final = 30_000_000
COUNTS: Final = f"""cat >{WRAPPER} <<'END'
#!/bin/bash
/usr/bin/borg "$@"; code=$?
case "$*" in *' create '*) grep rchar /proc/$$/io >>/var/lib/rigops/borg/read ;; esac
exit $code
END
chmod 755 {WRAPPER}"""


@pytest.fixture(scope="module")
def on(module_lab: Lab) -> BorgHost:
    found = BorgHost(module_lab.one(RIG))
    found.install()
    return found


def archived(on: BorgHost, repository: str = REPOSITORY) -> dict[str, str]:
    """What each path is in the newest archive: as a mode of ls, which begins with its kind."""
    newest = f"$({BORG} list --last 1 --short {repository})"
    lines = on.does(f"{BORG} list --format '{{mode}} {{path}}{{NL}}' {repository}::{newest}")
    return {path: mode for mode, path in (line.split(" ", 1) for line in lines.splitlines())}


def read_by_borg(on: BorgHost, place: str) -> list[int]:
    return [int(line.split()[1]) for line in on.does(f"cat {place}; rm {place}").splitlines()]


# The repository is mounted below one declared path, and borg's own folders are in two others.
PLACES: Final = f"""
set -e
mkdir -p /data/mnt/backup /data/mnt/disk /data/mnt/same
echo kept >/data/mnt/kept
btrfs -q subvolume create /data/mnt/nested
mkdir -p /data/mnt/nested/deep; echo nested >/data/mnt/nested/deep/file
echo alone >/data/mnt/nested/alone
umount /mnt/backup; mount /dev/sdb /data/mnt/backup; mount --bind /data/mnt/backup /mnt/backup
mount -t tmpfs none /data/mnt/disk; echo disk >/data/mnt/disk/file
mount --bind {LIVE} /data/mnt/same
for one in cache lib; do btrfs -q subvolume create /data/$one; done
mkdir -p /var/cache/rigops /var/lib/rigops
mount --bind /data/cache /var/cache; echo other >/var/cache/other
mount --bind /data/lib /var/lib/rigops; echo owned >/var/lib/rigops/owned.json
"""
PLACES_GONE: Final = """
umount /var/cache /var/lib/rigops /data/mnt/same /data/mnt/disk /mnt/backup /data/mnt/backup
"""
DECLARED: Final = (
    "/var/cache", "/var/lib/rigops", "/data/mnt", "/data/mnt/disk", "/data/mnt/nested/deep",
    "/data/mnt/nested/alone",
)  # fmt: skip


def test_what_a_snapshot_would_hide_is_there_for_borg_and_for_the_archive(on: BorgHost) -> None:
    on.start_anew()
    on.does(PLACES)
    try:
        on.declare(paths=DECLARED, repository="/data/mnt/backup/borg")
        on.does(f"head -c {BIG} /dev/urandom >/data/mnt/big; sleep 0.1; touch /data/mnt/newest")
        assert on.run("init").code == 0
        on.does(COUNTS)

        ran = [on.run("backup"), on.run("backup"), on.run("drill")]

        on.does(f"rm {WRAPPER}")
        for one in ran:
            assert one.code == 0, one.text + one.stderr
        assert "nested subvolumes are not in the backup: nested" in ran[0].text
        first, second, _ = read_by_borg(on, "/var/lib/rigops/borg/read")
        assert first - second > BIG * 0.95
        found = archived(on, "/data/mnt/backup/borg")
        assert {
            "var/cache/other", "var/lib/rigops/owned.json", "data/mnt/kept", "data/mnt/big",
            "data/mnt/disk/file", "data/mnt/nested/deep/file", "data/mnt/nested/alone",
        } < set(found)  # fmt: skip
        assert not [one for one in found if one.startswith(("data/mnt/backup/", "data/mnt/same/"))]
        assert on.state()["last_drill"]["files"] >= 7
        assert on.does(
            "ls -A /data/.rigops/borg /var/cache/rigops/borg/temporary | tr -d '\\n'"
        ) == ("/data/.rigops/borg:/var/cache/rigops/borg/temporary:")
    finally:
        on.does(PLACES_GONE)


def test_a_folder_that_is_mounted_elsewhere_is_read_from_its_own_subvolume(on: BorgHost) -> None:
    on.start_anew()
    on.does(f"mkdir -p /srv/bound '/srv/a b'; mount --bind {LIVE}/thesis /srv/bound")
    on.does(f"mkdir '{LIVE}/.of two'; echo two >'{LIVE}/.of two/x'")
    on.does(f"mount --bind '{LIVE}/.of two' '/srv/a b'; ln -sfn /srv/bound /srv/link")
    try:
        on.declare(paths=["/srv/bound", "/srv/a b", "/srv/link/figures"])
        on.does(
            f"cat >{WRAPPER} <<'END'\n#!/bin/sh\n"
            "case \" $* \" in *' create '*) ! touch /srv/bound/x || exit 70 ;; esac\n"
            f'exec /usr/bin/borg "$@"\nEND\nchmod 755 {WRAPPER}'
        )
        for words in (("init",), ("backup",)):
            ran = on.run(*words)
            assert ran.code == 0, ran.text + ran.stderr
        on.does(f"rm {WRAPPER}")
        was = on.look("/srv/bound")

        done = on.restore("/srv/bound", "--to", "/root/found")

        assert below(on.look(done["restored_to"])) == below(was)
        assert {"srv/a b/x", "srv/link/figures/same"} < set(archived(on))
    finally:
        on.does("rm -rf /root/found; umount /srv/bound '/srv/a b'")


ROOT: Final = "/data/@"
ROOT_FILES: Final = f"""
set -e
btrfs -q subvolume create {ROOT}
btrfs -q subvolume create /data/@home
cd {ROOT}
mkdir dev proc sys run usr home mnt mnt/backup opt srv root var var/cache var/lib var/lib/rigops tmp
cp -a /etc etc
cp /etc/rigops/borg.json etc/rigops/borg.json
ln -s usr/bin bin; ln -s usr/sbin sbin; ln -s usr/lib lib; ln -s usr/lib64 lib64
ln -s boot/vmlinuz vmlinuz
echo before >changes; echo top >'a file'; mkfifo pipe
head -c {BIG} /dev/urandom >srv/big
echo me >/data/@home/me
btrfs -q subvolume create opt/nested; echo never >opt/nested/file
sleep 0.1; touch srv/newest
"""
ROOT_CHANGES: Final = f"""cat >{WRAPPER} <<'END'
#!/bin/bash
case "$*" in *' create '*)
  nsenter -t 1 -m -r -- sh -euxc 'echo after >{ROOT}/changes; cat {ROOT}/changes' \
    >>/var/lib/rigops/borg/changes 2>&1 || exit 70 ;;
esac
/usr/bin/borg "$@"; code=$?
case "$*" in *' create '*) grep rchar /proc/$$/io >>/var/lib/rigops/borg/read ;; esac
exit $code
END
chmod 755 {WRAPPER}"""


class Rooted(BorgHost):
    """Its program has a btrfs as root: systemd starts it in a mount namespace with that one."""

    def command(self, *words: str, lock_wait: int = 1) -> str:
        properties = (
            f"RootDirectory={ROOT}",
            "MountAPIVFS=yes",
            "BindReadOnlyPaths=/usr",
            "BindPaths=/mnt/backup",
            "BindPaths=/data/@home:/home",
            "ProtectSystem=full",
            "NoNewPrivileges=yes",
            f"LoadCredential=passphrase:{SECRET}",
        )
        options = " ".join(f"-p {shlex.quote(one)}" for one in properties)
        program = shlex.join((PROGRAM, "--json", "--lock-wait", str(lock_wait), *words))
        return f"systemd-run -q --pipe --wait --collect {options} {program}"

    def declare(self, **settings: object) -> None:
        super().declare(**settings)
        self.does(f"[ ! -d {ROOT}/etc ] || cp /etc/rigops/borg.json {ROOT}/etc/rigops/")

    def state(self) -> dict[str, Any]:
        self.does(f"cp {ROOT}/var/lib/rigops/borg.json /var/lib/rigops/borg.json")
        return super().state()


def test_a_root_on_btrfs_is_read_from_one_snapshot_with_all_that_is_at_its_top(
    on: BorgHost,
) -> None:
    rooted = Rooted(on.host)
    rooted.start_anew(paths=["/", "/home"], identity=True)
    rooted.does(ROOT_FILES)
    listed: Mapping[str, str] = dict(
        reversed(line.split(" ", 1))  # type: ignore[misc]  # two words
        for line in rooted.does(f"cd {ROOT}; find . -xdev -printf '%M %P\\n'").splitlines()
    )
    assert rooted.run("init").code == 0
    rooted.does(ROOT_CHANGES)

    ran = [rooted.run("backup"), rooted.run("backup")]

    for one in ran:
        assert one.code == 0, one.text + one.stderr
    assert rooted.does(f"cat {ROOT}/changes") == "after"
    read = read_by_borg(rooted, f"{ROOT}/var/lib/rigops/borg/read")
    assert read[0] - read[1] > BIG * 0.95
    first = rooted.archives()[0]
    inside = f"{BORG} extract --stdout {REPOSITORY}::{first}"
    assert rooted.does(f"{inside} changes; {inside} home/me").split() == ["before", "me"]
    found = archived(rooted)
    secret = {SECRET[1:], *(one for one in listed if one.startswith("etc/ssh/ssh_host_"))}
    mounted = {"dev", "home", "mnt/backup", "proc", "run", "sys", "usr"}  # of others' modes
    expected = {one: listed[one] for one in set(listed) - secret - mounted - {""}}
    assert mounted < set(found)
    assert {one: found.get(one) for one in expected} == expected
    assert SECRET[1:] not in found
    assert {one.split("/")[0] for one in set(found) - set(listed)} <= {"home", "var", "", "."}
    assert not [
        one for one in found if one.startswith(("proc/", "sys/", "dev/", "run/", "opt/nested/"))
    ]
    assert "nested subvolumes are not in the backup: opt/nested" in ran[0].text
    assert rooted.run("drill").code == 0
    assert rooted.state()["last_drill"]["result"] == "ok"
    assert rooted.does("ls -A /data/.rigops/borg") == ""
