"""An engine whose host is known, so that a plan asks it nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigops.concerns.kernel_args.kernel_line import TUNED
from rigops.concerns.preconditions.root import Root, RootFacts
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.facts.sections import (
    Boot,
    Bootloader,
    CommandLine,
    Firmware,
    Modprobe,
    Pci,
    Processes,
    RigopsState,
)
from rigops.probe.sections import boot, bootloader, firmware, modprobe, pci, proc_cmdline, processes
from rigops.probe.sections import rigops_state as state_section
from rigops.transport import Privilege

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyinfra.api.facts import FactBase

    from rigops.facts.files import FileFound
    from rigops.transport import Connection

Known = dict[type["FactBase[Any]"], object]
NO_JOBS = "== ls -l /proc/[0-9]*/fd"


def engine_of(
    host: Connection,
    data: Mapping[str, object],
    known: Known,
    paths: Iterable[str] = (),
    files: Mapping[str, FileFound] | None = None,
) -> Engine:
    """`files`: those of the paths that are there."""
    engine = Engine({"rig": data})
    channel = HostChannel(host, Privilege("root"))
    channel.cache.seed_files(list(paths), files or {})
    engine.attach("rig", channel, list(known.items()))
    return engine


def boot_facts(
    loader: bootloader.Bootloader,
    state: state_section.RigopsState | None = None,
    *,
    line: str = "root=UUID=1 ro quiet",
    boot_id: str | None = None,
    virtualization: str = "none",
) -> Known:
    """The facts that a deploy of kernel arguments begins with."""
    return {
        Boot: boot.Boot(boot_id=boot_id, virtualization=virtualization),
        Bootloader: loader,
        RigopsState: state or state_section.RigopsState(),
        CommandLine: proc_cmdline.parse(line),
    }


def guarded(**texts: str) -> Known:
    """The facts that guards ask for, with the texts of their sections."""
    return {
        Firmware: firmware.parse(texts.get("firmware", "")),
        Modprobe: modprobe.Modprobe(),
        Pci: pci.parse(texts.get("pci", "")),
        Processes: processes.parse(texts.get("processes", NO_JOBS)),
        Root: RootFacts(file_system=texts.get("root", "ext4")),
    }


GUARD_PATHS = (TUNED,)
