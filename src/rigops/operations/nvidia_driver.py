"""The driver that was declared: pinned so that it fails closed, installed, and kept.

Whatever was interrupted, the next run goes on: the record of what is pinned is written last, and
without it everything is resolved and looked at anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyinfra.context import host

from rigops.driver import declared, pinning, sources
from rigops.driver.request import Refusal, Resolution
from rigops.facts.driver_ground import DriverGround, DriverLoaded, DriverPackages
from rigops.facts.sections import Pci, RigopsState
from rigops.operations import driver_vault as vault
from rigops.operations import guards
from rigops.operations.change import notice, owe
from rigops.operations.driver_answer import answer
from rigops.operations.driver_ground import machine
from rigops.operations.driver_modules import modules_brought, modules_built
from rigops.operations.driver_pin import PREFERENCES, driver_pinned
from rigops.operations.driver_record import driver_recorded, recorded
from rigops.operations.foreign_driver import foreign_driver_removed, tell_of_both, that_may_go
from rigops.operations.holds import held, kernel_metas
from rigops.operations.kernel_hook import kernel_hook
from rigops.operations.known import catalog_of
from rigops.operations.modprobe_files import kept_out, options_beside
from rigops.operations.obstacles import obstacles
from rigops.operations.owned_files import owned_file, taken_back
from rigops.operations.packages import packages
from rigops.operations.persistence_daemon import ABSENCE as PERSISTENCE_ABSENCE
from rigops.operations.persistence_daemon import persistence_daemon
from rigops.operations.run_file import (
    is_in_place,
    run_file_driver,
    run_file_driver_removed,
    that_goes,
)
from rigops.operations.take_steps import ownership
from rigops.record.driver import PinnedDriver
from rigops.vault.kept import SOURCE as VAULT_SOURCE

if TYPE_CHECKING:
    from rigops.driver.machine import Kernel, Machine, RunFile
    from rigops.operations.driver_answer import Answer
    from rigops.spec import RigSpec
    from rigops.spec.machine import ModuleOptions

CONCERN: Final = "nvidia_driver"
MODPROBE: Final = "/etc/modprobe.d/rigops-nvidia.conf"

_UPDATE: Final = "apt-get -q update >/dev/null"
_INITRAMFS: Final = """\
if command -v update-initramfs >/dev/null; then update-initramfs -u -k all >/dev/null
elif command -v dracut >/dev/null; then dracut -q -f --regenerate-all
elif command -v mkinitcpio >/dev/null; then mkinitcpio -P >/dev/null; fi"""
_ABSENCES: Final = {
    sources.FILE: _UPDATE,
    VAULT_SOURCE: vault.GONE,
    MODPROBE: _INITRAMFS,
    **PERSISTENCE_ABSENCE,
}
_UNREADABLE_KEY: Final = (
    "Secure Boot is on, and the certificate of the key that modules are signed with cannot be read "
    "on this host, so whether they will load cannot be checked: sudo apt-get install openssl"
)
_NO_RUN_FILE: Final = (
    "the driver here came from a .run file, which has to be run once more: declare the folder that "
    'has it, driver_source = "dir:PATH"'
)
_RIVALS: Final = frozenset({"nouveau", "nova", "nova_core"})


def nvidia_driver(spec: RigSpec) -> None:
    """Have the driver that is declared; what is not declared any more is let go of."""
    if spec.driver is None:
        _without_a_driver(spec)
        return
    known = catalog_of(host)
    seen = machine(host, known)
    leaving = that_may_go(seen)
    if leaving:
        seen = replace(seen, run_file=None)
    tell_of_both(CONCERN, seen)
    found = answer(host, spec, spec.driver, seen, known)
    if isinstance(found, Refusal):
        obstacles(name="The driver", concern=CONCERN, reasons=(str(found),))
        return
    if found.resolution.is_run_file and not found.taken and not is_in_place(seen, found.resolution):
        obstacles(name="The .run file", concern=CONCERN, reasons=(_NO_RUN_FILE,))
        return
    options = options_beside(CONCERN, _named(spec, found.resolution), MODPROBE)
    is_coming = _is_coming(seen, found.resolution)
    if reasons := (*options.obstacles, *kept_out(CONCERN, MODPROBE, is_coming=is_coming)):
        obstacles(name="Files of modprobe", concern=CONCERN, reasons=reasons)
        return
    _install(spec, seen, found, leaving)
    _keep(spec, seen, found, options.options)
    _tell_what_runs(found.resolution)


def _install(spec: RigSpec, seen: Machine, found: Answer, leaving: RunFile | None) -> None:
    """Pinned first: whatever interrupts this, nobody else brings another version meanwhile."""
    wanted = found.resolution
    is_coming = _is_coming(seen, wanted)
    if is_coming:
        _tell_of_the_choice(seen, wanted)
        vault.tell_where(host, CONCERN)
        guards.gpus_are_free(name="GPU jobs", concern=CONCERN)
    if found.source:
        owned_file(
            name=sources.FILE,
            concern=CONCERN,
            path=sources.FILE,
            content=found.source,
            effect=_UPDATE,
        )
    if found.taken and is_coming:
        vault.opened(concern=CONCERN, taken=found.taken)
    driver_pinned(
        concern=CONCERN,
        wanted=wanted,
        kernels=bool(spec.kernel_hold or wanted.prebuilt),
        live=found.is_settled,
    )
    if leaving:
        foreign_driver_removed(
            name="A foreign driver",
            concern=CONCERN,
            uninstaller=leaving.uninstaller,
            version=leaving.version,
            effect=_INITRAMFS,
        )
    if is_coming and (going := that_goes(seen, wanted)):
        run_file_driver_removed(name="A driver of a .run file", concern=CONCERN, found=going)
    if is_coming:
        packages(
            name="Packages of the driver",
            concern=CONCERN,
            install={
                **wanted.by_apt,
                **{name: wanted.beside.get(name) for name in wanted.also},
            },
            remove=wanted.remove,
            change_held=frozenset((*wanted.by_apt, *wanted.remove)),
            driver=wanted.version,
            source=found.beside(host),
            # The pin comes before apt begins, the record after all is done.
            finishes=not found.is_settled
            and PREFERENCES in ownership(host.get_fact(RigopsState)).files,
        )
    if wanted.is_run_file and not is_in_place(seen, wanted):
        run_file_driver(name="NVIDIA's own installer", concern=CONCERN, wanted=wanted)


def _keep(spec: RigSpec, seen: Machine, found: Answer, options: ModuleOptions) -> None:
    """What makes the installed driver count, and stay. The record comes last."""
    wanted = found.resolution
    if spec.gpu_persistence is not False:
        persistence_daemon(concern=CONCERN, machine=seen, by_run_file=wanted.is_run_file)
    _have_options(pinning.modprobe(wanted, options, pinning.kernel_module(wanted)))
    _have_modules(seen, wanted)
    held(name="Holds", concern=CONCERN, names=(*wanted.by_apt, *_held_kernels(spec, wanted)))
    kernel_hook(concern=CONCERN, wanted=True)
    vault.closed(concern=CONCERN)
    taken_back(name="What is no longer declared", concern=CONCERN, effects=_ABSENCES)
    driver_recorded(
        name="Record",
        driver=PinnedDriver(
            version=wanted.version,
            flavour=wanted.flavour,
            declared=found.declared or declared.identity(spec),
            packages=wanted.packages,
            sources=wanted.sources,
            asked=wanted.asked,
            also=wanted.also,
            source=found.source,
            prebuilt=wanted.prebuilt,
        ),
    )


def _have_modules(seen: Machine, wanted: Resolution) -> None:
    """Before any reboot: with Secure Boot the kernel takes no module that others have signed."""
    if wanted.prebuilt:
        modules_brought(
            name="Modules of the distribution",
            concern=CONCERN,
            version=wanted.version,
            kernels=wanted.prebuilt,
        )
        return
    key = host.get_fact(DriverGround).serial if seen.secure_boot else ""
    if seen.secure_boot and not key:
        obstacles(name="Signatures", concern=CONCERN, reasons=(_UNREADABLE_KEY,))
        return
    modules_built(
        name="Modules of the driver",
        concern=CONCERN,
        version=wanted.version,
        kernels=tuple(one.release for one in seen.kernels if _can_build(one, wanted)),
        effect=_INITRAMFS,
        key=key,
    )


def _held_kernels(spec: RigSpec, wanted: Resolution) -> tuple[str, ...]:
    """The distribution's modules are for these very kernels, and no newer one has any."""
    if not spec.kernel_hold and not wanted.prebuilt:
        return ()
    images = {
        f"linux-image-{unsigned}{kernel}"
        for kernel in wanted.prebuilt
        for unsigned in ("", "unsigned-")
    }
    found = host.get_fact(DriverPackages).packages
    there = (one.name for one in found if one.is_installed and one.name in images)
    return (*kernel_metas(host), *there)


