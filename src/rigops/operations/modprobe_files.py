"""What the files of modprobe say that are not ours, where a driver and its options are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinfra.context import host

from rigops.facts.driver_ground import DriverLoaded
from rigops.facts.guarding import Modprobe
from rigops.facts.sections import CommandLine
from rigops.guarding import modprobe_files
from rigops.operations.change import notice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.guarding.modprobe_files import Found


def options_beside(concern: str, wanted: Mapping[str, Mapping[str, str]], own: str) -> Found:
    """Conflicts that ours wins are told; those that it would lose are for the caller to refuse."""
    found = modprobe_files.beside(wanted, host.get_fact(Modprobe), own)
    for text in found.notices:
        notice(host, concern, text)
    return found


def kept_out(concern: str, own: str, *, is_coming: bool) -> tuple[str, ...]:
    """Why the driver would not be loaded by the next boot.

    It is only told where the driver stays as it is and is loaded: somebody asks for it by name.
    """
    found = (
        *modprobe_files.keeping_out(host.get_fact(Modprobe), own),
        *modprobe_files.keeping_out_at_boot(host.get_fact(CommandLine).arguments),
    )
    if is_coming or not host.get_fact(DriverLoaded).version:
        return found
    for text in found:
        notice(host, concern, text)
    return ()
