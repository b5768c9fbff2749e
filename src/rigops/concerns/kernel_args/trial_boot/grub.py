"""A trial boot by GRUB: one more menu entry, and an environment block that orders it once.

GRUB clears the order itself before it starts anything. It has to be able to write for that: into
its own environment block, or else into one of ours on the EFI system partition.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from rigops.concerns.kernel_args.bootloader import grub_menu
from rigops.concerns.kernel_args.bootloader.entries import ENTRY_ID
from rigops.concerns.kernel_args.bootloader.grub_menu import GrubEntry
from rigops.concerns.kernel_args.trial_boot.conditions import BootMount, Conditions, Grub
from rigops.concerns.kernel_args.trial_boot.parts import (
    ESP_FOLDER,
    ESP_VARIABLE,
    GRUB_SCRIPT,
    HEADER,
    NoTrial,
    Trial,
    TrialFile,
    armed,
    step,
)
from rigops.probe.kernel_arguments import name

# As GRUB names them. It rewrites a file block by block where that lies, which the others forbid
# (btrfs, zfs, squash4), or where a small file has no block of its own (f2fs).
_WRITABLE: Final = frozenset({"ext2", "xfs", "fat", "jfs"})
_LEAST_KIB: Final = 1024

_CLEARS: Final = re.compile(
    r"set default=\"?\$\{next_entry\}\"?\s+set next_entry=\s+save_env next_entry\s"
)
_SOURCES_CUSTOM: Final = re.compile(r"(?m)^\s*(?:source|\.)\s+\S*/custom\.cfg")
_MADE_BY_SCRIPTS: Final = "### BEGIN /etc/grub.d/"
_BLS: Final = re.compile(r"(?m)^\s*blscfg\b")
_PASSWORD: Final = re.compile(r"(?m)^\s*set superusers=")
_PARTUUID: Final = re.compile(r"(?m)^\s*set partuuid=")
_WAITS: Final = re.compile(
    r"(?m)^\s*(?:set timeout=|sleep (?:--\S+ )*)\"?(?P<seconds>-?[0-9]{1,6})\"?\s*$"
)

# As 00_header does it for GRUB's own block. Read once more, so that it is surely cleared.
_ESP_HEAD: Final = f"""\
insmod part_gpt
insmod part_msdos
insmod fat
search --no-floppy --fs-uuid --set=rigops_esp @UUID@
if [ -n "${{rigops_esp}}" ]; then
  set rigops_block=(${{rigops_esp}})/{ESP_FOLDER}/grubenv
  if [ -s ${{rigops_block}} ]; then
    set {ESP_VARIABLE}=
    load_env --file ${{rigops_block}} {ESP_VARIABLE}
    if [ "${{{ESP_VARIABLE}}}" = "{ENTRY_ID}" ]; then
      set {ESP_VARIABLE}=
      save_env --file ${{rigops_block}} {ESP_VARIABLE}
      set {ESP_VARIABLE}=unknown
      load_env --file ${{rigops_block}} {ESP_VARIABLE}
      if [ -z "${{{ESP_VARIABLE}}}" ]; then
        set default="{ENTRY_ID}"
        set boot_once=true
      fi
    fi
  fi
