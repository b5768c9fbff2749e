"""Which bootloader starts this machine, by its traces: its programs alone prove nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.bootloader import (
    entries,
    grub,
    kernel_install,
    kernelstub,
    mkinitcpio,
)
from rigops.concerns.kernel_args.bootloader.entries import SystemdBoot
from rigops.concerns.kernel_args.bootloader.grub import Defaults
from rigops.concerns.kernel_args.bootloader.grubby import Bls
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rigops.concerns.kernel_args.bootloader.configuration import Configuration
    from rigops.concerns.kernel_args.bootloader.entries import Entry
    from rigops.probe.sections.bootloader import Bootloader

_TRUE: Final = frozenset({"true", "y", "yes", "1"})
_SYSTEMD_BOOT: Final = "systemd-boot"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`loader` and `selected` are what the bootloader told the firmware's variables."""

    files: Files = field(default_factory=Files)
    tools: tuple[str, ...] = ()  # their names
    traces: tuple[str, ...] = ()
    reads_drop_ins: bool = False
    loader: str = ""
    selected: str = ""


@dataclass(frozen=True)
class Refused:
    """No configuration that rigops may change. `how`: a clause with {} where the arguments go."""

    reason: str
    how: str = "add {} to the kernel command line in the bootloader's configuration, and reboot"

    def by_hand(self, wanted: Iterable[str]) -> str:
        return self.how.replace("{}", " ".join(wanted))


@dataclass(frozen=True)
class _Foreign:
    """A way to boot that rigops only knows by name."""

    title: str
    traces: tuple[str, ...]
    how: str
    loader: str = ""  # how it calls itself to EFI
    argument: str = ""  # the kernel's, by which it is known

    def is_seen(self, seen: Seen) -> bool:
        return any(one in seen.traces for one in self.traces)


# These stand above every bootloader: what they make is made anew from elsewhere.
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


def configuration_of(boot: Bootloader) -> Configuration | Refused:
    """Where this machine's kernel arguments are changed."""
    has_menu = (boot.menu_path,) if boot.menu is not None else ()
    return choose(
        Seen(
            files=boot.every_file,
            tools=tuple(tool.rpartition("/")[2] for tool in boot.tools),
            traces=(*boot.others, *has_menu),
            reads_drop_ins=boot.reads_drop_ins,
            loader=boot.loader,
            selected=boot.selected,
        )
    )


def choose(seen: Seen) -> Configuration | Refused:
    """The one that is sure to count, or why none is."""
    above = next(_above_all(seen), None)
    found = [above] if above else list(_candidates(seen))
    if not found:
        return Refused("no bootloader that rigops knows was found")
    if len(found) > 1:
        titles = " and ".join(one.title for one in found)
        return Refused(
            f"more than one bootloader may start this machine ({titles}), and nothing tells which",
            "find out which one starts it, and there " + ", or ".join(map(_how, found)),
        )
    only = found[0]
    if isinstance(only, _Foreign):
        reason = f"rigops does not change the configuration of {only.title}"
        return Refused(reason, only.how)
    if isinstance(only, Bls) and "grubby" not in seen.tools:
        reason = "GRUB has its entries in loader/entries here, and grubby is not installed"
        return Refused(reason, f"install grubby, {_how(only)}")
    return only


def _how(one: Configuration | _Foreign) -> str:
    return one.how if isinstance(one, _Foreign) else one.by_hand(("{}",))


def _above_all(seen: Seen) -> Iterator[Configuration | _Foreign]:
    running = {one.partition("=")[0] for one in seen.files.get(RUNNING, "").split()}
    for system in _SYSTEMS:
        if system.is_seen(seen) or (system.argument and system.argument in running):
            yield system
    for foreign in _FOREIGN:
        if foreign.loader and seen.loader.lower().startswith(foreign.loader):
            yield foreign


def _candidates(seen: Seen) -> Iterator[Configuration | _Foreign]:
    is_systemd_boot = seen.loader.lower().startswith(_SYSTEMD_BOOT)
    has_grub = _has_grub(seen)
    found = entries.normal(seen.files)
    uses_bls = has_grub and bool(found) and _enables_bls(seen)
    # Whoever told the firmware that it booted this machine did.
    if has_grub and not is_systemd_boot:
        yield _grub(seen, uses_bls=uses_bls)
    tells_grub = seen.loader.lower().startswith("grub")
    if not tells_grub:
        yield from _systemd_boot(seen, () if uses_bls and not is_systemd_boot else found)
    if not (is_systemd_boot or tells_grub):
        yield from (foreign for foreign in _FOREIGN if foreign.is_seen(seen))


def _has_grub(seen: Seen) -> bool:
    makes = {"update-grub", "grub-mkconfig", "grub2-mkconfig"}.intersection(seen.tools)
    if grub.DEFAULTS not in seen.files or not makes:
        return False
    if any(one in seen.traces for one in GRUB_MENUS):
        return True
    # The package alone brings the defaults; a menu that nobody may look at is no proof either.
    return not seen.loader and not any(one in seen.traces for one in LOADER_CONFS)


def _enables_bls(seen: Seen) -> bool:
    values: dict[str, str] = {}
    grub.source(seen.files[grub.DEFAULTS], values)
    return values.get("GRUB_ENABLE_BLSCFG", "").lower() in _TRUE


def _grub(seen: Seen, *, uses_bls: bool) -> Configuration:
    if uses_bls:
        return Bls()
    return grub.DropIns() if seen.reads_drop_ins else Defaults()


def _systemd_boot(seen: Seen, found: tuple[Entry, ...]) -> Iterator[Configuration]:
    """Entries, or unified kernels that hold their command line themselves, or both."""
    has_entries = bool(found) and not seen.selected.lower().endswith(".efi")
    if has_entries:
        yield _of_entries(seen, found)
    if not seen.selected.lower().endswith(".conf"):
        if mkinitcpio.makes_unified(seen.files):
            yield mkinitcpio.Mkinitcpio()
        elif kernel_install.makes_unified(seen.files) and "kernel-install" in seen.tools:
            yield kernel_install.KernelInstall()


def _of_entries(seen: Seen, found: tuple[Entry, ...]) -> Configuration:
    if KERNELSTUB in seen.files:
        return kernelstub.Kernelstub()
    if "kernel-install" in seen.tools and any(kernel_install.made(one) for one in found):
        return kernel_install.KernelInstall()
    return SystemdBoot()
