"""Which bootloader starts this machine, by its traces: its programs alone prove nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from rigops.concerns.kernel_args.bootloader import entries, grub
from rigops.concerns.kernel_args.bootloader.entries import Kernelstub, LoaderEntry, SystemdBoot
from rigops.concerns.kernel_args.bootloader.tokens import ByHand, Edit, Words
from rigops.concerns.kernel_args.bootloader.unified import KernelInstall, Mkinitcpio
from rigops.dataclass import dataclass
from rigops.probe.boot_files import (
    EXTLINUX,
    GRUB_MENUS,
    KERNELSTUB,
    LIMINE,
    LOADER_CONFS,
    NIXOS,
    OSTREE,
    PROXMOX,
    REFIND,
    RUNNING,
    Files,
)
from rigops.probe.sections.bootloader import Bootloader


class Configuration(Protocol):
    """Where one bootloader has the arguments of every normal boot. Nothing is changed here.

    `add`: arguments that are not there otherwise; `remove`: those that were added before.
    """

    @property
    def title(self) -> str:
        """Its name for people."""

    def arguments(self, files: Files) -> tuple[str, ...]:
        """Those of the next normal boot, as configured."""

    def edits(self, files: Files, *, add: Words = (), remove: Words = ()) -> tuple[Edit, ...]:
        """Raises CannotEditError rather than corrupt a file."""

    def command(self, files: Files, *, add: Words = (), remove: Words = ()) -> str:
        """Shell that makes the edited files count, run after them; empty where nothing has to be.

        It is one statement under `set -eu`, and may be run again.
        """

    @property
    def how(self) -> str:
        """As that of `ByHand`."""

    def by_hand(self, wanted: Iterable[str]) -> str:
        """The step for a person, as a clause."""


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """`loader` and `selected`: variables of the firmware that the bootloader sets."""

    files: Files
    tools: frozenset[str]  # their names
    traces: frozenset[str]
    reads_drop_ins: bool
    loader: str
    selected: str


@dataclass(frozen=True)
class Blocker(ByHand):
    """No configuration that rigops may change."""

    reason: str
    how: str = "add {} to the kernel command line in the bootloader's configuration, and reboot"


@dataclass(frozen=True)
class _Foreign:
    """A way to boot that rigops only knows by name."""

    title: str
    traces: tuple[str, ...]
    how: str
    loader: str = ""  # how it calls itself to EFI
    argument: str = ""  # the kernel's, by which it is known

    def is_seen(self, seen: _Seen) -> bool:
        return not seen.traces.isdisjoint(self.traces)


# These overrule every bootloader: they write its configuration.
_SYSTEMS: Final = (
    _Foreign("NixOS", NIXOS, "add {} to boot.kernelParams of the NixOS configuration, run "
             "`nixos-rebuild boot` and reboot"),
    _Foreign("ostree", OSTREE, "run `rpm-ostree kargs --append-if-missing=ARGUMENT` for each of "
             "{} and reboot", argument="ostree"),
    _Foreign("proxmox-boot-tool", PROXMOX, "add {} to /etc/kernel/cmdline where systemd-boot "
             "starts this machine, or to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub where "
             "GRUB does, run `proxmox-boot-tool refresh` and reboot"),
)  # fmt: skip
_FOREIGN: Final = (
    _Foreign("Limine", LIMINE, "add {} to the `cmdline:` lines of limine.conf and reboot",
             "limine"),
    _Foreign("rEFInd", REFIND, "add {} to the lines of /boot/refind_linux.conf and reboot",
             "refind"),
    _Foreign("extlinux", EXTLINUX, "add {} to the `append` lines of "
             "/boot/extlinux/extlinux.conf and reboot"),
)  # fmt: skip


def configuration_of(boot: Bootloader) -> Configuration | Blocker:
    """Where this machine's kernel arguments are changed, or why that is not certain."""
    has_menu = (boot.menu_path,) if boot.menu is not None else ()
    seen = _Seen(
        files=boot.every_file,
        tools=frozenset(tool.rpartition("/")[2] for tool in boot.tools),
        traces=frozenset((*boot.others, *has_menu)),
        reads_drop_ins=boot.reads_drop_ins,
        loader=boot.loader.lower(),
        selected=boot.selected.lower(),
    )
    above = next(_above_all(seen), None)
    found = [above] if above else list(_candidates(seen))
    if not found:
        return Blocker("no bootloader that rigops supports was found")
    if len(found) > 1:
        titles = " and ".join(one.title for one in found)
        return Blocker(
            f"more than one bootloader may start this machine ({titles}), and which one is unknown",
            "find out which one starts it, and there " + ", or ".join(one.how for one in found),
        )
    only = found[0]
    if isinstance(only, _Foreign):
        reason = f"rigops does not change the configuration of {only.title}"
        return Blocker(reason, only.how)
    if isinstance(only, grub.Bls) and "grubby" not in seen.tools:
        reason = "GRUB has its entries in loader/entries here, and grubby is not installed"
        return Blocker(reason, f"install grubby, {only.how}")
    return only