fi
"""


def prepare(
    conditions: Conditions,
    *,
    now: tuple[str, ...],
    wanted: tuple[str, ...],
    files: Mapping[str, TrialFile],
    notices: tuple[str, ...],
) -> Trial | NoTrial:
    grub = conditions.grub
    if grub is None:
        return NoTrial("no bootloader there that rigops supports starts an entry once")
    entry = _entry(grub_menu.entries(grub.config), now)
    place = _place(conditions, grub)
    esp = None if _writes(grub) else next(iter(conditions.esps), None)
    blockers = chain(_blockers(conditions, grub, now), _entry_blockers(grub, entry, esp))
    reason = next(blockers, None)
    if reason or entry is None:
        return NoTrial(reason or "no entry of its GRUB menu starts the running system")
    if place is None:
        return NoTrial("its grub.cfg was not made by grub-mkconfig and does not read custom.cfg")
    text = _ESP_HEAD.replace("@UUID@", grub_menu.word(esp.uuid)) if esp else ""
    text += _menu_entry(entry, wanted)
    file = TrialFile(f"{HEADER}\n{text}".encode())
    if place == GRUB_SCRIPT:
        script = f"#!/bin/sh\n{HEADER}\ncat <<'RIGOPS_END'\n{text}RIGOPS_END\n"
        file = TrialFile(script.encode(), 0o755)
    waits = [int(found["seconds"]) for found in _WAITS.finditer(grub.config)]
    more = _notices(grub, entry, place, esp, _kernel(now))
    if -1 in waits:
        more.append("its GRUB menu may wait for a key (timeout=-1)")
    return Trial(
        files={**files, place: file},
        arm=_arm(grub, entry, place, esp),
        notices=(*notices, *more),
        extra_wait_s=2 * max([0, *waits]),  # at the trial, and at the boot after it
    )


def _blockers(conditions: Conditions, grub: Grub, now: tuple[str, ...]) -> Iterator[str]:
    if not _kernel(now):
        yield "the running kernel was not started by GRUB"
    if conditions.enables_bls or _BLS.search(grub.config):
        yield "its GRUB reads boot loader entries (BLS), for which rigops has no trial yet"
    if _PARTUUID.search(grub.config):
        yield "its GRUB starts it without an initramfs first (GRUB_FORCE_PARTUUID)"
    tools = [f"{_prefix(grub)}-{tool}" for tool in ("reboot", "editenv", "script-check")]
    if missing := [tool for tool in tools if tool not in conditions.tools]:
        yield f"there is no {' and no '.join(missing)}"
    if not grub.is_complete:
        yield f"{grub.folder}/grub.cfg could not be read completely"
    if conditions.free_kib is None or conditions.free_kib < _LEAST_KIB:
        yield f"there is less than 1 MiB left where {grub.folder} is"


def _entry_blockers(grub: Grub, entry: GrubEntry | None, esp: BootMount | None) -> Iterator[str]:
    if entry and "***" in entry.body:
        yield "the entry that starts it holds a secret, which rigops does not read"
    if entry and _PASSWORD.search(grub.config) and not entry.is_open_to_all:
        yield "its GRUB asks for a password before it starts an entry"
    if not _writes(grub) and esp is None:
        what = " on ".join([grub.file_system or "an unknown file system", *grub.abstractions])
        yield f"GRUB cannot write to its /boot ({what}), and no EFI system partition is mounted"
    if esp is None and not _CLEARS.search(grub.config):
        yield "its grub.cfg does not support an order for one boot (next_entry)"


def _prefix(grub: Grub) -> str:
    """Tools are named as their folder is."""
    return grub.folder.rpartition("/")[2]


def _kernel(now: tuple[str, ...]) -> str:
    """GRUB puts the kernel that it has loaded first."""
    first = now[0] if now else ""
    return first.partition("=")[2] if name(first) == "BOOT_IMAGE" else ""


def _entry(entries: tuple[GrubEntry, ...], now: tuple[str, ...]) -> GrubEntry | None:
    """Of the running kernel that whose arguments differ least; else one with the same root."""
    normal = [entry for entry in entries if not entry.is_recovery]
    same = [entry for entry in normal if _base(entry.kernel) == _base(_kernel(now))]
    arguments = set(now[1:])
    if same:
        return min(same, key=lambda entry: len(arguments ^ set(entry.arguments)))
    root = _root(now)
    return next((entry for entry in normal if _root(entry.arguments) == root), None)


def _base(kernel: str) -> str:
    return kernel.rpartition("/")[2]


def _root(arguments: tuple[str, ...]) -> str:
    return next((one for one in reversed(arguments) if name(one) == "root"), "")


def _writes(grub: Grub) -> bool:
    return grub.file_system in _WRITABLE and not grub.abstractions


def _place(conditions: Conditions, grub: Grub) -> str | None:
    """The file that gets the entry."""
    is_free = grub.custom is None or grub.custom == HEADER
    if is_free and _SOURCES_CUSTOM.search(grub.config):
        return f"{grub.folder}/custom.cfg"
    if _MADE_BY_SCRIPTS in grub.config and f"{_prefix(grub)}-mkconfig" in conditions.tools:
        return GRUB_SCRIPT
    return None


def _menu_entry(entry: GrubEntry, wanted: tuple[str, ...]) -> str:
    """Only in the boot that it was ordered for: else it could be a default by number or name."""
    body = entry.with_arguments(wanted[1:]).strip("\n").rstrip()
    also = " --unrestricted" if entry.is_open_to_all else ""
    title = "rigops: new kernel arguments, for one boot"
    return f"""\
