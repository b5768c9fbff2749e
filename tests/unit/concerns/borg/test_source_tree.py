from __future__ import annotations

from pathlib import Path

from rigops.concerns.borg.host.source_tree import TreeMount, plan_tree

OTHERS = {"/mnt/backup": 2, "/proc": 3, "/run": 4, "/home": 5, "/var/lib/data": 6}


def device_of(path: str) -> int:
    while path not in OTHERS and path != "/":
        path = str(Path(path).parent)
    return OTHERS.get(path, 1)


def plan(
    snapshots: dict[str, str], declared: list[str], writable: tuple[str, ...] = ()
) -> list[TreeMount]:
    return plan_tree(snapshots, [*snapshots, *declared], writable, device_of)


def live(path: str) -> TreeMount:
    return TreeMount(path, path, is_whole=True)


def frozen(path: str) -> TreeMount:
    return TreeMount(f"/s{path}", path, is_whole=False)


def test_the_machine_is_below_the_snapshots_of_its_paths() -> None:
    found = plan({"/srv/a": "/s/srv/a", "/srv": "/s/srv"}, ["/etc"])

    assert found == [live("/"), frozen("/srv"), frozen("/srv/a")]


def test_a_snapshot_of_the_root_takes_the_place_of_the_machine() -> None:
    writable = ("/proc", "/run", "/var/cache/rigops/borg", "/mnt/backup/borg")

    found = plan({"/": "/s/"}, [], writable)

    back = ["/run", "/proc", "/mnt/backup", "/var/cache/rigops/borg"]
    assert found[0] == frozen("/")
    assert sorted(found[1:]) == sorted(map(live, back))


def test_what_is_declared_on_another_file_system_comes_back_and_may_be_frozen_itself() -> None:
    found = plan({"/": "/s/", "/home/me": "/s/home/me"}, ["/var/lib/data/x", "/etc/fstab"])

    assert found == [frozen("/"), live("/home"), live("/var/lib/data"), frozen("/home/me")]


def test_what_borg_writes_comes_back_over_each_snapshot_that_hides_it() -> None:
    cache = "/var/cache/rigops/borg"

    found = plan({"/var": "/s/var", "/var/cache": "/s/var/cache"}, [], (cache,))

    assert found == [live("/"), frozen("/var"), live(cache), frozen("/var/cache"), live(cache)]


def test_a_mount_that_nobody_needs_does_not_come_back() -> None:
    assert plan({"/mnt": "/s/mnt"}, ["/etc"]) == [live("/"), frozen("/mnt")]