def _without_a_driver(spec: RigSpec) -> None:
    """Packages stay: a machine is never left without a driver because a line was deleted."""
    options = _options_of_the_installed(spec)
    if isinstance(options, str):
        obstacles(name="Module options", concern=CONCERN, reasons=(options,))
        return
    if options:
        _have_options(options.text)
    is_declared = spec.module_options is not None or spec.kernel_hold is not None
    held(
        name="Holds",
        concern=CONCERN,
        names=kernel_metas(host) if spec.kernel_hold else (),
        declared=is_declared,
    )
    taken_back(
        name="What is no longer declared",
        concern=CONCERN,
        declared=is_declared,
        effects=_ABSENCES,
    )
    if recorded() is not None:
        driver_recorded(name="Record", driver=None)


@dataclass(frozen=True)
class _Options:
    text: str


def _options_of_the_installed(spec: RigSpec) -> _Options | str | None:
    """For the driver that somebody else installed, whose modules may have names of their own."""
    if not spec.module_options:
        return None
    there = machine(host, catalog_of(host))
    by_installer = there.run_file.version if there.run_file else ""
    version = there.installed_version or by_installer
    if not version:
        return (
            "module_options are for the modules of an NVIDIA driver, and none is installed here: "
            "declare driver too"
        )
    wanted = Resolution(
        version=version,
        flavour=there.flavour or "proprietary",
        packages=there.installed,
        asked=(),
    )
    found = options_beside(CONCERN, _named(spec, wanted), MODPROBE)
    if found.obstacles:
        return "; ".join(found.obstacles)
    return _Options(pinning.modprobe(wanted, found.options, pinning.kernel_module(wanted)))