if [ "${{boot_once}} ${{default}}" = "true {ENTRY_ID}" ]; then
menuentry '{title}'{also} --id {ENTRY_ID} {{
{body}
}}
fi
"""


def _notices(
    grub: Grub, entry: GrubEntry, place: str, esp: BootMount | None, running: str
) -> list[str]:
    found = []
    if place == GRUB_SCRIPT:
        found.append(
            f"{grub.folder}/custom.cfg is in use or not read, so grub.cfg is rebuilt with the "
            f"trial entry by {place}"
        )
    if esp is not None:
        found.append(
            f"GRUB cannot write to its /boot, so the order is on {esp.target} "
            f"({ESP_FOLDER}/grubenv)"
        )
    if _base(entry.kernel) != _base(running):
        found.append(
            f"the running kernel is no longer in the menu, so {_base(entry.kernel)} is tried"
        )
    return found


def _arm(grub: Grub, entry: GrubEntry, place: str, esp: BootMount | None) -> str:
    prefix, folder = _prefix(grub), grub.folder
    image = shlex.quote(f"/boot/{_base(entry.kernel)}")
    steps = [step(f"[ -e {image} ]", f"the kernel {image} is missing")]
    if place == GRUB_SCRIPT:
        steps += [
            step(f"trial_menu {folder} {prefix}", "grub.cfg could not be made"),
            step(
                f"grep -q -e '--id {ENTRY_ID} ' {folder}/grub.cfg", "the entry is not in grub.cfg"
            ),
        ]
    else:
        steps.append(step(f"{prefix}-script-check {place}", f"{place} is no GRUB script"))
    if esp is not None:
        return armed(*steps, *_order_on(esp, prefix))
    block = f"{folder}/grubenv"
    editor = f"{prefix}-editenv {block}"
    return armed(
        *steps,
        step(f"[ -s {block} ] || {editor} create", f"{block} is missing"),
        step(f"{prefix}-reboot {ENTRY_ID}", f"{prefix}-reboot failed"),
        step(f"{editor} list | grep -qx next_entry={ENTRY_ID}", f"{block} does not have the order"),
    )


def _order_on(esp: BootMount, prefix: str) -> list[str]:
    target, uuid = shlex.quote(esp.target), shlex.quote(esp.uuid)
    folder = shlex.quote(f"{esp.target}/{ESP_FOLDER}")
    block = shlex.quote(f"{esp.target}/{ESP_FOLDER}/grubenv")
    order = f"{ESP_VARIABLE}={ENTRY_ID}"
    mounted = f"$(findmnt -n -o UUID --mountpoint {target} | tail -n 1)"
    editor = f"{prefix}-editenv {block}"
    return [
        step(f'[ "{mounted}" = {uuid} ]', f"another file system is mounted at {esp.target}"),
        step(f"mkdir -p {folder}", f"{esp.target} cannot be written"),
        step(f"{editor} create && {editor} set {order}", f"{esp.target} cannot be written"),
        step(f"{editor} list | grep -qx {order}", f"{esp.target} lacks the written order"),
    ]
