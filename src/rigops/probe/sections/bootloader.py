"""How the next boot is configured: the bootloader's files, and traces of which one it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe import boot_files
from rigops.probe.boot_files import RUNNING, Files
from rigops.probe.kernel_arguments import split
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import assignments, blocks, lines, matches, stripped

GRUB_DEFAULTS = "/etc/default/grub"
GRUB_DROP_INS = "/etc/default/grub.d/"
GRUB_ENVIRONMENT = "/boot/grub/grubenv"
GRUB_CUSTOM = "/boot/grub/custom.cfg"

_TOOLS = "command -v update-grub grub-mkconfig grub2-mkconfig grubby bootctl kernel-install"
_READS_DROP_INS = "grep -l default/grub.d grub-mkconfig"
_MENU = "grep linux "
# Entries of other systems and a person's own are made of no file that rigops writes.
MENU_LINES = (
    "sed -n -E -e '/^### BEGIN .*_(os-prober|custom) ###$/,/^### END /d'"
    " -e '/^[[:space:]]*linux(16|efi)?[[:space:]]/p'"
)
_KERNELS = "ls /boot"
_OTHERS = "ls loader"
_DIGESTS = "sha256sum"
_LOADER = "cat LoaderInfo"
_SELECTED = "cat LoaderEntrySelected"
_HIDDEN = "***"
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+(?P<kernel>\S+)(?:\s+(?P<arguments>.*))?")
_DIGEST = re.compile(r"(?P<digest>[0-9a-f]{64})[ *]+(?P<path>/.+)")

# Files that may have to be changed, so that every byte has to be known.
_CHANGED: Final = (
    GRUB_DEFAULTS, f"{GRUB_DROP_INS}*.cfg", RUNNING, boot_files.KERNEL_CMDLINE,
    boot_files.VENDOR_CMDLINE, f"{boot_files.CMDLINE_DROP_INS}/*.conf",
    *(f"{folder}/*.conf" for folder in boot_files.LOADER_ENTRIES),
)  # fmt: skip
_READ: Final = (
    *boot_files.GRUB_ENVIRONMENTS, GRUB_CUSTOM, *boot_files.KERNEL_INSTALL,
    *boot_files.LOADER_CONFS,
    f"{boot_files.MKINITCPIO_PRESETS}/*.preset", boot_files.KERNELSTUB,
)  # fmt: skip
_TRACES: Final = (
    *boot_files.LOADER_ENTRIES[:1], *boot_files.TRACES, boot_files.KERNEL_CMDLINE,
    "/boot/grub2", "/ostree",
)  # fmt: skip
_VARIABLES = "/sys/firmware/efi/efivars"
_VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


@dataclass(frozen=True)
class MenuEntry:
    kernel: str
    arguments: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class Bootloader:
    """`files`: what grub-mkconfig reads. `menu`: the kernels of grub.cfg, None if not readable."""

    files: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] = ()  # with their paths
    reads_drop_ins: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    custom: str | None = None
    menu: tuple[MenuEntry, ...] | None = None
    menu_path: str = boot_files.GRUB_MENUS[0]
    kernels: tuple[str, ...] = ()  # releases that have an image in /boot
    others: tuple[str, ...] = ()  # traces of this and other bootloaders
    texts: Files = field(default_factory=Files)  # of every bootloader, and the running arguments
    loader: str = ""  # how the bootloader calls itself to EFI
    selected: str = ""  # and what it started
    unparsed: tuple[str, ...] = ()

    @property
    def every_file(self) -> Files:
        return Files({**self.texts.texts, **self.files}, self.texts.inexact)


def parse(text: str) -> Bootloader:
    # A file that someone put there by hand is the one that everybody knows.
    found = blocks(text) or ({GRUB_DEFAULTS: text} if "GRUB_CMDLINE_LINUX" in text else {})
    texts = {head: body for head, body in found.items() if head.startswith("/")}
    reads_drop_ins = found.get(_READS_DROP_INS, "unknown").strip()
    files = {
        path: body
        for path, body in texts.items()
        if path == GRUB_DEFAULTS
        or (reads_drop_ins and path.startswith(GRUB_DROP_INS) and path.endswith(".cfg"))
    }
    known = {_TOOLS, _READS_DROP_INS, _KERNELS, _OTHERS, _DIGESTS, _LOADER, _SELECTED}
    menus = {path: f"{_MENU}{path}" for path in boot_files.GRUB_MENUS}
    menu_path = next((path for path, head in menus.items() if head in found), None)
    images = [line for line in lines(found.get(_KERNELS, "")) if line.startswith("vmlinuz-")]
    return Bootloader(
        files=files,
        tools=tuple(stripped(found.get(_TOOLS, ""))),
        reads_drop_ins=bool(found.get(_READS_DROP_INS, "").strip()),
        environment=assignments(found.get(GRUB_ENVIRONMENT, "")),
        custom=found.get(GRUB_CUSTOM),
        menu=_menu(found[menus[menu_path]]) if menu_path else None,
        menu_path=menu_path or boot_files.GRUB_MENUS[0],
        kernels=tuple(image.removeprefix("vmlinuz-") for image in images),
        others=tuple(stripped(found.get(_OTHERS, ""))),
        texts=_exact(texts, found.get(_DIGESTS)),
        loader="".join(stripped(found.get(_LOADER, ""))[:1]),
        selected="".join(stripped(found.get(_SELECTED, ""))[:1]),
        unparsed=tuple(
            head
            for head in found
            if head not in known
            and head not in menus.values()
            and not _is_one_of((*_CHANGED, *_READ), head)
        ),
    )


def _exact(texts: Mapping[str, str], digests: str | None) -> Files:
    """Secrets are hidden and line ends changed on the way here: the digest shows it."""
    known = {one["path"]: one["digest"] for one in matches(_DIGEST, lines(digests or ""))[0]}
    exact: dict[str, str] = {}
    inexact: set[str] = set()
    for path, text in texts.items():
        spellings = (text, text.replace("\n", "\r\n"))
        is_sure = digests is None or not _is_one_of(_CHANGED, path)
        same = [
            one
            for one in spellings
            if is_sure or known.get(path) == sha256(one.encode(errors="replace")).hexdigest()
        ]
        exact[path] = same[0] if same else text
        if not same or _HIDDEN in text:
            inexact.add(path)
    return Files(exact, frozenset(inexact))


def _is_one_of(patterns: tuple[str, ...], path: str) -> bool:
    return any(fnmatchcase(path, one) for one in patterns)


def _menu(body: str) -> tuple[MenuEntry, ...]:
    return tuple(
        MenuEntry(entry["kernel"], split(entry["arguments"] or ""), entry.string.strip())
        for entry in matches(_LINUX, lines(body))[0]
    )


_SNIPPET = f"""
show {" ".join((*_CHANGED, *_READ))}
block "{_DIGESTS}"
set --
for file in {" ".join(_CHANGED)}; do
    # The sha256sum of uutils stops at a file that it cannot read.
    if [ -f "$file" ] && [ -r "$file" ]; then set -- "$@" "$file"; fi