def _named(spec: RigSpec, wanted: Resolution) -> dict[str, dict[str, str]]:
    return pinning.by_module(spec.module_options or (), pinning.kernel_module(wanted))


def _have_options(text: str) -> None:
    owned_file(name=MODPROBE, concern=CONCERN, path=MODPROBE, content=text, effect=_INITRAMFS)


def _can_build(kernel: Kernel, wanted: Resolution) -> bool:
    return kernel.has_headers or f"linux-headers-{kernel.release.lower()}" in wanted.also


def _tell_of_the_choice(seen: Machine, wanted: Resolution) -> None:
    before = seen.installed_version or "none"
    places = f" from {', '.join(wanted.places)}" if wanted.places else ""
    notice(
        host,
        CONCERN,
        f"driver {before} -> {wanted.version} ({wanted.flavour} modules){places}: {wanted.why}",
    )
    for text in wanted.notes:
        notice(host, CONCERN, text)


def _is_coming(seen: Machine, wanted: Resolution) -> bool:
    there = {one.name for one in host.get_fact(DriverPackages).packages if one.is_installed}
    return (
        any(seen.installed.get(name) != version for name, version in wanted.packages.items())
        or (wanted.is_run_file and not is_in_place(seen, wanted))
        or that_goes(seen, wanted) is not None
        or not there.issuperset((*wanted.by_apt, *wanted.also))
        or not there.isdisjoint(wanted.remove)
    )


def _tell_what_runs(wanted: Resolution) -> None:
    """What only a reboot brings. Without a card there is nothing to wait for."""
    cards = host.get_fact(Pci).nvidia_gpus
    if not cards:
        return
    loaded = host.get_fact(DriverLoaded)
    rivals = sorted({one.driver for one in cards if one.driver in _RIVALS})
    if rivals:
        owe(host, CONCERN, f"{' and '.join(rivals)} drives the cards until a reboot")
    elif loaded.version != wanted.version:
        there = f"{loaded.version} is loaded" if loaded.version else "none is loaded"
        owe(host, CONCERN, f"the driver {wanted.version} runs only after a reboot: {there}")
    elif loaded.flavour and loaded.flavour != wanted.flavour:
        owe(host, CONCERN, f"the {wanted.flavour} modules run only after a reboot")
