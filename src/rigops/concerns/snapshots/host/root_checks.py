"""Whether the root of a snapshot would boot in the place of the present one. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.host.snapshot_names import parse_snapshot_name
from rigops.backup.host.subvolumes import TOP_ID
from rigops.concerns.snapshots.host.chain import kind_of
from rigops.concerns.snapshots.host.choosing import nearest_to, order_candidates

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from rigops.backup.host.snapshot_names import SnapshotName
    from rigops.backup.host.subvolumes import Subvolume
    from rigops.concerns.snapshots.host.choosing import When

FSTAB = "etc/fstab"

_FSTAB_COLUMNS = 3  # without those that may be left out
_FSTAB_ESCAPE = re.compile(r"\\([0-7]{3})")
_ON_DISK = ("UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "/dev/")
_VERSION_PART = re.compile(r"([0-9]+)|([^0-9]+)")
# Any one of each; what is in lib is in usr/lib where that is a symbolic link.
_NEEDED = (
    (FSTAB,),
    ("usr/bin/sh", "bin/sh"),
    ("usr/lib/systemd/systemd", "lib/systemd/systemd"),
)


class FstabLine(NamedTuple):
    """`spec`: what names the disk."""

    spec: str
    where: str
    kind: str
    options: tuple[str, ...]

    def option(self, name: str) -> str | None:
        return option_value(self.options, name)

    @property
    def is_on_disk(self) -> bool:
        return self.spec.startswith(_ON_DISK)

    @property
    def is_needed(self) -> bool:
        """A boot waits for it, and ends in emergency mode without."""
        return not {"nofail", "noauto"}.intersection(self.options)


class Kernels(NamedTuple):
    """Releases. `in_boot`: that can be booted; `with_modules`: in the snapshot.

    `is_apart`: /boot is no part of the root, and stays as it is.
    """

    in_boot: tuple[str, ...]
    with_modules: tuple[str, ...]
    is_apart: bool


def option_value(options: Iterable[str], name: str) -> str | None:
    """The last one is in force."""
    found = [one.partition("=")[2] for one in options if one.partition("=")[0] == name]
    return found[-1] if found else None


def parse_fstab(text: str) -> list[FstabLine]:
    found = []
    for line in text.splitlines():
        words = [*map(_plain_word, line.split()), "defaults"]
        if len(words) > _FSTAB_COLUMNS and not words[0].startswith("#"):
            spec, where, kind, options = words[:4]
            found.append(FstabLine(spec.replace('"', ""), where, kind, tuple(options.split(","))))
    return found


def check_root(kind: str, root: Subvolume | None) -> None:
    if kind != "btrfs":
        raise HostError(
            f"/ is on {kind or 'no file system'}, not on btrfs",
            "bring single files back: rigops restore HOST PATH",
        )
    if root is None or root.number == TOP_ID:
        raise HostError(
            "/ is the top level of its file system, which cannot be replaced",
            "bring single files back: rigops restore HOST PATH; or install with / in a subvolume "
            "such as @",
        )


def choose_snapshot(names: Sequence[str], when: When, now: datetime) -> SnapshotName:
    """By default the newest that an apply took."""
    is_asked = bool(when.name) or when.latest is not None
    found = order_candidates(names, when, now)
    if not is_asked:
        found = [one for one in found if kind_of(one) == "apply"]
    chosen = parse_snapshot_name(found[0]) if found else None
    if chosen:
        return chosen
    nearest = ", ".join(nearest_to(names, when))
    fix = f"choose with --at one of: {nearest}" if nearest else "declare snapshots, and apply"
    what = "of that name" if when.name else "of that time" if is_asked else "from before an apply"
    raise HostError(f"/ has no snapshot {what}", fix)


def check_command_line(text: str, root: str) -> None:
    """Of the kernel that runs. `root`: from the top level."""
    flags = [one.partition("=")[2] for one in text.split() if one.startswith("rootflags=")]
    write = (
        f"write rootflags=subvol=/{root} into GRUB_CMDLINE_LINUX of /etc/default/grub, run "
        "update-grub, and reboot"
    )
    for one in flags:
        number = option_value(one.split(","), "subvolid")
        if number is not None:
            raise HostError(f"the kernel command line mounts / by subvolid={number}", write)
    named = option_value(flags[-1].split(","), "subvol") if flags else None
    if named is None:
        raise HostError(
            "the kernel command line names no subvol= for /, so that a renamed root is not booted",
            write,
        )
    if named.strip("/") != root:
        raise HostError(
            f"the kernel command line mounts subvol={named}, and / is subvol=/{root}", write
        )


def check_menu(text: str, command_line: str, root: str, snapshot: str = "") -> None:
    """Of GRUB: its entries of this root. `snapshot`: whose menu it is; empty: that of /boot."""
    own = option_value(command_line.split(), "root")
    for line in text.splitlines():
        words = line.split()
        if not words or not words[0].startswith("linux") or option_value(words, "root") != own:
            continue
        try:
            check_command_line(line, root)
        except HostError as error:
            where = f"the boot menu of {snapshot}" if snapshot else "GRUB's menu in /boot"
            fix = "choose another snapshot with --at" if snapshot else "run update-grub"
            raise HostError(f"{where}: {error.message}", fix) from None


def check_fstab_root(lines: Iterable[FstabLine], root: str, snapshot: str = "") -> None:
    """`snapshot`: whose fstab it is; empty: of the present root."""
    for one in lines:
        number = one.option("subvolid") if one.where == "/" else None
        if number is None:
            continue
        if not snapshot:
            raise HostError(
                f"/etc/fstab mounts / by subvolid={number}",
                f"write subvol=/{root} there instead",
            )
        raise HostError(
            f"/etc/fstab of {snapshot} mounts / by subvolid={number}",
            f"write subvol=/{root} into /etc/fstab, take a snapshot, and go back to that or to a "
            "later one with --at",
        )


def check_mounts(
    lines: Iterable[FstabLine],
    file_system: str,
    disks: Mapping[str, str],
    subvolumes: Mapping[str, int],
) -> list[str]:
    """Notes on them. `disks`: UUID by spec, empty where it is absent."""
    notices = []
    for one in lines:
        if not one.is_on_disk or "noauto" in one.options:
            continue
        uuid = disks.get(one.spec, "")
        lost = _lost_subvolume(one, subvolumes) if uuid == file_system and uuid else ""
        if lost and one.is_needed:
            raise HostError(
                f"the snapshot mounts {lost} at {one.where}, and there is no such subvolume now",
                f"make it: mount -o subvolid={TOP_ID} UUID={file_system} /mnt && "
                f"btrfs subvolume create /mnt/{lost.partition('=')[2].strip('/')}; or choose "
                "another snapshot with --at",
            )
        if lost:
            notices.append(f"the snapshot mounts {lost} at {one.where}, which does not exist now")
        elif not uuid and one.is_needed:
            notices.append(
                f"the snapshot's fstab has {one.spec} ({one.where}), which is absent: its boot "
                "waits for that, or fails"
            )
    return notices


def _lost_subvolume(line: FstabLine, subvolumes: Mapping[str, int]) -> str:
    """As an option of a mount; empty where it is there."""
    if line.kind != "btrfs":
        return ""
    named, number = line.option("subvol"), line.option("subvolid")
    if named is not None:
        path = named.strip("/")
        return "" if not path or path in subvolumes else f"subvol={path}"
    known = {str(one) for one in (*subvolumes.values(), TOP_ID, 0)}
    return "" if number is None or number in known else f"subvolid={number}"


def check_files(snapshot: str, there: Collection[str]) -> None:
    """`there`: which of `needed_files` the snapshot has."""
    for any_of in _NEEDED:
        if not any(one in there for one in any_of):
            raise HostError(
                f"{snapshot} is no bootable root: it has no {any_of[0]}",
                "choose another snapshot with --at",
            )


def needed_files() -> list[str]:
    return [one for any_of in _NEEDED for one in any_of]


def choose_kernel(kernels: Kernels, snapshot: str) -> tuple[str, list[str]]:
    """The release that will boot, and what a person should know of the others."""
    known = sorted(set(kernels.in_boot), key=version_key)
    good = [one for one in known if one in kernels.with_modules]
    lacking = [one for one in known if one not in kernels.with_modules]
    if kernels.is_apart and (lacking or not good):
        raise _no_kernel(kernels, snapshot, good, lacking)
    if not good:
        why = "no kernel in boot/"
        if known:
            why = f"no modules of its kernel {', '.join(known)}"
        raise HostError(f"{snapshot} has {why}", "choose another snapshot with --at")
    newest = good[-1]
    return newest, [
        f"kernel {one} of the snapshot has no modules there: choose {newest} in GRUB's menu"
        for one in lacking
        if version_key(one) > version_key(newest)
    ]


def _no_kernel(
    kernels: Kernels, snapshot: str, good: Iterable[str], lacking: Iterable[str]
) -> HostError:
    """/boot is not rolled back, and any of its kernels may be the one that boots."""
    names = ", ".join(lacking)
    message = f"/boot has kernel {names}, of which {snapshot} has no modules"
    if not names:
        message = "/boot has no kernel"
    purge = " ".join(f"linux-image-{one}" for one in lacking)
    remove = f"remove {names} (apt-get purge {purge})" if purge else ""
    if good:
        return HostError(message, f"choose a later snapshot with --at, or {remove}")
    having = sorted(kernels.with_modules, key=version_key)
    if not having:
        return HostError(message, "choose another snapshot with --at: this one has no modules")
    install = f"apt-get install linux-image-{having[-1]}"
    then = f", and then {remove}" if remove else ""
    return HostError(message, f"choose another snapshot with --at, or first {install}{then}")


def version_key(release: str) -> list[tuple[int, str]]:
    """Numbers by value, as GRUB orders its menu."""
    return [
        (int(number), "") if number else (-1, other)
        for number, other in _VERSION_PART.findall(release)
    ]


def _plain_word(text: str) -> str:
    return _FSTAB_ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)
