"""How the next boot is configured. So far for GRUB; other bootloaders are only recognised."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rigops.bootloader.arguments import split
from rigops.probe.section import Section
from rigops.probe.text import assignments, blocks, lines

if TYPE_CHECKING:
    from collections.abc import Mapping

GRUB_DEFAULTS = "/etc/default/grub"
GRUB_DROP_INS = "/etc/default/grub.d/"
GRUB_ENVIRONMENT = "/boot/grub/grubenv"
GRUB_CUSTOM = "/boot/grub/custom.cfg"

_TOOLS = "command -v update-grub grub-mkconfig grub2-mkconfig grubby bootctl kernel-install"
_READS_DROP_INS = "grep -l default/grub.d grub-mkconfig"
_MENU = "grep linux /boot/grub/grub.cfg"
_KERNELS = "ls /boot"
_OTHERS = "ls loader"
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+(?P<kernel>\S+)(?:\s+(?P<arguments>.*))?")


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
    kernels: tuple[str, ...] = ()  # releases that have an image in /boot
    others: tuple[str, ...] = ()  # traces of other bootloaders
    unread: tuple[str, ...] = ()

    @property
    def has_grub(self) -> bool:
        made_by = {tool.rpartition("/")[2] for tool in self.tools}
        return GRUB_DEFAULTS in self.files and bool(made_by & {"update-grub", "grub-mkconfig"})


def parse(text: str) -> Bootloader:
    # A file that someone put there by hand is the one that everybody knows.
    found = blocks(text) or ({GRUB_DEFAULTS: text} if "GRUB_CMDLINE_LINUX" in text else {})
    files = {
        path: body
        for path, body in found.items()
        if path == GRUB_DEFAULTS or (path.startswith(GRUB_DROP_INS) and path.endswith(".cfg"))
    }
    known = {
        _TOOLS, _READS_DROP_INS, _MENU, _KERNELS, _OTHERS, GRUB_ENVIRONMENT, GRUB_CUSTOM, *files
    }  # fmt: skip
    images = [line for line in lines(found.get(_KERNELS, "")) if line.startswith("vmlinuz-")]
    return Bootloader(
        files=files,
        tools=_words(found, _TOOLS),
        reads_drop_ins=bool(_words(found, _READS_DROP_INS)),
        environment=assignments(found.get(GRUB_ENVIRONMENT, "")),
        custom=found.get(GRUB_CUSTOM),
        menu=_menu(found[_MENU]) if _MENU in found else None,
        kernels=tuple(image.removeprefix("vmlinuz-") for image in images),
        others=_words(found, _OTHERS),
        unread=tuple(head for head in found if head not in known),
    )


def _words(found: Mapping[str, str], head: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in lines(found.get(head, "")) if line.strip())


def _menu(body: str) -> tuple[MenuEntry, ...]:
    entries = ((line, _LINUX.fullmatch(line)) for line in lines(body))
    return tuple(
        MenuEntry(entry["kernel"], split(entry["arguments"] or ""), line.strip())
        for line, entry in entries
        if entry
    )


_SNIPPET = f"""
show {GRUB_DEFAULTS} {GRUB_DROP_INS}*.cfg {GRUB_ENVIRONMENT} {GRUB_CUSTOM}
echo "== {_TOOLS}"
for tool in {_TOOLS.removeprefix("command -v ")}; do command -v "$tool"; done
echo "== {_READS_DROP_INS}"
grep -l default/grub.d "$(command -v grub-mkconfig)" 2>/dev/null
if [ -r /boot/grub/grub.cfg ]; then
    echo "== {_MENU}"
    grep -E "^[[:space:]]*linux(16|efi)?[[:space:]]" /boot/grub/grub.cfg | hide
fi
run {_KERNELS}
echo "== {_OTHERS}"
ls -d /boot/loader/entries /boot/efi/loader/loader.conf /efi/loader/loader.conf \\
    /etc/kernel/cmdline /boot/limine.conf /boot/refind_linux.conf /boot/grub2 /ostree 2>/dev/null
exit 0
"""

SECTION = Section(name="bootloader", snippet=_SNIPPET, parse=parse, wants_root=True, lane="machine")
