"""The facts of a machine that decide on its driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from rigops.catalog.model import DrivenGpu, ModuleFlavor
from rigops.concerns.nvidia_driver.resolver.offers import is_same_version
from rigops.dataclass import dataclass
from rigops.inventory.spec.model import DriverSet
from rigops.packages.dpkg import Manager
from rigops.probe.package_names import driver_version

_DESKTOP = re.compile(r"nvidia-(?:tesla-[0-9]{3}-)?driver(?:-[0-9]{3}(?:-server)?)?(?:-open)?")


@dataclass(frozen=True)
class Card:
    address: str
    pci_id: str  # the device, four hexadecimal digits
    gpu: DrivenGpu | None = None  # None: neither it nor its chip is in the catalog

    def __str__(self) -> str:
        return self.gpu.name if self.gpu else f"unknown card (10de:{self.pci_id})"


@dataclass(frozen=True)
class Kernel:
    """One that can boot next. `around`: a container's, which is that of its machine."""

    release: str
    has_headers: bool = True
    around: bool = False
    version: str = ""  # 6.1.187-1, where its package says more than the release
    built: tuple[str, ...] = ()  # NVIDIA's versions whose modules are built for it


@dataclass(frozen=True)
class RunFile:
    """A driver that NVIDIA's own installer installed. No `uninstaller`: that one is gone.

    It is whole where rigops ran that installer, and nothing changed it since. Of a foreign one, the
    flavor and the set are not known.
    """

    uninstaller: str
    version: str = ""  # empty: its log does not say
    state: Literal["foreign", "begun by rigops", "whole"] = "foreign"
    flavor: ModuleFlavor = "proprietary"
    set_: DriverSet = "compute"

    @property
    def is_ours(self) -> bool:
        return self.state != "foreign"


@dataclass(frozen=True)
class Machine:
    """None is what is not known."""

    distribution: str  # ID of os-release
    release: str  # VERSION_ID
    manager: Manager | None
    cards: tuple[Card, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    installed: Mapping[str, str] = field(default_factory=dict)  # of the driver, with versions
    tools: Mapping[str, str] = field(default_factory=dict)  # installed beside it, with versions
    flavor: ModuleFlavor | None = None  # of the installed modules
    secure_boot: bool | None = None  # the kernel takes signed modules only
    has_key: bool | None = None  # the key that DKMS signs with is enrolled
    key: str = ""  # that key's certificate
    is_enrolling: bool = False  # it waits for a person at the machine's console
    architecture: str | None = None  # as the kernel calls it
    run_file: RunFile | None = None  # None: packages have it, whatever else was there before
    rivals_of_run_file: tuple[str, ...] = ()  # installed packages with files of the same names
    lacks_components: tuple[str, ...] = ()  # of its distribution's archive, that drivers are in
    suites: tuple[str, ...] = ()
    archive: str = ""  # the URI of its distribution's archive
    keyring: str = ""  # that this archive is signed by

    @property
    def name(self) -> str:
        return f"{self.distribution.capitalize()} {self.release}".strip()

    @property
    def own_kernels(self) -> tuple[str, ...]:
        return tuple(one.release for one in self.kernels if not one.around)

    @property
    def takes_signed_only(self) -> bool:
        """Modules that are built here would not load: their key is not trusted."""
        return self.secure_boot is True and self.has_key is not True

    @property
    def installed_version(self) -> str:
        """NVIDIA's version of the packages that are there; empty where they do not agree."""
        tied = (one for name, one in self.installed.items() if is_same_version(name))
        found = {version for one in tied if (version := driver_version(one))}
        return found.pop() if len(found) == 1 else ""

    @property
    def set_(self) -> DriverSet:
        """A desktop does not lose its driver because `driver_set` is not declared."""
        if self.run_file and self.run_file.is_ours:
            return self.run_file.set_
        return "desktop" if any(map(_DESKTOP.fullmatch, self.installed)) else "compute"
