"""A user of the host without rights, against the snapshots and backups that root makes of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.borg_host import WRAPPER, BorgHost
from tests.lab.snapshot_host import HERE, LIVE, Ran, SnapshotHost
from tests.shards import ATTACK

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(ATTACK)

RIG: Final = "epyc-8x4090"
EVE: Final = 1000
HOME: Final = f"{LIVE}/eve"
BTRFS: Final = "/usr/local/sbin/btrfs"  # found before the real one
VICTIM: Final = "/srv/victim"
LOOK: Final = f"ls -A / /srv && cd {VICTIM} && find . -printf '%p %y %m %U %s\\n' | sort"

# Names that text would read as rows of a list, as ends of lines, or as no text at all.
NAMES: Final = {
    "a row of a list": (
        "$'x\\nID 7001 gen 9 parent 5 top level 5 parent_uuid - received_uuid - uuid U path "
        ".rigops/snapshots/data%2Fhome'"
    ),
    "a row of a list, read-only": (
        "$'x\\nID 7001 gen 9 cgen 9 parent 5 top level 5 parent_uuid -     received_uuid -     "
        "uuid 0-0 path .rigops/snapshots/data%2Fhome/20200101T000000Z-timer'"
    ),
    "a carriage return": "$'\\rID 7002 gen 9'",
    "an escape": "$'\\e]0;x\\a\\e[2J'",
    "no text": "$'\\xff\\xfe'",
    "a name of ours": "20200101T000000Z-timer",
    "the store": ".rigops",
}


@dataclass(frozen=True)
class Scene:
    """Eve owns a folder in the subvolume that is declared."""

    snapshots: SnapshotHost
    borg: BorgHost

    def eve(self, command: str) -> str:
        words = f"setpriv --reuid={EVE} --regid={EVE} --clear-groups bash -c {shlex.quote(command)}"
        return self.snapshots.does(words)

    def begin(self, command: str = ":", **settings: object) -> None:
        """`command`: of Eve, in her folder."""
        self.snapshots.does("umount /mnt/backup 2>/dev/null || :")
        self.snapshots.start_anew(**settings)
        self.settle(command)

    def begin_borg(self, command: str = ":", **settings: object) -> None:
        self.borg.start_anew(**settings)
        self.settle(command)
        assert self.borg.run("init").code == 0

    def settle(self, command: str) -> None:
        on = self.snapshots
        on.does(
            f"umount {VICTIM}/m 2>/dev/null; rm -rf {VICTIM} /w /x /m /*.restored-* /*.before-*"
            f" && mkdir -p {VICTIM}/w {VICTIM}/m && mount -t tmpfs none {VICTIM}/m"
            f" && echo mine | tee {VICTIM}/w/x >{VICTIM}/m/x"
        )
        on.does(f"mkdir -p {HOME} && chown {EVE}:{EVE} {HOME} && rm -f {BTRFS} {WRAPPER}")
        self.eve(f"cd {HOME} && {{ {command}\n}}")

    def take(self, hours: int) -> list[str]:
        """One an hour, until an hour ago."""
        self.snapshots.does(f"install -d -m 700 /data/.rigops/snapshots {HERE}")
        for hour in range(hours, 0, -1):
            name = f"$(date -u -d '-{hour} hour' +%Y%m%dT%H%M%SZ)-timer"
            self.snapshots.does(f"btrfs -q subvolume snapshot -r {LIVE} {HERE}/{name}")
        return self.snapshots.here()


@pytest.fixture(scope="module")
def scene(module_lab: Lab) -> Scene:
    host = module_lab.one(RIG)
    found = Scene(SnapshotHost(host), BorgHost(host))
    found.snapshots.install()
    found.borg.install()
    return found


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_no_name_of_a_subvolume_counts_as_a_snapshot(scene: Scene, name: str) -> None:
    """With the first of each hour, and read-only as a snapshot is."""
    inside = f'{name}/$(date -u -d "-$h hour" +%Y%m%dT%H0000Z)-timer'
    make = (
        f"mkdir -p {name} && for h in {{0..9}}; do btrfs -q subvolume create {inside}"
        f" && btrfs property set {inside} ro true; done"
    )
    scene.begin(make)
    before = scene.take(5)

    ran = scene.snapshots.run("run")

    assert set(before) <= set(scene.snapshots.here()), ran.text
    assert len(scene.snapshots.here()) == len(before) + 1
    assert ran.code == 0, ran.text + ran.stderr
    assert ran.names("created"), ran
    listed = scene.snapshots.run("list").result["subvolumes"]
    assert [one["path"] for one in listed] == [LIVE]


def test_a_store_that_a_user_made_first_is_not_used(scene: Scene) -> None:
    scene.begin()
    scene.snapshots.does(f"chown {EVE} /data")
    scene.eve("mkdir -p /data/.rigops/snapshots/data%2Fhome")

    ran = scene.snapshots.run("run")

    assert ran.code == 1
    assert "others than root can write into .rigops" in ran.text
    assert scene.snapshots.here() == []


def test_subvolumes_in_each_other_without_end_stop_nothing(scene: Scene) -> None:
    scene.begin("for n in {1..200}; do btrfs -q subvolume create s; cd s; done")

    ran = scene.snapshots.run("run")

    assert ran.code == 0, ran.text + ran.stderr
    assert ran.names("created")


LINKS: Final = {
    "to a folder of root": f"ln -s {VICTIM} a",
    "to the root of all": "ln -s / a",
    "upwards": "ln -s ../../../srv/victim a",
    "to another link": f"ln -s {VICTIM} b; ln -s b a",
    "to nothing": "ln -s /srv/nowhere a",
    "to itself": "ln -s a a",
    "to a process": "ln -s /proc/self/root/srv/victim a",
}


def refuses(ran: Ran) -> None:
    """And names the link; where that leads nowhere, the folder above is a good place too."""
    if ran.code == 0:
        assert ran.result["restored"]["restored_to"].startswith(f"{HOME}/")
    else:
        assert f"{HOME}/a" in ran.text


CHOSEN: Final = "mkdir -p a/w a/m && echo evil | tee a/x a/w/x >a/m/x"
PATHS: Final = {"beside": (), "in place": ("--in-place",)}


@pytest.mark.parametrize("how", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_restore_from_a_snapshot_follows_no_link(
    scene: Scene, link: str, how: tuple[str, ...]
) -> None:
    scene.begin(CHOSEN)
    scene.take(1)
    scene.eve(f"cd {HOME} && rm -r a && {link}")
    before = scene.snapshots.does(LOOK)

    ran = [
        scene.snapshots.run("restore", "--path", f"{HOME}/{path}", *how)
        for path in ("a/x", "a/w", "a/w/x", "a/m")
    ]

    assert scene.snapshots.does(LOOK) == before
    for one in ran:
        refuses(one)


@pytest.mark.parametrize("how", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_restore_from_an_archive_follows_no_link(
    scene: Scene, link: str, how: tuple[str, ...]
) -> None:
    scene.begin_borg(CHOSEN)
    assert scene.borg.run("backup").code == 0
    scene.eve(f"cd {HOME} && rm -r a && {link}")
    before = scene.snapshots.does(LOOK)

    ran = [
        scene.borg.run("restore", "--path", f"{HOME}/{path}", *how)
        for path in ("a/x", "a/w", "a/w/x", "a/m")
    ]

    assert scene.snapshots.does(LOOK) == before
    for one in ran:
        refuses(one)


def test_a_link_at_the_end_goes_aside_and_is_not_followed(scene: Scene) -> None:
    scene.begin("mkdir w && echo evil >w/boot")
    scene.take(1)
    scene.eve(f"cd {HOME} && rm -r w && ln -s {VICTIM} w")
    before = scene.snapshots.does(LOOK)

    ran = scene.snapshots.run("restore", "--path", f"{HOME}/w", "--in-place")

    assert ran.code == 0, ran.text
    assert scene.snapshots.does(LOOK) == before
    assert (
        scene.snapshots.does(f"cat {HOME}/w/boot; readlink {HOME}/w.before*") == f"evil\n{VICTIM}"
    )


def test_a_link_in_a_folder_that_a_person_named_is_meant(scene: Scene) -> None:
    scene.begin("echo mine >x")
    scene.take(1)
    scene.snapshots.does(f"ln -sfn {VICTIM} /srv/out")

    ran = scene.snapshots.run("restore", "--path", f"{HOME}/x", "--to", "/srv/out")

    assert ran.code == 0, ran.text
    assert scene.snapshots.does(f"cat {VICTIM}/x") == "mine"


SWAPS: Final = {
    "to a folder of root": VICTIM,
    "to the root of all": "../../..",
    "to programs": "../../../etc",
}


@pytest.mark.parametrize("target", SWAPS.values(), ids=SWAPS)
def test_what_is_swapped_under_a_running_backup_hides_nothing(scene: Scene, target: str) -> None:
    """The folder and a link change places between the snapshot and the mount."""
    scene.begin_borg(
        f"mkdir work && echo /srv/evil.so >work/ld.so.preload && ln -s {target} link",
        paths=[f"{HOME}/work"],
    )
    as_eve = f"setpriv --reuid={EVE} --regid={EVE} --clear-groups"
    swap = f"cd {HOME} && mv -T work away && mv -T link work"
    scene.snapshots.does(
        f"cat >{BTRFS} && chmod 755 {BTRFS}",
        given=f'#!/bin/sh\n/usr/bin/btrfs "$@" || exit\ncase "$*" in *snapshot*) {as_eve} sh -c '
        f"{shlex.quote(swap)} ;; esac\n",
    )
    # A mount over /etc would show what Eve put there to all that runs in the tree.
    scene.snapshots.does(
        f"cat >{WRAPPER} && chmod 755 {WRAPPER}",
        given="#!/bin/sh\n[ ! -e /etc/ld.so.preload ] || touch /run/rigops/hidden\n"
        'exec /usr/bin/borg "$@"\n',
    )

    ran = scene.borg.run("backup")

    assert scene.snapshots.does("ls /run/rigops | grep -c hidden || :") == "0"
    assert ran.code == 1
    assert f"{HOME}/work" in ran.text
    assert scene.borg.archives() == []


# What Eve has in x, and what takes its place: with the same size, mode and time, where it can.
ODD: Final = {
    "a fifo": (":>x && chmod 644 x", "mkfifo -m 644 x"),
    "zeros without end": ("echo 12345678 >x && chmod 777 x", "ln -s /dev/zero x"),
    "another file": ("echo mine >x", "echo evil >x"),
    "a link to a file of root": ("echo 1234567890 >x && chmod 777 x", "ln -s /etc/shadow x"),
    "a folder": ("echo mine >x", "mkdir x"),
    "nothing": ("echo mine >x", ":"),
}


@pytest.mark.parametrize(("before", "odd"), ODD.values(), ids=ODD)
def test_a_drill_waits_for_nothing_that_a_user_puts_in_the_place_of_files(
    scene: Scene, before: str, odd: str
) -> None:
    home = "/srv/eve"  # on no btrfs: read live
    scene.snapshots.does(f"rm -rf {home} && mkdir {home} && chown {EVE} {home}")
    scene.begin_borg(paths=[home])
    scene.eve(f"cd {home} && echo mine >y && {before}")
    as_eve = f"setpriv --reuid={EVE} --regid={EVE} --clear-groups"
    swap = f"cd {home} && mv x z && {{ {odd}; }} && {{ [ ! -e x ] || touch -hr z x; }} && rm z"
    scene.snapshots.does(
        f"cat >{WRAPPER} && chmod 755 {WRAPPER}",
        given=f'#!/bin/sh\ncase "$*" in *extract*) {as_eve} sh -c {shlex.quote(swap)} ;; esac\n'
        'exec /usr/bin/borg "$@"\n',
    )

    ran = scene.borg.run("drill")

    drill: Any = ran.result["drill"]
    assert (ran.code, drill["result"], drill["files"]) == (0, "ok", 2), ran.text
    assert scene.borg.run("backup").code == 0  # nothing holds the lock


def test_a_drill_names_files_where_no_user_can_read_them_and_says_what_it_made(
    scene: Scene,
) -> None:
    scene.begin_borg("echo mine >divorce")
    scene.snapshots.does(
        f"cat >{WRAPPER} && chmod 755 {WRAPPER}",
        given='#!/bin/sh\necho "$*" >>/run/words\nexec /usr/bin/borg "$@"\n',
    )

    ran = scene.borg.run("drill")

    assert ran.code == 0, ran.text
    words = scene.snapshots.does("cat /run/words; rm /run/words")
    assert " extract " in words
    assert "divorce" not in words
    assert f"{scene.borg.archives()[0]}: made for this drill" in ran.text


def test_a_folder_too_deep_for_any_program_holds_up_nothing_else(scene: Scene) -> None:
    name = "d" * 200
    scene.begin(f"echo mine >x; for n in {{1..60}}; do mkdir {name}; cd {name}; done; echo x >deep")
    scene.take(1)

    ran = scene.snapshots.run("restore", "--path", HOME)

    assert ran.code == 0, ran.text
    assert "not restored, since cp does not reach so deep: dddd" in ran.text
    restored = ran.result["restored"]["restored_to"]
    assert scene.snapshots.does(f"cat {restored}/x") == "mine"
    assert scene.snapshots.does(f"ls -A {LIVE} | grep -c rigops-restore || :") == "0"


def test_a_declared_path_through_a_link_of_a_user_is_not_backed_up(scene: Scene) -> None:
    scene.begin_borg(f"ln -s {VICTIM} w", paths=[LIVE, f"{HOME}/w/w"])

    ran = scene.borg.run("backup")

    assert ran.code == 1
    assert f"{HOME}/w is a symbolic link that a user can change" in ran.text


def test_a_declared_subvolume_through_a_link_of_a_user_is_not_taken(scene: Scene) -> None:
    scene.begin("btrfs -q subvolume create real && ln -s real link", subvolumes=[f"{HOME}/link"])

    ran = scene.snapshots.run("run")

    assert ran.code == 1
    assert f"{HOME}/link is a symbolic link that a user can change" in ran.text


@pytest.mark.parametrize("engine", ["snapshots", "borg"])
def test_what_a_killed_restore_left_is_not_removed_through_a_link(
    scene: Scene, engine: str
) -> None:
    scene.begin_borg("mkdir away")
    left = ".rigops-restore-00112233445566ff"
    scene.snapshots.does(f"mkdir {VICTIM}/{left} && echo mine >{VICTIM}/{left}/x")
    scene.eve(f"cd {HOME} && ln -s {VICTIM} gone")
    note = f'{{"path": "{HOME}/gone/{left}", "moves": null}}'
    scene.snapshots.does("cat >/var/lib/rigops/restoring.json", given=note)
    before = scene.snapshots.does(LOOK)

    if engine == "borg":
        scene.borg.run("backup")
        ran = scene.borg.run("restore", "--path", f"{LIVE}/thesis/text")
    else:
        scene.snapshots.declare()
        ran = scene.snapshots.run("run")

    assert ran.code == 0, ran.text
    assert scene.snapshots.does(LOOK) == before
