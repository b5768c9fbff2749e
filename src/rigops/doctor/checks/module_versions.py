"""The three versions of a driver: in the kernel, on disk, and in the libraries of programs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.line_search import texts_of
from rigops.doctor.searched import is_in
from rigops.doctor.views import driver_advice, driver_state, modules_on_disk, next_boot
from rigops.doctor.views.driver_state import numbers
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_modinfo import SECTION as NVIDIA_MODINFO
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.package_history import SECTION as PACKAGE_HISTORY
from rigops.probe.sections.package_history import Change
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.processes import SECTION as PROCESSES
from rigops.probe.sections.uname import SECTION as UNAME
from rigops.probe.snapshot import HostSnapshot

_LIBRARIES = re.compile(
    r"libnvidia-compute(?:-[0-9]{3}(?:-server)?)?|libcuda1|libnvidia-ml1|nvidia-driver-libs"
)
# The versions are on the lines that follow.
_API = re.compile(
    r"^NVRM: (?:API mismatch|has the version [0-9]|the version [0-9]|"
    r"this kernel module has the version [0-9])"
)
_NUMBER = re.compile(r"\b[1-9][0-9]{2}\.[0-9]{2,3}(?:\.[0-9]{2,3})?\b")
_OF_MODULE = re.compile(r"kernel module (?:has the )?version ([0-9.]+[0-9])")
_IN_CONTAINER = r"(?i:\b(?:docker|podman|dockerfile|containers?|kubectl|pods?|toolbox|distrobox)\b)"
_WHY = (
    "The kernel keeps the module it has loaded until it is unloaded, while an update replaces the "
    "files at once. Programs that find libraries of another version than the module fail."
)


@Check(
    "drv.mismatch",
    needs=(
        UNAME,
        PROC_CMDLINE,
        NVIDIA_VERSION,
        NVIDIA_MODINFO,
        PROCESSES,
        DKMS,
        PACKAGES,
        PACKAGE_HISTORY,
        KERNEL_LOG,
        SMI,
    ),
    fixes=("apply+reboot", "hands"),
    cause_rank=40,
)
def mismatch(examined: Examined) -> Finding:
    """The loaded driver, the one on disk and its libraries are of one version.

    Compares the loaded module (/proc/driver/nvidia/version), the module on disk for the running
    kernel (modinfo) and the installed libraries (libnvidia-compute, libcuda1), and looks for
    nvidia-smi's and the kernel's own complaint (Driver/library version mismatch, NVRM: API
    mismatch). After an update without a reboot they differ, and CUDA fails: a failure, which a
    reboot ends; the history of the package manager tells when that was. Known lines name libraries
    that nvidia-smi does not find (couldn't find libnvidia-ml.so), and of modules of two versions on
    disk.
    """
    snapshot = examined.snapshot
    loaded = snapshot[NVIDIA_VERSION].or_empty.version
    disk, libraries, complaints = _on_disk(snapshot), _libraries(snapshot), _complaints(snapshot)
    # Then the libraries fit, whatever their packages say: they may come from elsewhere.
    report = snapshot[SMI].or_empty
    works = bool(report.gpus) and report.failure != "mismatch"
    other_disk = bool(loaded and disk and loaded not in disk)
    other_libraries = bool(loaded and libraries and loaded not in libraries and not works)
    if (complaints and not works) or other_disk or other_libraries:
        evidence = (*complaints, *disk.values(), *(libraries.values() if other_libraries else ()))
        return _differs(examined, {*disk, *libraries}, evidence)
    if driver_state.loaded(examined).is_loaded is False:
        return Finding("skipped", f"{driver_state.NOT_LOADED}, so there is nothing to compare")
    return _alike(examined, complaints, works=works)


def _alike(examined: Examined, complaints: tuple[Evidence, ...], *, works: bool) -> Finding:
    snapshot = examined.snapshot
    loaded = snapshot[NVIDIA_VERSION].or_empty.version
    if loaded is None:
        return Finding("unknown", "the version of the loaded driver could not be read")
    module = modules_on_disk.of_running(snapshot, next_boot.running(snapshot))
    if module is None or numbers(module.version) is None:
        return Finding("unknown", f"driver {loaded} is loaded; that on disk could not be read")
    if not works:
        return Finding("unknown", f"driver {loaded} is loaded; nvidia-smi has not proved it fits")
    everywhere = f"driver {loaded} is loaded, on disk and in the libraries"
    if complaints:
        why = "A program with libraries of its own, such as a container's, was refused."
        return Finding("info", f"{everywhere}, and some program had another", complaints, why=why)
    return Finding("ok", everywhere, driver_state.loaded(examined).evidence)


def _on_disk(snapshot: HostSnapshot) -> dict[str, Evidence]:
    """By version. What DKMS has installed counts where modinfo was not asked."""
    release = next_boot.running(snapshot)
    module = modules_on_disk.of_running(snapshot, release)
    if module is not None and (version := numbers(module.version)):
        return {version: Evidence(NVIDIA_MODINFO.name, module.line)}
    return {
        version: Evidence(DKMS.name, one.line)
        for one in modules_on_disk.built(snapshot, release)
        if one.is_installed and one.kernel and (version := numbers(one.version))
    }


def _libraries(snapshot: HostSnapshot) -> dict[str, Evidence]:
    """By version: package names mislead, nvidia-driver-525 has come to bring 535."""
    return {
        version: Evidence(PACKAGES.name, f"{one.name}\t{one.version}\t{one.architecture}")
        for one in (snapshot[PACKAGES].or_empty.packages)
        if one.is_installed
        and one.architecture not in frozenset({"i386", "armhf"})
        and _LIBRARIES.fullmatch(one.name)
        and (version := numbers(one.version))
    }


def _complaints(snapshot: HostSnapshot) -> tuple[Evidence, ...]:
    """The complaints of nvidia-smi and of the kernel."""
    smi = snapshot[SMI].value
    lines = smi.failure_lines[:2] if smi is not None and smi.failure == "mismatch" else ()
    logged = driver_state.cited(driver_state.logged(snapshot, _API)[-3:])
    return (*(Evidence(SMI.name, line) for line in lines), *logged)


def _differs(examined: Examined, installed: set[str], evidence: tuple[Evidence, ...]) -> Finding:
    version = examined.snapshot[NVIDIA_VERSION].value
    loaded = version.version if version else None
    others = " and ".join(sorted(installed - {loaded}))
    summary = (
        f"driver {loaded} is loaded, and {others} is installed"
        if loaded and others
        else _complained(loaded, evidence)
    )
    step = _upgrade(examined.snapshot, loaded, installed)
    return Finding(
        "fail",
        summary,
        (
            *driver_state.loaded(examined).evidence,
            *evidence,
            *([Evidence(PACKAGE_HISTORY.name, step.line)] if step else []),
        ),
        why=_WHY,
        fix=_fix(examined, installed),
        data={
            "package": step.package,
            "from": numbers(step.before or ""),
            "to": numbers(step.after or ""),
            "at": step.at or "no time in the log",
        }
        if step
        else {},
    )


def _upgrade(snapshot: HostSnapshot, loaded: str | None, installed: set[str]) -> Change | None:
    """The step from the loaded version to the installed one, which was thus after the loading."""
    steps = (
        one
        for one in reversed(snapshot[PACKAGE_HISTORY].or_empty.changes)
        if _LIBRARIES.fullmatch(one.package)
        and numbers(one.before or "") == loaded is not None
        and numbers(one.after or "") in installed
    )
    return next(steps, None)


def _complained(loaded: str | None, complaints: Sequence[Evidence]) -> str:
    """With the versions that the complaints name; NVML may name its branch alone."""
    text = "\n".join(one.line for one in complaints)
    kernels = _OF_MODULE.search(text)
    loaded = loaded or (kernels[1] if kernels else None)
    found = {one for one in _NUMBER.findall(text) if one != loaded}
    whole = sorted(one for one in found if not any(o != one and o.startswith(one) for o in found))
    module = f" ({loaded})" if loaded else ""
    libraries = f" ({', '.join(whole)})" if whole else ""
    return (
        f"the loaded driver{module} and the libraries of programs{libraries} are of different "
        "versions"
    )


def _fix(examined: Examined, installed: set[str]) -> Fix:
    """Apply reboots for the declared driver, which is installed."""
    snapshot, wish = examined.snapshot, examined.spec.driver
    by_hand = _by_hand(snapshot)
    if wish is None or not all(map(wish.versions.contains, installed)):
        return by_hand
    if reason := driver_advice.blocked(examined):
        return fix_by_hand(reason)
    return Fix(
        kind="apply+reboot",
        concern=driver_state.CONCERN,
        declare={"driver": wish.text},
        text="`rigops apply` reboots, and the module of the installed version is loaded then",
        by_hand=by_hand.text,
    )


def _by_hand(snapshot: HostSnapshot) -> Fix:
    if snapshot.bundle.paste is not None and is_in(_IN_CONTAINER, texts_of(snapshot)):
        return fix_by_hand(
            "`nvidia-smi` on the host decides. It fails there too: reboot the host and start the "
            "containers again. It works there: the image has driver libraries of its own "
            "(libnvidia-*, libcuda1, cuda-drivers; or copies and mounts of the host's, "
            "LD_LIBRARY_PATH): remove them, and let nvidia-container-toolkit mount the host's"
        )
    holders = snapshot[PROCESSES].or_empty.holders
    sees_all = snapshot[PROCESSES].is_complete and not snapshot[PROCESSES].without_root
    if holders == () and sees_all:
        return fix_by_hand(
            "nothing uses the cards, so the module can be changed without a reboot: "
            "`modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia`; if it "
            "says that one is in use, reboot"
        )
    names = ", ".join(dict.fromkeys(one.comm for one in (holders or ())[:5]))
    using = f" ({names} uses the cards, and must end first)" if names else ""
    return fix_by_hand(
        f"reboot: `systemctl reboot`{using}; the module of the new version is loaded then. If it "
        "comes back, and `modinfo -F version nvidia` is the new one, the initramfs has the old "
        "module: `update-initramfs -u` (elsewhere `dracut -f` or `mkinitcpio -P`), reboot. Else "
        "two drivers are installed (packages and NVIDIA's .run, or two branches): `dkms status` "
        "and `find / -name 'libnvidia-ml.so.*' -not -path '/proc/*'` show them; remove the one "
        "that is not wanted, reboot"
    )