def _above_all(seen: _Seen) -> Iterator[Configuration | _Foreign]:
    running = {one.partition("=")[0] for one in seen.files.get(RUNNING, "").split()}
    for system in _SYSTEMS:
        if system.is_seen(seen) or (system.argument and system.argument in running):
            yield system
    for foreign in _FOREIGN:
        if foreign.loader and seen.loader.startswith(foreign.loader):
            yield foreign


def _candidates(seen: _Seen) -> Iterator[Configuration | _Foreign]:
    is_systemd_boot, is_grub = (
        seen.loader.startswith("systemd-boot"),
        seen.loader.startswith("grub"),
    )
    has_grub = _has_grub(seen)
    found = entries.normal(seen.files)
    uses_bls = has_grub and bool(found) and _enables_bls(seen)
    # The bootloader that set the firmware's variable did boot this machine.
    if has_grub and not is_systemd_boot:
        if uses_bls:
            yield grub.Bls()
        else:
            yield grub.DropIns() if seen.reads_drop_ins else grub.Defaults()
    if not is_grub:
        yield from _systemd_boot(seen, () if uses_bls and not is_systemd_boot else found)
    if not (is_systemd_boot or is_grub):
        yield from (foreign for foreign in _FOREIGN if foreign.is_seen(seen))


def _has_grub(seen: _Seen) -> bool:
    makes = seen.tools & {"update-grub", "grub-mkconfig", "grub2-mkconfig"}
    if grub.DEFAULTS not in seen.files or not makes:
        return False
    if not seen.traces.isdisjoint(GRUB_MENUS):
        return True
    # The package alone brings the defaults; an unreadable menu is no proof either.
    return not seen.loader and seen.traces.isdisjoint(LOADER_CONFS)


def _enables_bls(seen: _Seen) -> bool:
    values: dict[str, str] = {}
    grub.source(seen.files[grub.DEFAULTS], values)
    return values.get("GRUB_ENABLE_BLSCFG", "").lower() in {"true", "y", "yes", "1"}


def _systemd_boot(seen: _Seen, found: tuple[LoaderEntry, ...]) -> Iterator[Configuration]:
    """Entries, or unified kernels that hold their command line themselves, or both."""
    has_kernel_install = "kernel-install" in seen.tools
    if found and not seen.selected.endswith(".efi"):
        if KERNELSTUB in seen.files:
            yield Kernelstub()
        elif has_kernel_install and any(map(KernelInstall.made, found)):
            yield KernelInstall()
        else:
            yield SystemdBoot()
    if not seen.selected.endswith(".conf"):
        if Mkinitcpio.makes_unified(seen.files):
            yield Mkinitcpio()
        elif has_kernel_install and KernelInstall.makes_unified(seen.files):
            yield KernelInstall()
