"""What the host's disk is, for a bootloader: as grub-probe says it in the host."""

from pathlib import Path
from typing import NamedTuple

_FACTS = "etc/rigsim/disk"
_READ_ONLY = frozenset(("btrfs", "cpiofs", "newc", "odc", "romfs", "squash4", "tarfs", "zfs"))


class Disk(NamedTuple):
    """An empty esp_uuid: it has no EFI system partition."""

    file_system: str = "ext2"
    esp_uuid: str = ""

    @property
    def can_be_written(self) -> bool:
        """By GRUB, which writes where a file lies already."""
        return self.file_system not in _READ_ONLY


def read(root: Path) -> Disk:
    try:
        lines = (root / _FACTS).read_text().splitlines()
    except OSError:
        return Disk()
    facts = {name: value for name, _, value in (line.partition("=") for line in lines)}
    return Disk(facts.get("fs", "ext2"), facts.get("esp_uuid", ""))
