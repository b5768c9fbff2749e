"""The declared driver: pinned so that it fails closed, and installed.

Whatever was interrupted, the next run goes on: the record of what is pinned is written last, and
without it everything is resolved and compared again.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Final

from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.modules_version import ModulesVersion
from rigops.concerns.nvidia_driver import NAME as CONCERN
from rigops.concerns.nvidia_driver import modprobe, record
from rigops.concerns.nvidia_driver.facts import (
    DriverHost,
    driver_answer,
    has_owned,
    machine,
    recorded,
    with_added_sources,
)
from rigops.concerns.nvidia_driver.modprobe import MODPROBE, blacklisted, options_beside
from rigops.concerns.nvidia_driver.modules import (
    INITRAMFS,
    PERSISTENCE_ABSENCE,
    driver_modules,
    kernel_hook,
    persistence_daemon,
    subject,
)
from rigops.concerns.nvidia_driver.pin import driver_pinned, report_next_driver
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.answer import DriverAnswer, not_installed
from rigops.concerns.nvidia_driver.resolver.driver_facts import VaultAccess
from rigops.concerns.nvidia_driver.resolver.machine import Machine, RunFile
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Resolution, identity
from rigops.concerns.nvidia_driver.run_file import (
    INSTALLERS_LOG,
    is_in_place,
    removable_foreign,
    replaced_run_file,
    report_both,
    run_file_driver,
    run_file_driver_removed,
)
from rigops.concerns.nvidia_driver.vault_source import (
    REMOVED,
    SOURCE_TEXT,
    source_closed,
    source_opened,
)
from rigops.concerns.preconditions import guards
from rigops.facts.sections import DriverLoaded, GpuPackages, Pci, RigopsState
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.machine import ModuleOptions
from rigops.ownership.file_work import FileWork, script
from rigops.ownership.owned_files import owned_file, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.packages import sources
from rigops.packages.apt_beside import with_index
from rigops.packages.operations import HOLDS, held, kernel_metas, packages
from rigops.packages.records import WORK_RECORD
from rigops.plan.change import LaterChange
from rigops.plan.commands import blockers
from rigops.plan.context import (
    announce_later,
    headline,
    housekeeping,
    may_undo,
    needs_reboot,
    notice,
    provide,
    provided,
)
from rigops.probe.package_names import headers_of
from rigops.vault.fill import MOST_BYTES
from rigops.vault.pinned_set import FOLDER
from rigops.vault.pinned_set import SOURCE as VAULT_SOURCE
from rigops.vault.store import amount

_UPDATE: Final = "apt-get -q update >/dev/null"
_ABSENCES: Final = {
    sources.FILE: _UPDATE,
    VAULT_SOURCE: REMOVED,
    MODPROBE: INITRAMFS,
    **PERSISTENCE_ABSENCE,
}
_UNREADABLE_KEY: Final = (
    "Secure Boot is on, and the certificate of the key that modules are signed with cannot be read "
    "on this host, so whether they will load cannot be checked: sudo apt-get install openssl"
)
_BY_HAND: Final = "NVIDIA's own installer put a driver here meanwhile; run this again"
_NO_RUN_FILE: Final = (
    "the driver here came from a .run file, which has to be run again: declare the folder with it, "
    '"driver_source": "dir:PATH"'
)
_WITHOUT_A_TREE: Final = "its version is that of driver_modules, which cannot be used"
_RIVALS: Final = frozenset({"nouveau", "nova", "nova_core"})


def nvidia_driver(spec: RigSpec) -> None:
    """Have the declared driver; what is no longer declared is undone."""
    if spec.driver is None:
        _without_a_driver(spec)
        return
    own = provided(host, ModulesVersion)
    if spec.driver_modules is not None and not (own and own.text):
        blockers(name="The driver", concern=CONCERN, reasons=(_WITHOUT_A_TREE,))
        return
    known = catalog_of(host)
    seen = machine(host, known)
    leaving = removable_foreign(seen)
    if leaving:
        seen = replace(seen, run_file=None)
    report_both(seen)
    found = driver_answer(host, spec, spec.driver, seen, known, own_modules=own.text if own else "")
    if isinstance(found, Blocker):
        blockers(name="The driver", concern=CONCERN, reasons=(str(found),))
        return
    wanted = found.resolution
    if wanted.is_run_file and not found.from_vault and not is_in_place(seen, wanted):
        blockers(name="The .run file", concern=CONCERN, reasons=(_NO_RUN_FILE,))
        return
    options = options_beside(_named(spec, wanted))
    is_coming = _is_coming(seen, wanted)
    if reasons := (*options.blockers, *blacklisted(is_coming=is_coming)):
        blockers(name="Files of modprobe", concern=CONCERN, reasons=reasons)
        return
    provide(host, wanted)
    _install(spec, seen, found, leaving)
    _secure(spec, seen, found, options.options)
    _report_reboot(wanted)


def _install(spec: RigSpec, seen: Machine, found: DriverAnswer, leaving: RunFile | None) -> None:
    """Pinned first: whatever interrupts this, no other tool brings another version meanwhile."""
    wanted = found.resolution
    is_coming = _is_coming(seen, wanted)
    _announce_headline(seen, wanted)
    if is_coming:
        _report_choice(wanted)
        guards.gpus_are_free(name="GPU jobs", concern=CONCERN)
    if found.source:
        owned_file(
            name=sources.FILE,
            concern=CONCERN,
            path=sources.FILE,
            content=found.source,
            effect=_UPDATE,
        )
    if found.from_vault and is_coming:
        source_opened(found.from_vault)
    driver_pinned(
        wanted,
        kernels=bool(spec.kernel_hold or wanted.prebuilt),
        live=found.is_settled,
    )
    if leaving:
        run_file_driver_removed(name="A foreign driver", found=leaving, effect=INITRAMFS)
    if is_coming and (going := replaced_run_file(seen, wanted)):
        run_file_driver_removed(name="A driver of a .run file", found=going)
    # An earlier run may have been cut off in a trigger when all packages were there.
    if is_coming or WORK_RECORD in host.get_fact(RigopsState).records:
        packages(
            name="Packages of the driver",
            concern=CONCERN,
            install={**dict.fromkeys(wanted.also), **wanted.by_apt},
            remove=wanted.remove,
            change_held=frozenset((*wanted.by_apt, *wanted.remove)),
            driver=wanted.version,
            source=_added_sources(found),
            unless=None if wanted.is_run_file else (INSTALLERS_LOG, _BY_HAND),
        )
        # The packages' effect is known only then.
        after = "after the packages"
        announce_later(host, LaterChange(CONCERN, "hold", HOLDS, after))
        for release in dict.fromkeys((*(one.release for one in seen.kernels), *wanted.prebuilt)):
            announce_later(host, LaterChange(CONCERN, "module", subject(release), after))
    if wanted.is_run_file and not is_in_place(seen, wanted):
        run_file_driver(name="NVIDIA's own installer", wanted=wanted)


def _secure(spec: RigSpec, seen: Machine, found: DriverAnswer, options: ModuleOptions) -> None:
    """Brings the installed driver into force and keeps others away. The record comes last."""
    wanted = found.resolution
    if spec.gpu_persistence is not False:
        persistence_daemon(seen, by_run_file=wanted.is_run_file)
    _have_options(modprobe.modprobe_file(wanted, options, modprobe.kernel_module(wanted.packages)))
    _have_modules(seen, wanted)
    held(name="Holds", concern=CONCERN, names=(*wanted.by_apt, *_held_kernels(spec, wanted)))
    kernel_hook(concern=CONCERN)
    source_closed()
    undo_undeclared(name="Undo undeclared settings", concern=CONCERN, effects=_ABSENCES)
    driver_recorded(
        name="Record",
        driver=PinnedDriver(
            version=wanted.version,
            flavor=wanted.flavor,
            declared=found.declared or identity(spec),
            packages=wanted.packages,
            sources=wanted.sources,
            asked=wanted.asked,
            also=wanted.also,
            beside=wanted.beside,
            source=found.source,
            prebuilt=wanted.prebuilt,
        ),
    )


def _have_modules(seen: Machine, wanted: Resolution) -> None:
    """Before any reboot: with Secure Boot the kernel takes no module that others have signed."""
    if wanted.prebuilt:
        driver_modules(
            name="Modules of the distribution",
            version=wanted.version,
            kernels=wanted.prebuilt,
            prebuilt=True,
        )
        return
    key = host.get_fact(DriverHost).serial if seen.secure_boot else ""
    if seen.secure_boot and not key:
        blockers(name="Signatures", concern=CONCERN, reasons=(_UNREADABLE_KEY,))
        return
    driver_modules(
        name="Modules of the driver",
        version=wanted.version,
        kernels=tuple(
            one.release
            for one in seen.kernels
            if one.has_headers or headers_of(one.release) in wanted.also
        ),
        effect=INITRAMFS,
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
    found = host.get_fact(GpuPackages).packages
    there = (one.name for one in found if one.is_installed and one.name in images)
    return (*kernel_metas(host), *there)


def _without_a_driver(spec: RigSpec) -> None:
    """Packages stay: a machine is never left without a driver because a line was deleted."""
    options = _options_of_the_installed(spec)
    if isinstance(options, Blocker):
        blockers(name="Module options", concern=CONCERN, reasons=(str(options),))
        return
    if options:
        _have_options(options)
    is_declared = spec.module_options is not None or spec.kernel_hold is not None
    held(
        name="Holds",
        concern=CONCERN,
        names=kernel_metas(host) if spec.kernel_hold else (),
        declared=is_declared,
    )
    undo_undeclared(
        name="Undo undeclared settings",
        concern=CONCERN,
        declared=is_declared,
        effects=_ABSENCES,
    )
    # The record goes with the files. Where an undo was cut off, only the record is left.
    files = Ownership.from_state(host.get_fact(RigopsState)).files
    owned = [path for path, file in files.items() if file.concern == CONCERN] or [record.PATH]
    pinned = recorded(host)
    if pinned is not None and (is_declared or may_undo(host, CONCERN, owned)):
        headline(host, CONCERN, f"driver {pinned.version} no longer pinned")
        report_next_driver(host, pinned, catalog_of(host))
        driver_recorded(name="Record", driver=None)


def _options_of_the_installed(spec: RigSpec) -> str | Blocker | None:
    """The modprobe file where rigops did not install the driver: modules may have other names."""
    if not spec.module_options:
        return None
    there = machine(host, catalog_of(host))
    by_installer = there.run_file.version if there.run_file else ""
    version = there.installed_version or by_installer
    if not version:
        return Blocker(
            "module_options are for the modules of an NVIDIA driver, and none is installed here",
            "declare driver too",
        )
    wanted = Resolution(
        version=version,
        flavor=there.flavor or "proprietary",
        packages=there.installed,
        asked=(),
    )
    found = options_beside(_named(spec, wanted))
    if found.blockers:
        return Blocker("; ".join(found.blockers))
    return modprobe.modprobe_file(wanted, found.options, modprobe.kernel_module(wanted.packages))


def _named(spec: RigSpec, wanted: Resolution) -> dict[str, dict[str, str]]:
    return modprobe.by_module(spec.module_options or (), modprobe.kernel_module(wanted.packages))


def _have_options(text: str) -> None:
    owned_file(name=MODPROBE, concern=CONCERN, path=MODPROBE, content=text, effect=INITRAMFS)


def _announce_headline(seen: Machine, wanted: Resolution) -> None:
    before = seen.installed_version or (seen.run_file.version if seen.run_file else "")
    if before and before != wanted.version:
        text = f"driver {before} -> {wanted.version}"
    elif before and recorded(host):
        text = f"driver stays {wanted.version}"
    else:
        text = f"driver {wanted.version}{' pinned' if before else ''}"
    headline(host, CONCERN, text)


def _report_choice(wanted: Resolution) -> None:
    places = f" from {', '.join(wanted.places)}" if wanted.places else ""
    notice(
        host,
        CONCERN,
        f"driver {wanted.version} ({wanted.flavor} modules){places}: {wanted.why}",
    )
    for text in wanted.notes:
        notice(host, CONCERN, text)
    access = provided(host, VaultAccess)
    if access is not None:
        notice(
            host,
            CONCERN,
            f"once proven, its packages ({amount(MOST_BYTES)} at most) are stored in {FOLDER} "
            f"there and in {access.store.folder} on this machine ({amount(access.store.size())} "
            "now)",
        )


def _added_sources(found: DriverAnswer) -> str:
    """The source and the vault, as long as apt does not know them."""
    source = with_added_sources(host, found.source)
    if found.from_vault is None or has_owned(host, VAULT_SOURCE, SOURCE_TEXT):
        return source
    return with_index(source, found.from_vault.index)


def _is_coming(seen: Machine, wanted: Resolution) -> bool:
    found = host.get_fact(GpuPackages)
    return (
        not wanted.exact.items() <= {**seen.installed, **seen.tools}.items()
        or (wanted.is_run_file and not is_in_place(seen, wanted))
        or replaced_run_file(seen, wanted) is not None
        or bool(not_installed((*wanted.exact, *wanted.also), found))
        or not_installed(wanted.remove, found) != wanted.remove
    )


def _report_reboot(wanted: Resolution) -> None:
    """Reasons for a reboot. Without a card there are none."""
    cards = host.get_fact(Pci).nvidia_gpus
    if not cards:
        return
    loaded = host.get_fact(DriverLoaded)
    rivals = sorted({one.driver for one in cards if one.driver in _RIVALS})
    if rivals:
        needs_reboot(host, CONCERN, f"{' and '.join(rivals)} drives the cards until a reboot")
    elif loaded.version != wanted.version:
        there = f"{loaded.version} is loaded" if loaded.version else "none is loaded"
        needs_reboot(
            host,
            CONCERN,
            f"the driver {wanted.version} runs only after a reboot: {there}",
            fails="CUDA" if loaded.version else "",  # its libraries refuse another module
        )
    elif loaded.flavor and loaded.flavor != wanted.flavor:
        needs_reboot(host, CONCERN, f"the {wanted.flavor} modules run only after a reboot")


@operation()
def driver_recorded(*, driver: PinnedDriver | None) -> Generator[StringCommand, None, None]:
    """Have this as the record of what is pinned; None: nothing is."""
    if recorded(host) == driver:
        host.noop("the record of the driver is as it should be")
        return
    housekeeping(host, CONCERN, record.PATH)
    text = record.document(driver) if driver else record.NOTHING
    owned = Ownership.from_state(host.get_fact(RigopsState))
    # No steps like those of files: the engine joins them, and this is to come after their effects.
    work = FileWork(before=owned, notes={record.PATH: text.encode()})
    yield StringCommand("sh", "-s", _stdin=script(work))
