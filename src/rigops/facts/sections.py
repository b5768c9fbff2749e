"""One fact a section of the probe: the same shell and the same parser, for any pyinfra deploy."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase

from rigops.probe import reading
from rigops.probe.script import script
from rigops.probe.section import Section
from rigops.probe.sections import (
    boot,
    bootloader,
    cpufreq,
    firmware,
    limits,
    modprobe,
    nccl,
    nvidia_smi_xml,
    nvidia_version,
    os_release,
    own_modules,
    packages,
    pci,
    proc_cmdline,
    processes,
    rigops_state,
    uname,
    units,
)
from rigops.probe.smi.report import SmiReport

Facts = TypeVar("Facts")


def section_command(section: Section[Any]) -> StringCommand:
    return StringCommand("sh", "-c", QuoteString(script([section])))


def section_value(section: Section[Facts], output: list[str]) -> Facts:
    bundle = reading.read("\n".join([*output, ""]).encode())
    collected = bundle.sections.get(section.name) if bundle else None
    return section.parse(collected.text if collected else "")


class SectionFact(FactBase[Facts]):
    section: ClassVar[Section[Any]]

    def command(self) -> StringCommand:  # type: ignore[mutable-override]  # as all of pyinfra's do
        return section_command(self.section)

    def process(self, output: list[str]) -> Facts:
        facts: Facts = section_value(self.section, output)
        return facts


class Boot(SectionFact[boot.Boot]):
    section = boot.SECTION


class Bootloader(SectionFact[bootloader.Bootloader]):
    section = bootloader.SECTION


class CpuFreq(SectionFact[cpufreq.CpuFreq]):
    section = cpufreq.SECTION


class CommandLine(SectionFact[proc_cmdline.CommandLine]):
    section = proc_cmdline.SECTION


class DriverLoaded(SectionFact[nvidia_version.NvidiaVersion]):
    section = nvidia_version.SECTION


class Firmware(SectionFact[firmware.Firmware]):
    section = firmware.SECTION


class Limits(SectionFact[limits.Limits]):
    section = limits.SECTION


class Modprobe(SectionFact[modprobe.Modprobe]):
    section = modprobe.SECTION


class Nccl(SectionFact[nccl.Nccl]):
    section = nccl.SECTION


class OsRelease(SectionFact[os_release.OsRelease]):
    section = os_release.SECTION


class OwnModules(SectionFact[own_modules.OwnModules]):
    section = own_modules.SECTION


class GpuPackages(SectionFact[packages.Packages]):
    section = packages.SECTION


class Pci(SectionFact[pci.Pci]):
    section = pci.SECTION


class Processes(SectionFact[processes.Processes]):
    section = processes.SECTION


class RigopsState(SectionFact[rigops_state.RigopsState]):
    section = rigops_state.SECTION


class Smi(SectionFact[SmiReport]):
    section = nvidia_smi_xml.SECTION


class Uname(SectionFact[uname.Uname]):
    section = uname.SECTION


class Units(SectionFact[units.Units]):
    section = units.SECTION
