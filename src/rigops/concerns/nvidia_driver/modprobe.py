"""The modprobe file of the driver, and other files with options or blacklists of its modules.

modprobe gives a module the options of every file, in the order of the files' names whatever folder
they are in, and of one parameter's values the kernel takes the last. Where a file says by which
command a name is loaded, as Debian's does of nvidia, the options of that name come after those of
the module that the command loads. Debian gives NVIDIA's modules names of its own: options under
these count however one is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Final

from pyinfra.context import host

from rigops.concerns.nvidia_driver import NAME as CONCERN
from rigops.concerns.nvidia_driver.pin import VERSION, plain
from rigops.concerns.nvidia_driver.resolver.request import Resolution
from rigops.concerns.preconditions.words import shortened
from rigops.dataclass import dataclass
from rigops.facts.sections import CommandLine, DriverLoaded, Modprobe
from rigops.inventory.spec.machine import ModuleOptions
from rigops.plan.context import notice
from rigops.probe.sections import modprobe
from rigops.probe.sections.modprobe import Blacklisted, ModuleOption

MODPROBE: Final = "/etc/modprobe.d/rigops-nvidia.conf"

_DRIVER: Final = "nvidia"
_COMPUTE: Final = "nvidia-uvm"
_BLACKLISTS: Final = frozenset({"modprobe.blacklist", "module_blacklist"})
_TRUE: Final = frozenset({"1", "y", "Y"})
_DEBIAN_MODULES: Final[Mapping[str, str]] = {
    "nvidia-open-kernel-dkms": "nvidia-current-open",
    "nvidia-kernel-dkms": "nvidia-current",
}
_NVIDIAS_OWN: Final = "nvidia-driver-cuda"  # its packages for Debian rename nothing
_TESLA_MODULE = re.compile(r"(?P<module>nvidia-tesla(?:-[0-9]{3})?)-kernel-dkms")
_OF_NVIDIA = re.compile(
    r"nvidia(?:-(?:current|tesla-[0-9]{3}))?(?:-open)?(?P<part>-(?:modeset|drm|uvm|peermem))?"
)
_RIVAL_MODULES: Final = ("nouveau", "lbm-nouveau", "nova", "nova_core")
_MODULE = re.compile(r"[A-Za-z0-9_-]+")
_OPTION = re.compile(r"[A-Za-z0-9_]+=[!-~]*")


@dataclass(frozen=True, kw_only=True)
class FoundOptions:
    """`options`: those that no other file sets as declared, so that rigops sets them."""

    options: ModuleOptions
    blockers: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()  # other values, which do not count


def options_beside(wanted: Mapping[str, Mapping[str, str]]) -> FoundOptions:
    """Conflicts that the declared options win are notices; the caller refuses the others."""
    found = beside(wanted, host.get_fact(Modprobe))
    for text in found.notices:
        notice(host, CONCERN, text)
    return found


def blacklisted(*, is_coming: bool) -> tuple[str, ...]:
    """Why the driver would not be loaded by the next boot.

    Where the driver stays as it is and is loaded, they are notices: something loads it by name.
    """
    found = (
        *blacklists(host.get_fact(Modprobe)),
        *blacklists_at_boot(host.get_fact(CommandLine).arguments),
    )
    if is_coming or not host.get_fact(DriverLoaded).version:
        return found
    for text in found:
        notice(host, CONCERN, text)
    return ()


def by_module(options: ModuleOptions, module: str) -> dict[str, dict[str, str]]:
    """The options by the names that the modules have there. `module`: see `kernel_module`."""
    found: dict[str, dict[str, str]] = {}
    for declared, pairs in options:
        name = plain(_MODULE, declared)
        if shape := _OF_NVIDIA.fullmatch(name.replace("_", "-")):
            name = module + (shape["part"] or "")
        found.setdefault(name, {}).update(pairs)
    return found


def upstream_name(module: str) -> str:
    """NVIDIA's name of a module, from any build; another's name with dashes."""
    name = module.replace("_", "-")
    shape = _OF_NVIDIA.fullmatch(name)
    return f"nvidia{shape['part'] or ''}" if shape else name


def modprobe_file(resolution: Resolution, options: ModuleOptions, module: str) -> str:
    """For /etc/modprobe.d. `module`: what nvidia.ko is called there, see `kernel_module`."""
    version = plain(VERSION, resolution.version)
    lines = [
        "# Made by rigops from driver and module_options; made anew, never edited.",
        f"# It keeps the cards for NVIDIA's driver {version}. The initramfs has a copy of it.",
        *(f"blacklist {rival}" for rival in _RIVAL_MODULES),
        *(f"alias {rival} off" for rival in _RIVAL_MODULES),
        "options nouveau modeset=0",
    ]
    for name, settings in by_module(options, plain(_MODULE, module)).items():
        words = [plain(_OPTION, f"{option}={value}") for option, value in settings.items()]
        lines.append(" ".join([f"options {name}", *words]))
    return "\n".join(lines) + "\n"


def kernel_module(packages: Collection[str]) -> str:
    """The name of these packages' nvidia.ko on disk: Debian's builds rename it."""
    if _NVIDIAS_OWN in packages:
        return "nvidia"
    for package, module in _DEBIAN_MODULES.items():
        if package in packages:
            return module
    tesla = (shape for name in packages if (shape := _TESLA_MODULE.fullmatch(name)))
    return next((shape["module"] for shape in tesla), "nvidia")


def beside(wanted: Mapping[str, Mapping[str, str]], files: modprobe.Modprobe) -> FoundOptions:
    """`wanted`: the declared options by the modules' real names."""
    options: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    blockers: list[str] = []
    notices: list[str] = []
    for module, pairs in wanted.items():
        ours = []
        for name, value in pairs.items():
            others = _others(module, name, files)
            last = others[-1] if others else None
            against = [one for one in others if not _is(one.value, value)]
            declared = f"{module} {name}={value}"
            if last is None or last in against or not _is_same(last.module, module):
                ours.append((name, value))
            is_later = last and PurePosixPath(last.file).name > PurePosixPath(MODPROBE).name
            if last and last in against and (is_later or not _is_same(last.module, module)):
                blockers.append(
                    f"{_place(last)}, which would override the declared {declared}: remove it from "
                    "that file, or declare that value in module_options"
                )
            else:
                notices += [
                    f"{_place(one)}, which the declared {declared} overrides" for one in against
                ]
        if ours:
            options.append((module, tuple(ours)))
    return FoundOptions(options=tuple(options), blockers=tuple(blockers), notices=tuple(notices))


