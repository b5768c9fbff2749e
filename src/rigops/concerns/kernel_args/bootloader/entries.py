"""Boot loader entries, a file each, and systemd-boot, which starts them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Final

from rigops.concerns.kernel_args.bootloader import grub_menu, tokens
from rigops.concerns.kernel_args.bootloader.shell import apart, synced
from rigops.concerns.kernel_args.bootloader.tokens import ByHand, CannotEditError, Edit, Words, edit
from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe import kernel_arguments as arguments
from rigops.probe.boot_files import LOADER_ENTRIES, Files
from rigops.record.trial_boot import MARK

ENTRY_ID: Final = "rigops-trial"  # of a trial boot

_FIELD = re.compile(r"^[ \t]*(?P<key>[a-z-]+)[ \t]+(?P<value>[^\n]*)$", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_NO_NORMAL_BOOT = re.compile(r"memtest|rescue|recovery", re.IGNORECASE)
_NUMBERS = re.compile(r"([0-9]{1,18})")
_ROOM_KIB: Final = 1024


@dataclass(frozen=True)
class LoaderEntry:
    path: str
    text: str
    linux: str  # empty where it starts something else
    options: str

    @property
    def stem(self) -> str:
        return self.path.rpartition("/")[2].removesuffix(".conf")

    @property
    def line(self) -> str:
        """The first line with arguments; the path where there is none."""
        found = (line.strip() for line in self.text.splitlines())
        return next((line for line in found if line.startswith("options")), self.path)

    def arguments(self, variables: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Those for the kernel. `variables`: of GRUB, which puts their values in."""
        known = variables or {}
        found = arguments.split(
            _VARIABLE.sub(lambda one: known.get(one[1] or one[2], one[0]), self.options)
        )
        return tuple(takewhile(lambda one: one not in tokens.ENDS, found))

    @property
    def is_normal(self) -> bool:
        """Whether it starts Linux to work with. Entries for repair are never edited."""
        found = self.arguments()
        return bool(
            self.linux
            and self.stem != ENTRY_ID
            and MARK not in found
            and not grub_menu.is_recovery(found)
            and not _NO_NORMAL_BOOT.search(f"{self.stem} {self.linux}")
        )


def read(path: str, text: str) -> LoaderEntry:
    fields: dict[str, list[str]] = {}
    for one in _FIELD.finditer(text):
        fields.setdefault(one["key"], []).append(one["value"].rstrip(" \t\r"))
    linux, options = (" ".join(fields.get(key, [])) for key in ("linux", "options"))
    return LoaderEntry(path, text, linux, options)


def normal(files: Files) -> tuple[LoaderEntry, ...]:
    """The oldest kernel first, as far as names show it."""
    paths = [path for folder in LOADER_ENTRIES for path in files.below(folder, ".conf")]
    found = (read(path, files[path]) for path in sorted(paths, key=_by_numbers))
    return tuple(one for one in found if one.is_normal)


def common_arguments(
    found: Iterable[LoaderEntry], variables: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Arguments of all of them: the next boot has these, whichever is its entry."""
    lines = [one.arguments(variables) for one in found]
    return tuple(one for one in lines[-1] if all(one in line for line in lines)) if lines else ()


def edits(
    found: Iterable[LoaderEntry], files: Files, *, add: Words, remove: Words
) -> tuple[Edit, ...]:
    return tuple(
        change
        for one in found
        for change in edit(files, one.path, tokens.options, "options ", add=add, remove=remove)
    )


def _by_numbers(path: str) -> tuple[tuple[bool, int, str], ...]:
    return tuple((whole(part) is not None, whole(part) or 0, part) for part in _NUMBERS.split(path))


class SystemdBoot(ByHand):
    """With entries written by hand, one for each kernel, as archinstall does."""

    title: Final = "systemd-boot"
    how = (
        "add {} to the `options` line of each file in loader/entries of the boot partition, and "
        "reboot"
    )

    def arguments(self, files: Files) -> tuple[str, ...]:
        return common_arguments(normal(files))

    def edits(self, files: Files, *, add: Words = (), remove: Words = ()) -> tuple[Edit, ...]:
        found = normal(files)
        if add and not found:
            raise CannotEditError("no entry that starts Linux was found in loader/entries")
        return edits(found, files, add=add, remove=remove)

    def command(self, files: Files, *, add: Words = (), remove: Words = ()) -> str:
        del add, remove
        return synced(one.path.rpartition("/")[0] for one in normal(files))


class Kernelstub(ByHand):
    """Pop!_OS: kernelstub writes the entries, and has a configuration with the arguments."""

    title: Final = "systemd-boot with kernelstub"
    how = 'run `kernelstub --add-options "{}"` and reboot'

    def arguments(self, files: Files) -> tuple[str, ...]:
        found = normal(files)
        return common_arguments([one for one in found if one.stem.endswith("-current")] or found)

    def edits(self, files: Files, *, add: Words = (), remove: Words = ()) -> tuple[Edit, ...]:
        """None: its own command changes both its configuration and the entry."""
        del files, add, remove
        return ()

    def command(self, files: Files, *, add: Words = (), remove: Words = ()) -> str:
        folders = {one.path.partition("/loader/")[0] for one in normal(files)}
        steps = [f"room {shlex.quote(folder)} {_ROOM_KIB}" for folder in sorted(folders)]
        if remove:
            steps.append(shlex.join(("kernelstub", "--delete-options", " ".join(remove))))
        if add:
            steps.append(shlex.join(("kernelstub", "--add-options", " ".join(add))))
        return apart("\n".join((*steps, "sync")), needs_room=True) if add or remove else ""
