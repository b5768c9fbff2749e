"""What other files of modprobe say of modules whose options are declared, or that have to load.

modprobe gives a module the options of every file, in the order of the files' names whatever folder
they are in, and of one parameter's values the kernel takes the last. Where a file says by which
command a name is loaded, as Debian's does of nvidia, the options of that name come after those of
the module that the command loads.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from rigops.driver.pinning import upstream_name
from rigops.guarding.words import said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rigops.probe.sections.modprobe import Blacklisted, Modprobe, ModuleOption
    from rigops.spec.machine import ModuleOptions

_DRIVER: Final = "nvidia"
_COMPUTE: Final = "nvidia-uvm"
_BLACKLISTS: Final = frozenset({"modprobe.blacklist", "module_blacklist"})
_TRUE: Final = frozenset({"1", "y", "Y"})


@dataclass(frozen=True, kw_only=True)
class Found:
    """`options`: those that nobody else sets as they are declared, so that they are ours to set."""

    options: ModuleOptions
    obstacles: tuple[str, ...] = ()  # in their way
    notices: tuple[str, ...] = ()  # against them, and in vain


def beside(wanted: Mapping[str, Mapping[str, str]], modprobe: Modprobe, own: str) -> Found:
    """`wanted`: the declared options by the modules' real names. `own`: where they are written."""
    options: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    obstacles: list[str] = []
    notices: list[str] = []
    for module, pairs in wanted.items():
        ours = []
        for name, value in pairs.items():
            others = _others(module, name, modprobe, own)
            last = others[-1] if others else None
            against = [one for one in others if not _is(one.value, value)]
            declared = f"{module} {name}={value}"
            if last is None or last in against or not _is_same(last.module, module):
                ours.append((name, value))
            if last and last in against and _comes_later(last, module, own):
                obstacles.append(
                    f"{_place(last)}, which would count instead of the declared {declared}: take "
                    "it out of there, or declare that value in module_options"
                )
            else:
                notices += [
                    f"{_place(one)}, and does not count: the declared {declared} comes later"
                    for one in against
                ]
        if ours:
            options.append((module, tuple(ours)))
    return Found(options=tuple(options), obstacles=tuple(obstacles), notices=tuple(notices))


def keeping_out(modprobe: Modprobe, own: str) -> tuple[str, ...]:
    """The lines of others that keep NVIDIA's driver from being loaded."""
    return tuple(
        f"{_place(one)}, which keeps NVIDIA's driver from being loaded: take that line out of "
        "there, run `sudo update-initramfs -u -k all`, and then this again"
        for one in modprobe.blacklists
        if one.file != own and _keeps_out(one)
    )


def keeping_out_at_boot(arguments: Iterable[str]) -> tuple[str, ...]:
    """The arguments that the running kernel was started with to that effect."""
    return tuple(
        f"the kernel was started with `{said(one)}`, which keeps NVIDIA's driver from being loaded:"
        " take that out of the bootloader's configuration, and then this again"
        for one in arguments
        if _is_blacklist(one)
    )


def _is_blacklist(argument: str) -> bool:
    name, _, value = argument.partition("=")
    modules = {upstream_name(one) for one in value.split(",")}
    return name.replace("-", "_") in _BLACKLISTS and _DRIVER in modules


def _keeps_out(one: Blacklisted) -> bool:
    """A blacklist means loading for hardware's sake; programs load nvidia-uvm by its name."""
    name = upstream_name(one.module)
    return name == _DRIVER or (name == _COMPUTE and one.kind != "blacklist")


def _others(module: str, name: str, modprobe: Modprobe, own: str) -> list[ModuleOption]:
    """In the order in which they count, but for our own file."""
    upstream = upstream_name(module)
    mine = [
        one
        for one in modprobe.options
        if one.file != own and one.name == name and upstream_name(one.module) == upstream
    ]
    return sorted(mine, key=lambda one: not _is_same(one.module, module))


def _comes_later(one: ModuleOption, module: str, own: str) -> bool:
    is_later = PurePosixPath(one.file).name > PurePosixPath(own).name
    return is_later or not _is_same(one.module, module)


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
    return f"{said(one.file)} says `{said(one.line)}`"
