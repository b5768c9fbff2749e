"""What makes a host safe to wipe, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.capture.controller import Passphrase
from rigops.capture.document import judged
from rigops.capture.requirements import judge
from rigops.record.lockfile import LockedDriver
from tests.unit.capture.rigs import (
    BORG,
    DEVICES,
    FIRST,
    FRESH,
    LOCKED,
    MOUNTS,
    OWN,
    PLACE,
    SECOND,
    TARGET,
    UUIDS,
    WATCHED,
    boot,
    identity,
    pci,
    proven,
    ran,
    run,
    sent,
    smi,
    state,
    subject,
    units,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.capture.document import Requirement
    from rigops.record.journal import Run

OTHER = replace(LOCKED, driver=LockedDriver("535.1.1", "proprietary"))
SNAPSHOTS = {"subvolumes": ["/home"], "send_to": TARGET}


def found(**changes: Any) -> list[Requirement]:
    every = list(judge(subject(**changes)))
    for one in every:
        assert one.summary
        if one.status in {"fail", "unknown"}:
            assert one.fix, one
        if one.status in {"ok", "unknown"} and one.subject == "host":
            assert one.evidence or one.id in {"host_keys", "borg.verified"}, one
    return every


def ids(every: list[Requirement], status: str) -> list[str]:
    return [one.id for one in every if one.status == status]


def only(every: list[Requirement], name: str) -> Requirement:
    (one,) = (each for each in every if each.id == name)
    return one


def only_warning(every: list[Requirement]) -> Requirement:
    (one,) = (each for each in every if each.status == "warn")
    return one


def test_a_proven_rig_with_a_tried_backup_is_safe() -> None:
    every = found()

    assert judged(every) == "safe"
    assert set(ids(every, "ok")) == {
        "apply", "proof", "gpus", "lock", "vault", "borg.key", "borg.passphrase", "borg.newest",
        "borg.verified", "backup.disk",
    }  # fmt: skip
    assert only(every, "backup.disk").summary == f"{PLACE} is on sda, the root on nvme0n1"


@pytest.mark.parametrize(
    ("changes", "names", "words"),
    [
        ({"rigops_state": state(borg=None)}, ["borg.key", "borg.newest", "borg.verified"], "never"),
        ({"runs": (run("failed", "2026-11-24T06:00:00Z"),)}, ["apply"], "ended as failed"),
        ({"runs": (run("reboot_owed", "2026-11-24T06:00:00Z"),)}, ["apply"], "reboot_owed"),
        (
            {"runs": (run("converged", "2026-11-24T06:00:00Z", "release"),)},
            ["apply"],
            "release at 2026-11-24",
        ),
        (
            {"runs": (run("changed", "2026-11-24T06:00:00Z", "pyinfra"),)},
            ["apply"],
            "nothing verified it",
        ),
        ({"runs": (run("begun", "2026-11-24T06:00:00Z"),)}, ["apply"], "did not end"),
        ({"declared": {"borg": BORG}}, ["driver"], "driver 535.261.03 is not declared: will not"),
        ({"digest": "another"}, ["apply"], "the inventory was changed since"),
        ({"rigops_state": state(proof=proven(kernel="5.10"))}, ["proof", "lock"], "the kernel"),
        ({"rigops_state": state(failed="{}")}, ["proof"], "preflight failed"),
        ({"locked": None}, ["lock", "vault"], "no entry of this host"),
        ({"locked": replace(LOCKED, sets=())}, ["vault"], "names no packages"),
        ({"locked": OTHER}, ["lock", "vault"], "the host proved"),
        ({"controller": replace(OWN, missing=("a 1",))}, ["vault"], "1 missing (a 1)"),
        ({"controller": replace(OWN, damaged=("a 1",))}, ["vault"], "1 damaged (a 1)"),
        ({"controller": replace(OWN, has_index=False)}, ["vault"], "its index is missing"),
        ({"controller": replace(OWN, key=None)}, ["borg.key"], "not exported to /vault"),
        ({"controller": replace(OWN, key_digest="cd")}, ["borg.key"], "another key"),
        (
            {"controller": replace(OWN, passphrase=Passphrase(state="absent", why="no", fix="do"))},
            ["borg.passphrase"],
            "no",
        ),
        (
            {"controller": replace(OWN, passphrase=Passphrase(state="refused", why="x", fix="do"))},
            ["borg.passphrase"],
            "x",
        ),
        (
            {"rigops_state": state(ran(repository={"archives": 0}, **FRESH))},
            ["borg.newest"],
            "there is no backup",
        ),
        ({"boot": boot(days=3)}, ["borg.newest", "borg.verified"], "the most is 2 days"),
        ({"declared": {"driver": "535"}}, ["backup"], "nothing is backed up"),
        (
            {"declared": {"driver": "535", "borg": {**BORG, "repository": "/home/backup"}},
             "rigops_state": state(ran(repository={"location": "/home/backup"}, **FRESH))},
            ["backup.disk"],
            "is on nvme0n1, which has the root",
        ),
        (
            {"declared": {"driver": "535", "borg": {**BORG, "repository": "/srv/backup"}},
             "rigops_state": state(ran(repository={"location": "/srv/backup"}, **FRESH))},
            ["backup.disk"],
            "on the file system of the root",
        ),
        (
            {"declared": {"driver": "535", "borg": {**BORG, "repository": "ssh://me@rig/x"}},
             "rigops_state": state(ran(repository={"location": "ssh://***@rig/x"}, **FRESH))},
            ["backup.disk"],
            "on this host itself",
        ),
        (
            {"declared": {"driver": "535", "borg": BORG, "gpus": 3}},
            ["gpus"],
            "2 GPUs are here, declared 3",
        ),
        ({"nvidia_smi_xml": smi({FIRST: "GPU-1"}), "pci": pci(FIRST)}, ["gpus", "proof"], "GPU-2"),
        (
            {"rigops_state": state(proof=proven(gpus=LOCKED.gpus[:1]))},
            ["gpus", "proof"],
            "missing from the last proof",
        ),
        (
            {"nvidia_smi_xml": smi({**UUIDS, SECOND: "GPU-3"})},
            ["gpus"],
            "GPU-2 was in the last proof and is missing",
        ),
    ],
)  # fmt: skip
def test_one_thing_that_is_missing_is_named(
    changes: Mapping[str, Any], names: list[str], words: str
) -> None:
    every = found(**changes)

    assert judged(every) == "not safe"
    assert set(ids(every, "fail")) == set(names)
    assert any(words in one.summary for one in every if one.status == "fail"), every


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"rigops_state": None}, {"apply", "proof", "borg.newest", "borg.verified"}),
        ({"boot": None}, {"borg.newest", "borg.verified"}),
        ({"storage": None}, {"backup.disk", "coverage"}),
        ({"identity": None}, {"backup.disk"}),
        ({"nvidia_smi_xml": None}, {"gpus"}),
        ({"controller": replace(OWN, passphrase=Passphrase(why="no", fix="do"))},
         {"borg.passphrase"}),
        ({"rigops_state": state("{}")}, {"borg.newest"}),
        ({"declared": WATCHED, "rigops_state": state(None)}, {"backup.newest", "backup.verified"}),
    ],
)  # fmt: skip
def test_what_is_unknown_is_never_safe(changes: Mapping[str, Any], names: set[str]) -> None:
    every = found(**changes)

    assert judged(every) != "safe"
    assert set(ids(every, "unknown")) >= names


def watched(**changes: Any) -> list[Requirement]:
    given = {"declared": WATCHED, "backups": units(), "rigops_state": state(None), **changes}
    return found(**given)


def test_of_another_tools_backup_the_age_is_known_and_the_rest_is_left_to_a_person() -> None:
    every = watched()

    assert judged(every) == "unknown"
    assert only(every, "backup.newest").summary == "the newest backup of borgmatic.timer is 9 h old"
    assert only(every, "backup.verified").summary == (
        "rigops only watches the age of the backups of borgmatic.timer"
    )
    assert "see that borgmatic.timer backs it up" in only_warning(every).summary


@pytest.mark.parametrize(
    ("backups", "words", "fix"),
    [
        (
            units(at="Sun 2026-11-22 03:00:00 UTC"),
            "the newest backup of borgmatic.timer is 3 days old, the most is 2 days",
            "start borgmatic.timer on the host",
        ),
        (
            units("exit-code"),
            "borgmatic.timer: the last run failed: exit-code",
            "see `journalctl -u borgmatic.timer` on the host",
        ),
        (
            "== systemctl show\nId=other.service\n",
            "borgmatic.timer: the declared unit was not found",
            "see `journalctl -u borgmatic.timer` on the host",
        ),
    ],
)
def test_a_backup_of_another_tool_that_is_old_or_failed_is_named(
    backups: str, words: str, fix: str
) -> None:
    every = watched(backups=backups)

    assert judged(every) == "not safe"
    assert ids(every, "fail") == ["backup.newest"]
    assert (only(every, "backup.newest").summary, only(every, "backup.newest").fix) == (words, fix)


def test_a_drill_that_found_a_difference_counts_though_a_check_passed_later() -> None:
    text = ran(
        last_drill={"at": "2026-11-25T05:00:00Z", "result": "failed", "error": "2 files differ"},
        last_check={"at": "2026-11-25T06:00:00Z", "result": "ok"},
    )

    one = only(found(rigops_state=state(text)), "borg.verified")

    assert (one.status, "2 files differ" in one.summary) == ("fail", True)


def test_snapshots_on_another_disk_are_a_backup_too() -> None:
    declared = {"driver": "535", "snapshots": SNAPSHOTS}

    new = found(declared=declared, rigops_state=state(None, snapshots=sent()))
    old = found(declared=declared, rigops_state=state(None, snapshots=sent("2026-11-01T06:00:00Z")))
    none = found(declared=declared, rigops_state=state(None))

    assert judged(new) == "safe"
    assert only(new, "backup.disk").summary == f"{TARGET} is on sdc, the root on nvme0n1"
    assert ids(old, "fail") == ids(none, "fail") == ["snapshots.sent"]


def test_a_target_that_is_a_partition_beside_the_root_is_not_safe() -> None:
    moved = tuple(
        (name, "nvme0n1" if name == "sdc1" else above, *rest) for name, above, *rest in DEVICES
    )

    every = found(
        declared={"driver": "535", "snapshots": SNAPSHOTS},
        rigops_state=state(None, snapshots=sent()),
        identity=identity(devices=moved),
    )

    assert ids(every, "fail") == ["backup.disk"]


def test_an_image_is_on_the_disk_of_its_file() -> None:
    image = ("loop0", "", "7:0", "loop", "100", "ext4", "ee", "")
    nodes = "7:0 /dev/loop0\n== backing files\nloop0 /home/me/backup.img\n"
    mounts = MOUNTS.replace("/dev/sda1", "/dev/loop0")

    every = found(
        identity=identity(devices=(*DEVICES, image), more=nodes),
        storage=f"== /proc/self/mounts\n{mounts}",
    )

    assert ids(every, "fail") == ["backup.disk"]
    assert "is on nvme0n1, which has the root" in only(every, "backup.disk").summary


@pytest.mark.parametrize(
    ("argument", "known"),
    [("root=UUID=aa", True), ("root=/dev/nvme0n1p2", True), ("root=LABEL=x", False)],
)
def test_of_a_root_that_is_no_device_the_kernel_knows_where_it_is(
    argument: str, *, known: bool
) -> None:
    mounts = MOUNTS.replace("/dev/nvme0n1p2 / btrfs", "overlay / overlay")

    one = only(
        found(storage=f"== /proc/self/mounts\n{mounts}", proc_cmdline=f"{argument}\n"),
        "backup.disk",
    )

    assert one.status == ("ok" if known else "unknown")


def test_a_file_system_of_several_parts_is_on_an_unknown_disk() -> None:
    pool = MOUNTS.replace("/dev/sda1 /mnt/backup ext4", "/dev/sda1:/dev/sdb1 /mnt/backup bcachefs")

    one = only(found(storage=f"== /proc/self/mounts\n{pool}"), "backup.disk")

    assert one.status == "unknown"


def test_what_is_in_no_backup_is_named_and_what_goes_with_the_root_is_a_warning() -> None:
    mounts = f"{MOUNTS}/dev/nvme0n1p2 /var/lib/vm btrfs rw,subvol=/@vm 0 0\n"

    every = found(storage=f"== /proc/self/mounts\n{mounts}")

    named = {one.subject: one.status for one in every if one.id == "coverage"}
    assert named == {
        "/var/lib/vm": "warn", "/srv/models": "info", "/scratch": "info", "/nas": "info",
        "host": "info",
    }  # fmt: skip
    assert judged(every) == "safe"


def test_subvolumes_inside_of_snapshots_are_named() -> None:
    every = found(
        declared={"driver": "535", "snapshots": SNAPSHOTS},
        rigops_state=state(None, snapshots=sent(nested={"/home": ["me/machines"]})),
    )

    assert "/home/me/machines" in {one.subject for one in every if one.status == "warn"}


def test_a_driver_that_will_not_come_back_is_a_warning_once_accepted() -> None:
    every = list(judge(replace(subject(declared={"borg": BORG}), accepts_no_driver=True)))

    assert judged(every) == "safe"
    assert only_warning(every).summary == "driver 535.261.03 is not declared: will not be installed"


@pytest.mark.parametrize(
    "later",
    [
        run("refused", "2026-11-24T06:00:00Z", "rollback"),
        replace(run("failed", "2026-11-24T06:00:00Z", "rollback"), touched=False),
        replace(run("interrupted", "2026-11-24T06:00:00Z", "release"), touched=False),
        run("ok", "2026-11-24T06:00:00Z", "backup"),
        run("failed", "2026-11-24T06:00:00Z", "restore"),
        run("not safe", "2026-11-24T06:00:00Z", "capture"),
    ],
)
def test_a_run_that_left_alone_what_is_declared_does_not_undo_the_last_apply(later: Run) -> None:
    assert judged(found(runs=(later,))) == "safe"


def test_one_card_needs_no_pairs() -> None:
    one = {FIRST: "GPU-1"}

    every = found(
        nvidia_smi_xml=smi(one),
        pci=pci(*one),
        rigops_state=state(proof=proven(gpus=LOCKED.gpus[:1], pairs=())),
        locked=replace(LOCKED, gpus=LOCKED.gpus[:1], pairs=()),
    )

    assert judged(every) == "safe"


def test_ssh_keys_that_are_declared_are_in_a_backup_after_the_apply() -> None:
    declared = {"driver": "535", "borg": {**BORG, "host_keys": True}}

    new = found(declared=declared)
    old = found(declared=declared, rigops_state=state(ran(newest_at="2026-11-19T06:00:00Z")))

    assert only(new, "host_keys").status == "ok"
    assert only(old, "host_keys").status == "warn"
    assert only(found(), "host_keys").status == "info"


def test_the_gravest_comes_first() -> None:
    every = found(boot=None, locked=None)

    statuses = [one.status for one in every]
    assert statuses == sorted(
        statuses, key=["fail", "unknown", "warn", "ok", "info", "skipped"].index
    )


def test_a_time_that_nobody_can_read_is_unknown() -> None:
    text = ran(last_drill={"at": "2026-11-25T06:00:00.5Z", "result": "ok"})

    assert only(found(rigops_state=state(text)), "borg.verified").status == "unknown"
