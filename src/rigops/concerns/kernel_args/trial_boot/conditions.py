"""Conditions of a trial boot: the bootloader that started this machine, and its files.

Asked only where a trial is planned.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines

GRUB_FOLDERS: Final = ("/boot/grub", "/boot/grub2")
ESPS: Final = ("/boot/efi", "/efi", "/boot")

_LOADER = "LoaderInfo"
_SELECTED = "LoaderEntrySelected"
_DEFAULT = "LoaderEntryDefault"
_CONFIG = "grub.cfg"
_SIZE = "wc -c grub.cfg"
_CUSTOM = "head -n 1 custom.cfg"
_FILE_SYSTEM = "grub-probe --target=fs"
_ABSTRACTION = "grub-probe --target=abstraction"
_MOUNTS = "findmnt"
_TOOLS = "command -v"
_FREE = "df -Pk"
_BLS = "grep GRUB_ENABLE_BLSCFG"
_WATCHDOGS = "cat /sys/class/watchdog/watchdog*/identity"
_SYSTEMD = "systemctl --version"

_MOST_BYTES = 1_000_000
_ASKED = (
    "grub-reboot grub-editenv grub-script-check grub-mkconfig grub-probe "
    "grub2-reboot grub2-editenv grub2-script-check grub2-mkconfig grub2-probe "
    "bootctl dracut update-initramfs mkinitcpio"
)
LOADER_VENDOR: Final = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


@dataclass(frozen=True, kw_only=True)
class BootMount:
    target: str
    source: str = ""
    kind: str = ""
    uuid: str = ""

    @property
    def is_esp(self) -> bool:
        """On a partition, and not on a mirror, of which GRUB would write one half."""
        is_partition = re.match(r"/dev/(?!md|mapper/|dm-|disk/)", self.source)
        return bool(self.kind == "vfat" and is_partition and self.uuid)


@dataclass(frozen=True, kw_only=True)
class Grub:
    """`custom`: the first line of custom.cfg; None where there is no such file."""

    folder: str
    config: str = ""
    is_complete: bool = True
    custom: str | None = None
    file_system: str = ""
    abstractions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """`esps`: FAT file systems mounted for the firmware."""

    loader: str = ""  # as it calls itself to EFI
    selected: str = ""  # the entry of systemd-boot that was started
    default: str = ""  # the one that an EFI variable makes its default
    grub: Grub | None = None
    esps: tuple[BootMount, ...] = ()
    free_kib: int | None = None
    tools: tuple[str, ...] = ()
    enables_bls: bool = False
    watchdogs: tuple[str, ...] = ()
    systemd: int | None = None
    entries: Mapping[str, str] = field(default_factory=dict)  # of systemd-boot, by path
    loader_conf: Mapping[str, str] = field(default_factory=dict)
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Conditions:
    found = blocks(text)
    version = re.search(r"^systemd ([0-9]{1,5})", found.get(_SYSTEMD, ""), re.MULTILINE)
    files = {path: body for path, body in found.items() if path.startswith("/")}
    free = found.get(_FREE, "").split()
    return Conditions(
        loader=_first(found, _LOADER),
        selected=_first(found, _SELECTED),
        default=_first(found, _DEFAULT),
        grub=_grub(found),
        esps=_esps(found),
        free_kib=next(map(whole, free[-3:-2]), None),
        tools=tuple(path.rpartition("/")[2] for path in _lines(found, _TOOLS)),
        enables_bls=bool(re.search(r"(?m)^\s*GRUB_ENABLE_BLSCFG=[\"']?true", found.get(_BLS, ""))),
        watchdogs=tuple(_lines(found, _WATCHDOGS)),
        systemd=int(version[1]) if version else None,
        entries={path: body for path, body in files.items() if "/loader/entries/" in path},
        loader_conf={path: body for path, body in files.items() if path.endswith("/loader.conf")},
        unparsed=() if found else ("it is empty",),
    )


def _grub(found: Mapping[str, str]) -> Grub | None:
    head = next((head for head in found if head.startswith(f"{_CONFIG} ")), None)
    if head is None:
        return None
    size = whole(_first(found, _SIZE)) or 0
    return Grub(
        folder=head.removeprefix(f"{_CONFIG} "),
        config=found[head],
        is_complete=0 < size <= _MOST_BYTES,
        custom=found[_CUSTOM].strip() if _CUSTOM in found else None,
        file_system=_first(found, _FILE_SYSTEM),
        abstractions=tuple(found.get(_ABSTRACTION, "").split()),
    )


def _esps(found: Mapping[str, str]) -> tuple[BootMount, ...]:
    """The last of those mounted over one another counts."""
    mounts: dict[str, BootMount] = {}
    for folder in ESPS:
        for line in lines(found.get(f"{_MOUNTS} {folder}", "")):
            try:
                fields = dict(one.partition("=")[::2] for one in shlex.split(line))
            except ValueError:  # not a line of findmnt
                continue
            if fields.get("TARGET"):
                mounts[folder] = BootMount(
                    target=fields["TARGET"],
                    source=fields.get("SOURCE", ""),
                    kind=fields.get("FSTYPE", ""),
                    uuid=fields.get("UUID", ""),
                )
    return tuple(one for folder, one in mounts.items() if one.target == folder and one.is_esp)


def _first(found: Mapping[str, str], head: str) -> str:
    return next(iter(_lines(found, head)), "")


def _lines(found: Mapping[str, str], head: str) -> list[str]:
    return [line.strip() for line in lines(found.get(head, "")) if line.strip()]


_SNIPPET = f"""
for name in {_LOADER} {_SELECTED} {_DEFAULT}; do
    variable=/sys/firmware/efi/efivars/$name-{LOADER_VENDOR}
    [ -r "$variable" ] || continue
    block "$name"
    tail -c +5 "$variable" 2>/dev/null | tr -d '\\000' # UTF-16 of letters that ASCII has too
    echo