def blacklists(files: modprobe.Modprobe) -> tuple[str, ...]:
    """The lines of other files because of which NVIDIA's driver would not load."""
    return tuple(
        f"{_place(one)}, so NVIDIA's driver does not load: remove that line, run "
        "`sudo update-initramfs -u -k all`, then this again"
        for one in files.blacklists
        if one.file != MODPROBE and _is_against(one)
    )


def blacklists_at_boot(arguments: Iterable[str]) -> tuple[str, ...]:
    """The arguments that the running kernel was started with to that effect."""
    return tuple(
        f"the kernel was started with `{shortened(one)}`, so NVIDIA's driver does not load: "
        "remove that from the bootloader's configuration, then run this again"
        for one in arguments
        if _is_blacklist(one)
    )


def _is_blacklist(argument: str) -> bool:
    name, _, value = argument.partition("=")
    modules = {upstream_name(one) for one in value.split(",")}
    return name.replace("-", "_") in _BLACKLISTS and _DRIVER in modules


def _is_against(one: Blacklisted) -> bool:
    """A blacklist means loading for hardware's sake; programs load nvidia-uvm by its name."""
    name = upstream_name(one.module)
    return name == _DRIVER or (name == _COMPUTE and one.kind != "blacklist")


def _others(module: str, name: str, files: modprobe.Modprobe) -> list[ModuleOption]:
    """In the order in which they count, but for our own file."""
    upstream = upstream_name(module)
    mine = [
        one
        for one in files.options
        if one.file != MODPROBE and one.name == name and upstream_name(one.module) == upstream
    ]
    return sorted(mine, key=lambda one: not _is_same(one.module, module))


def _is_same(one: str, other: str) -> bool:
    return one.replace("-", "_") == other.replace("-", "_")


def _is(found: str | None, value: str) -> bool:
    if found is None:
        return value in _TRUE
    plain = found.strip("\"'")
    return plain == value or [*_number(plain)] == [*_number(value)] != []


def _number(text: str) -> Iterator[int]:
    with suppress(ValueError):
        yield int(text, 0)


def _place(one: ModuleOption | Blacklisted) -> str:
    return f"{shortened(one.file)} says `{shortened(one.line)}`"
