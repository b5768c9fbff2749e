"""What would make pruning destroy a history: a clock years off, a disk that is gone, a kill.

Real btrfs and a real borg on a booted host; only the clock of its programs is another one.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import preloaded
from tests.lab.borg_host import BORG, PROGRAM, REPOSITORY, WRAPPER, BorgHost
from tests.lab.snapshot_host import HERE, LIVE, SnapshotHost
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(ATTACK)

RIG: Final = "epyc-8x4090"
FIVE_YEARS: Final = 5 * 365 * 86_400
DAY: Final = 86_400
KEPT: Final = "7d 4w 6m"
# Its clock goes back a minute once it runs, so that its own archive is before its beginning.
KILLED: Final = f"""cat >{WRAPPER} <<'END'
#!/bin/bash
case " $* " in
    *" list "*) echo -60 >/etc/clock-offset ;;
    *" delete "*) /usr/bin/borg "$@" >/run/deleted 2>&1; kill -KILL $PPID; exit ;;
esac
exec /usr/bin/borg "$@"
END
chmod 755 {WRAPPER}"""


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    found = module_lab.one(RIG)
    preloaded.preload(found, "clock")
    return found


def set_clock(host: Host, seconds: int) -> None:
    assert host.run(f"echo {seconds} >/etc/clock-offset").returncode == 0


@pytest.fixture
def snapshots(host: Host) -> Iterator[SnapshotHost]:
    found = SnapshotHost(host)
    found.install()
    yield found
    set_clock(host, 0)


@pytest.fixture
def borg(host: Host) -> Iterator[BorgHost]:
    found = BorgHost(host)
    found.install()
    yield found
    set_clock(host, 0)


def ago(days: float, shape: str = "%Y%m%dT%H%M%SZ") -> str:
    return (datetime.now(timezone.utc) - timedelta(days=days)).strftime(shape)


def take(on: SnapshotHost, *days: int) -> list[str]:
    """Snapshots of so many days ago, here."""
    names = [f"{ago(one)}-timer" for one in days]
    on.does("".join(f"btrfs -q subvolume snapshot -r {LIVE} {HERE}/{one};" for one in names))
    return sorted(names)


def test_one_run_five_years_ahead_removes_no_snapshot_here_or_there_and_changes_no_later_one(
    snapshots: SnapshotHost,
) -> None:
    on = snapshots
    on.start_anew(keep="20d")
    assert on.run("backup").code == 0
    old = take(on, *range(1, 9))
    on.change()
    assert on.run("backup").code == 0
    before = on.here()
    assert set(old) < set(before)
    assert before == on.there()

    set_clock(on.host, FIVE_YEARS)
    ahead = on.run("run")
    again = on.run("prune", "--prune-most")
    set_clock(on.host, 0)
    listed = on.run("list").result
    right = on.run("backup")

    (future,) = ahead.names("created")
    for ran in (ahead, again):
        assert (ran.code, ran.names("pruned")) == (0, []), ran.text
        assert "far beyond the newest known run" in ran.result["held"][0]
    assert (right.code, right.result["held"]) == (0, []), right.text
    (made,) = right.names("created")
    # The one of before is neither the first of its day any more nor the newest.
    assert set(right.names("pruned")) <= {before[-1]}
    assert {*before[:-1], future, made} <= {*on.here()} & {*on.there()}
    assert listed["targets"][0]["newest_at"].translate(str.maketrans("", "", "-:")) in before[-1]
    newest = on.state()["target"]["newest_at"][LIVE].translate(str.maketrans("", "", "-:"))
    assert f"{newest}-manual" == made
    restored = on.run("restore", "--path", f"{LIVE}/small", "--to", "/root/found")
    assert restored.result["restored"]["snapshot"] == made, restored.text
    on.does("rm -r /root/found")


def test_more_than_half_of_the_snapshots_go_by_several_runs_or_by_consent(
    snapshots: SnapshotHost,
) -> None:
    on = snapshots
    on.start_anew(keep="20d")
    assert on.run("backup").code == 0
    old = take(on, *range(1, 9))
    assert on.run("backup").code == 0
    assert on.here() == on.there()
    on.declare(keep="1h", send_to=on.uuid("/dev/sdb"))

    first = on.run("prune")

    gone = {place: [one["name"] for one in first.result["pruned"] if one["place"] == place]
            for place in ("local", on.uuid("/dev/sdb"))}  # fmt: skip
    assert list(gone.values()) == [old[:5], old[:5]]  # of ten
    assert all("3 more copies go at the next runs" in one for one in first.result["held"])
    assert len(first.result["held"]) == 2
    assert "finding\twarn\tsnap.held" in on.does("/usr/local/libexec/rigops/snapshots check")
    all_of_it = on.run("prune", "--prune-most")
    assert (all_of_it.code, all_of_it.result["held"]) == (0, [])
    assert not set(old) & {*on.here(), *on.there()}
    assert "\tok\tsnap.held" in on.does("/usr/local/libexec/rigops/snapshots check")


def test_while_a_declared_subvolume_is_missing_no_snapshot_of_any_goes(
    snapshots: SnapshotHost,
) -> None:
    on = snapshots
    on.start_anew(keep="1h")
    assert on.run("backup").code == 0
    old = take(on, 1, 2)
    on.declare(keep="1h", subvolumes=[LIVE, "/data/gone"], send_to=on.uuid("/dev/sdb"))

    ran = on.run("backup", "--prune-most")

    assert (ran.code, ran.names("pruned")) == (1, [])
    assert ran.result["held"] == ["nothing is removed while a declared path is missing: /data/gone"]
    assert set(old) < set(on.here())
    on.declare(keep="1h", send_to=on.uuid("/dev/sdb"))
    assert on.run("run").code == 0
    assert not set(old) & set(on.here())


def test_one_run_five_years_ahead_removes_no_archive_and_changes_no_later_one(
    borg: BorgHost,
) -> None:
    on = borg
    on.begin(keep="20d")
    for day in range(1, 5):
        on.does(f"{BORG} create {REPOSITORY}::epyc-{ago(day)} {LIVE}/thesis")
    assert on.run("backup").code == 0
    before = sorted(on.archives())
    assert len(before) == 6

    set_clock(on.host, FIVE_YEARS)
    ahead = on.run("run")
    set_clock(on.host, 0)
    told = on.does(f"{PROGRAM} check")
    right = on.run("run")

    assert (ahead.code, ahead.names("pruned")) == (0, []), ahead.text
    assert "far beyond the newest known run" in ahead.result["held"][0]
    assert "finding\twarn\tborg.held" in told
    assert "dated in the future" in told
    assert (right.code, right.result["held"]) == (0, []), right.text
    assert set(right.names("pruned")) <= {before[-1]}
    made_then = {*ahead.names("created"), *right.names("created")}
    assert {*before[:-1], *made_then} <= set(on.archives())
    state = on.state()
    made = right.names("created")[0].rpartition("-")[2]
    assert state["newest_at"].translate(str.maketrans("", "", "-:")) == made
    assert state["last_check"]["at"] <= ago(0, "%Y-%m-%dT%H:%M:%SZ")  # it was due again
    restored = on.restore(f"{LIVE}/thesis/text", "--to", "/root/found")
    assert restored["snapshot"] == right.names("created")[0]
    on.does("rm -r /root/found")


def test_archives_with_the_data_of_a_dead_disk_outlast_all_runs_without_it(
    borg: BorgHost,
) -> None:
    on = borg
    on.begin(keep="", paths=[LIVE, "/etc/rigops"])
    for _ in range(2):
        assert on.run("backup").code == 0
    whole = on.archives()
    declared = {"keep": KEPT, "paths": [LIVE, "/etc/rigops"]}
    on.declare(**declared)
    on.does("umount /data; wipefs -qa /dev/sda")

    ran = [on.run("backup"), on.run("run"), on.run("backup", "--prune-most")]

    for one in ran:
        assert (one.code, one.names("pruned")) == (1, []), one.text
        assert one.result["held"] == [
            f"nothing is removed while a declared path is missing: {LIVE}"
        ]
        assert [name.rpartition(".")[2] for name in one.names("created")] == ["partial"]
    assert set(whole) < set(on.archives())
    assert len(on.archives()) == 6
    rows = on.run("list").result["subvolumes"][0]["snapshots"]
    assert [one["kind"] for one in rows] == ["archive"] * 3 + ["partial"] * 3
    assert not any(one["is_pruned_next"] for one in rows)
    assert on.state()["newest_at"].translate(str.maketrans("", "", "-:")) in whole[-1]
    part = on.restore("/etc/rigops/borg.json", "--to", "/root/found")
    assert part["snapshot"].endswith(".partial")
    on.does("rm -r /root/found; mkfs.btrfs -q -f /dev/sda; mount /dev/sda /data")
    on.does(f"btrfs -q subvolume create {LIVE}")
    assert on.restore(f"{LIVE}/thesis", "--in-place")["snapshot"] == whole[-1]

    refused = on.run("backup")
    after = on.run("backup", "--moved")

    assert (refused.code, refused.names("pruned")) == (1, [])
    assert "is on another file system than at the last backup" in refused.text
    # Whole ones as if there were no partial ones: the first of the day and the newest.
    assert after.code == 0, after.text
    assert {whole[0], *after.names("created")} <= set(on.archives())
    parts = {name for one in (*ran[1:], refused) for name in one.names("created")}
    assert set(after.names("pruned")) <= {*whole[1:], *parts}
    assert on.run("backup").code == 0


def test_killed_after_it_pruned_the_next_run_misses_no_archive(borg: BorgHost) -> None:
    on = borg
    set_clock(on.host, -3 * DAY)
    on.begin(keep="")
    set_clock(on.host, -2 * DAY)
    assert on.run("backup").code == 0
    set_clock(on.host, 0)
    old = on.archives()
    assert len(old) == 2
    on.declare(keep="1h")
    on.does(KILLED)

    killed = on.host.run(on.command("backup", "--prune-most"), timeout=300)

    on.does(f"rm {WRAPPER}")
    set_clock(on.host, 0)
    assert killed.returncode != 0
    assert not set(old) & set(on.archives()), on.does("cat /run/deleted")
    following = on.run("run")
    assert following.code == 0, following.text
    assert on.state()["last_compact_at"] is not None
    on.does(f"{BORG} delete {REPOSITORY}::{following.names('created')[0]}")
    lost = on.run("run")
    assert lost.code == 1
    assert "1 archives are gone that retention keeps" in lost.text