done
for folder in {" ".join(GRUB_FOLDERS)}; do
    [ -r "$folder/{_CONFIG}" ] || continue
    block "{_CONFIG} $folder"
    head -c {_MOST_BYTES} "$folder/{_CONFIG}"
    echo
    block "{_SIZE}"
    wc -c <"$folder/{_CONFIG}"
    if [ -e "$folder/custom.cfg" ]; then
        block "{_CUSTOM}"
        head -n 1 "$folder/custom.cfg"
    fi
    for probe in grub-probe grub2-probe; do
        command -v "$probe" >/dev/null || continue
        block "{_FILE_SYSTEM}"
        "$probe" --target=fs "$folder" 2>/dev/null
        block "{_ABSTRACTION}"
        "$probe" --target=abstraction "$folder" 2>/dev/null
        break
    done
    block "{_FREE}"
    df -Pk "$folder" 2>/dev/null | tail -n 1
    break
done
for folder in {" ".join(ESPS)}; do
    [ -d "$folder/." ] || continue # which also mounts what is mounted on demand
    block "{_MOUNTS} $folder"
    findmnt -n -P -o TARGET,SOURCE,FSTYPE,UUID --target "$folder" 2>/dev/null
done
block "{_TOOLS}"
for tool in {_ASKED}; do command -v "$tool"; done
block "{_BLS}"
grep -h GRUB_ENABLE_BLSCFG /etc/default/grub /etc/default/grub.d/*.cfg 2>/dev/null
block "{_WATCHDOGS}"
cat /sys/class/watchdog/watchdog*/identity 2>/dev/null
block "{_SYSTEMD}"
systemctl --version 2>/dev/null | head -n 1
for folder in {" ".join(ESPS)}; do
    show "$folder/loader/loader.conf" "$folder"/loader/entries/*.conf
done
return 0
"""

SECTION = Section(name="trial-ground", snippet=_SNIPPET, parse=parse, timeout_s=20, wants_root=True)