done
[ $# = 0 ] || sha256sum "$@" 2>/dev/null
block "{_TOOLS}"
for tool in {_TOOLS.removeprefix("command -v ")}; do command -v "$tool"; done
block "{_READS_DROP_INS}"
maker=
IFS=:
for folder in $PATH; do
    for file in "$folder/grub-mkconfig" "$folder/grub2-mkconfig"; do
        [ "$maker" ] || [ ! -f "$file" ] || maker=$file
    done
done
unset IFS
[ ! "$maker" ] || grep -l default/grub.d "$maker" 2>/dev/null
for menu in {" ".join(boot_files.GRUB_MENUS)}; do
    [ -r "$menu" ] || continue
    block "{_MENU}$menu"
    {MENU_LINES} "$menu"
done
if [ -d /boot ] && [ -r /boot ] && [ -x /boot ]; then
    block "{_KERNELS}"
    for file in /boot/*; do if there "$file"; then say "${{file##*/}}"; fi; done
else run {_KERNELS}
fi
block "{_OTHERS}"
for file in {" ".join(sorted(set(_TRACES)))}; do if there "$file"; then echo "$file"; fi; done
for variable in LoaderInfo LoaderEntrySelected; do
    [ -r "{_VARIABLES}/$variable-{_VENDOR}" ] || continue
    block "cat $variable"
    tail -c +5 "{_VARIABLES}/$variable-{_VENDOR}" 2>/dev/null | tr -d "\\000"
    echo
done
return 0
"""

SECTION = Section(
    name="bootloader",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    lane="machine",
    technical=EVERY_WORD,
)
