"""What of a root is newer than a snapshot, as btrfs lists it."""

from __future__ import annotations

from rigops.concerns.snapshots.host.root_newer import parse_find_new, summarize


def extent(path: str, flags: str = "NONE") -> str:
    return (
        "inode 257 file offset 0 len 4096 disk start 13631488 offset 0 gen 9 "
        f"flags {flags} {path}\n"
    )


def test_each_file_counts_once_and_logs_and_caches_do_not() -> None:
    text = (
        extent("etc/fstab")
        + extent("etc/fstab", "INLINE")
        + extent("home/me/a b", "COMPRESS|INLINE")
        + extent("var/log/syslog")
        + extent("var/cache/apt/pkgcache.bin")
        + extent("var/tmp/x")
        + extent("tmp/x")
        + "transid marker was 12\n"
    )

    assert parse_find_new(text) == {"/etc/fstab", "/home/me/a b"}


def test_folders_have_two_levels_and_come_most_first() -> None:
    found = summarize(
        {"/etc/hosts", "/usr/lib/a/b", "/usr/lib/c", "/usr/lib/d/e/f", "/x", "/etc/ssh/a"}
    )

    assert found["files"] == 6
    assert found["folders"][0] == {"path": "/usr/lib", "files": 3}
    assert {one["path"] for one in found["folders"]} == {"/etc", "/etc/ssh", "/usr/lib", "/"}


def test_the_examples_are_a_dozen_from_all_folders() -> None:
    found = summarize([f"/usr/lib/{number}" for number in range(100)] + ["/etc/hosts"])

    assert len(found["examples"]) == 12
    assert "/etc/hosts" in found["examples"]
    assert len(summarize([f"/{one}/x" for one in range(50)])["folders"]) == 12
    assert summarize([]) == {"files": 0, "folders": [], "examples": []}
