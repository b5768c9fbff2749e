"""Which roots of snapshots are refused, so that a rollback never ends in a machine that is down."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from rigops.backup.host.errors import HostError
from rigops.backup.host.subvolumes import Subvolume
from rigops.concerns.snapshots.host.choosing import parse_when
from rigops.concerns.snapshots.host.root_checks import (
    Kernels,
    check_command_line,
    check_files,
    check_fstab_root,
    check_menu,
    check_mounts,
    check_root,
    choose_kernel,
    choose_snapshot,
    parse_fstab,
    version_key,
)

NOW = datetime(2026, 11, 26, tzinfo=timezone.utc)
NAME = "20261125T060001Z-apply"
HERE, OTHER = "0b9f9dd5-9f0a-4bd5-a4a4-a6a1fd8d8f5d", "7e7a9d1c-3a0b-4dc5-8a53-1f2f8d3f9b10"
DISKS = {f"UUID={HERE}": HERE, f"UUID={OTHER}": OTHER, "/dev/sda2": HERE}
SUBVOLUMES = {"@": 256, "@home": 257, "@/var/lib/machines": 258}
OLD, NEW = "6.1.0-9-amd64", "6.1.0-18-amd64"


def root(number: int) -> Subvolume:
    return Subvolume(number, 5, "@", "uuid", "", "", is_read_only=False)


def refusal(error: pytest.ExceptionInfo[HostError]) -> str:
    return f"{error.value.message}. fix: {error.value.fix}"


@pytest.mark.parametrize(
    ("kind", "number", "why"),
    [
        ("ext4", 0, "/ is on ext4, not on btrfs. fix: bring single files back"),
        ("", 0, "/ is on no file system, not on btrfs"),
        ("btrfs", 5, "/ is the top level of its file system"),
        ("btrfs", 0, "/ is the top level of its file system"),
    ],
)
def test_only_a_subvolume_of_btrfs_can_be_replaced(kind: str, number: int, why: str) -> None:
    with pytest.raises(HostError) as error:
        check_root(kind, root(number) if number else None)
    assert why in refusal(error)
    check_root("btrfs", root(256))


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("rootflags=subvolid=256", "mounts / by subvolid=256"),
        ("rootflags=subvol=@,subvolid=256", "mounts / by subvolid=256"),
        ("rootflags=subvolid=256 rootflags=subvol=@", "mounts / by subvolid=256"),
        ("", "names no subvol= for /"),
        ("rootflags=compress=zstd", "names no subvol= for /"),
        ("rootflags=subvol=@ rootflags=noatime", "names no subvol= for /"),
        ("rootflags=subvol=@old", "mounts subvol=@old, and / is subvol=/@"),
    ],
)
def test_the_command_line_has_to_name_the_root_by_its_path(flags: str, why: str) -> None:
    with pytest.raises(HostError) as error:
        check_command_line(f"BOOT_IMAGE=/vmlinuz root=UUID={HERE} {flags} ro quiet\n", "@")
    assert why in refusal(error)
    assert "fix: write rootflags=subvol=/@ into GRUB_CMDLINE_LINUX" in refusal(error)


@pytest.mark.parametrize("flags", ["subvol=@", "noatime,subvol=/@", "subvol=@,compress=zstd:1"])
def test_a_command_line_that_names_it(flags: str) -> None:
    check_command_line(f"root=/dev/sda2 rootflags={flags} ro", "@")


RUNNING = f"BOOT_IMAGE=/vmlinuz root=UUID={HERE} rootflags=subvol=@ ro"
ENTRY = "menuentry 'x' {{\n\tlinux\t/@/boot/vmlinuz root=UUID={uuid} ro {flags} quiet\n}}\n"


@pytest.mark.parametrize("flags", ["", "rootflags=subvolid=256", "rootflags=subvol=@old"])
def test_a_menu_that_would_boot_another_root_is_refused(flags: str) -> None:
    good = ENTRY.format(uuid=HERE, flags="rootflags=subvol=@")
    bad = ENTRY.format(uuid=HERE, flags=flags)
    with pytest.raises(HostError) as error:
        check_menu(good + bad, RUNNING, "@", NAME)
    assert refusal(error).startswith(f"the boot menu of {NAME}: the kernel command line ")
    assert error.value.fix == "choose another snapshot with --at"
    with pytest.raises(HostError, match="GRUB's menu in /boot: ") as error:
        check_menu(bad, RUNNING, "@")
    assert error.value.fix == "run update-grub"


def test_entries_of_other_systems_do_not_matter_nor_does_a_missing_menu() -> None:
    check_menu(ENTRY.format(uuid=OTHER, flags=""), RUNNING, "@")
    check_menu(ENTRY.format(uuid=HERE, flags="rootflags=subvol=@"), RUNNING, "@")
    check_menu("", RUNNING, "@", NAME)


def test_an_fstab_may_not_mount_the_root_by_number() -> None:
    lines = parse_fstab(f"UUID={HERE} / btrfs defaults,subvolid=256,subvol=/@ 0 0\n")
    with pytest.raises(HostError) as error:
        check_fstab_root(lines, "@")
    assert refusal(error) == (
        "/etc/fstab mounts / by subvolid=256. fix: write subvol=/@ there instead"
    )
    with pytest.raises(HostError, match=f"/etc/fstab of {NAME} mounts / by subvolid=256") as error:
        check_fstab_root(lines, "@", NAME)
    assert "take a snapshot" in error.value.fix

    check_fstab_root(parse_fstab(f"UUID={HERE} /home btrfs subvolid=257 0 0"), "@")


def test_an_fstab_is_read_with_its_comments_quotes_and_blanks() -> None:
    text = f'# / was on sda\n\nUUID="{HERE}" /my\\040disk btrfs\n  # x / btrfs subvolid=1\ntorn /\n'

    (line,) = parse_fstab(text)

    assert line == (f"UUID={HERE}", "/my disk", "btrfs", ("defaults",))


def notices(*lines: str) -> list[str]:
    return check_mounts(parse_fstab("\n".join(lines)), HERE, DISKS, SUBVOLUMES)


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        (f"UUID={HERE} /home btrfs subvol=@homes 0 0", "subvol=@homes"),
        (f"UUID={HERE} /home btrfs defaults,subvol=/data/home 0 0", "subvol=data/home"),
        ("/dev/sda2 /home btrfs subvol=@homes 0 0", "subvol=@homes"),
        (f"UUID={HERE} /home btrfs subvolid=300 0 0", "subvolid=300"),
    ],
)
def test_a_subvolume_that_the_snapshot_mounts_has_to_be_there(line: str, lost: str) -> None:
    with pytest.raises(HostError) as error:
        notices(line)
    assert error.value.message == (
        f"the snapshot mounts {lost} at /home, and there is no such subvolume now"
    )
    assert notices(line.replace("btrfs ", "btrfs noauto,")) == []
    (notice,) = notices(line.replace("btrfs ", "btrfs nofail,"))
    assert notice == f"the snapshot mounts {lost} at /home, which does not exist now"


def test_mounts_that_are_there_or_elsewhere_are_well() -> None:
    assert (
        notices(
            f"UUID={HERE} / btrfs subvol=@ 0 0",
            f"UUID={HERE} /home btrfs subvol=/@home 0 0",
            f"UUID={HERE} /top btrfs subvolid=5 0 0",
            f"UUID={HERE} /var/lib/machines btrfs subvol=@/var/lib/machines 0 0",
            f"UUID={OTHER} /data btrfs subvol=@data 0 0",
            "tmpfs /tmp tmpfs defaults 0 0",
            "server:/x /x nfs defaults 0 0",
        )
        == []
    )


def test_an_absent_disk_is_said_where_the_boot_waits_for_it() -> None:
    (notice,) = notices(
        "UUID=1234-ABCD /boot/efi vfat umask=0077 0 1",
        "UUID=gone /backup ext4 defaults,nofail 0 2",
        "UUID=gone /other ext4 noauto 0 2",
    )
    assert notice == (
        "the snapshot's fstab has UUID=1234-ABCD (/boot/efi), which is absent: its boot waits for "
        "that, or fails"
    )


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        (("usr/bin/sh", "lib/systemd/systemd"), "etc/fstab"),
        (("etc/fstab", "lib/systemd/systemd"), "usr/bin/sh"),
        (("etc/fstab", "bin/sh"), "usr/lib/systemd/systemd"),
    ],
)
def test_a_snapshot_that_is_no_root_is_refused(there: tuple[str, ...], missing: str) -> None:
    with pytest.raises(HostError, match=f"{NAME} is no bootable root: it has no {missing}"):
        check_files(NAME, there)
    check_files(NAME, (*there, missing))


def kernels(in_boot: str, with_modules: str, *, is_apart: bool) -> Kernels:
    return Kernels(tuple(in_boot.split()), tuple(with_modules.split()), is_apart)


def test_the_newest_kernel_by_version_boots() -> None:
    found = kernels(f"{NEW} {OLD}", f"{OLD} {NEW}", is_apart=True)
    assert choose_kernel(found, NAME) == (NEW, [])
    assert choose_kernel(found._replace(is_apart=False), NAME) == (NEW, [])
    assert version_key("6.10.1") > version_key("6.9.12-amd64")


def test_every_kernel_of_a_boot_that_stays_needs_its_modules() -> None:
    with pytest.raises(HostError) as error:
        choose_kernel(kernels(f"{OLD} {NEW}", OLD, is_apart=True), NAME)
    assert refusal(error) == (
        f"/boot has kernel {NEW}, of which {NAME} has no modules. fix: choose a later snapshot "
        f"with --at, or remove {NEW} (apt-get purge linux-image-{NEW})"
    )


def test_where_none_of_them_has_any_a_kernel_of_the_snapshot_is_installed_first() -> None:
    with pytest.raises(HostError) as error:
        choose_kernel(kernels(NEW, OLD, is_apart=True), NAME)
    assert f"first apt-get install linux-image-{OLD}, and then remove {NEW}" in refusal(error)
    with pytest.raises(HostError, match="/boot has no kernel"):
        choose_kernel(kernels("", OLD, is_apart=True), NAME)
    with pytest.raises(HostError) as error:
        choose_kernel(kernels(NEW, "", is_apart=True), NAME)
    assert "choose another snapshot with --at" in refusal(error)


def test_a_boot_inside_the_root_needs_one_kernel_with_its_modules() -> None:
    chosen, said = choose_kernel(kernels(f"{OLD} {NEW}", OLD, is_apart=False), NAME)
    assert chosen == OLD
    assert said == [
        f"kernel {NEW} of the snapshot has no modules there: choose {OLD} in GRUB's menu"
    ]
    with pytest.raises(HostError, match=f"{NAME} has no modules of its kernel {NEW}"):
        choose_kernel(kernels(NEW, OLD, is_apart=False), NAME)
    with pytest.raises(HostError, match=f"{NAME} has no kernel in boot/"):
        choose_kernel(kernels("", OLD, is_apart=False), NAME)


TIMER, ASIDE = "20261125T070001Z-timer", "20261125T080001Z-rollback"


@pytest.mark.parametrize(
    ("at", "chosen"),
    [
        ("", NAME),
        ("2026-11-25T09:00:00Z", TIMER),
        ("2026-11-25T06:00:01Z", NAME),
        (TIMER, TIMER),
        (ASIDE, ASIDE),
    ],
)
def test_the_newest_of_apply_is_taken_or_what_was_asked_for(at: str, chosen: str) -> None:
    assert str(choose_snapshot([NAME, TIMER, ASIDE], parse_when(at), NOW)) == chosen


def test_without_one_the_nearest_are_named() -> None:
    with pytest.raises(HostError) as error:
        choose_snapshot([TIMER, ASIDE], parse_when(""), NOW)
    assert refusal(error) == (
        f"/ has no snapshot from before an apply. fix: choose with --at one of: {TIMER}, {ASIDE}"
    )
    with pytest.raises(HostError, match="/ has no snapshot of that time") as error:
        choose_snapshot([NAME, TIMER], parse_when("2026-11-01T00:00:00Z"), NOW)
    assert error.value.fix == f"choose with --at one of: {NAME}, {TIMER}"
    with pytest.raises(HostError) as error:
        choose_snapshot([], parse_when(""), NOW)
    assert error.value.fix == "declare snapshots, and apply"
