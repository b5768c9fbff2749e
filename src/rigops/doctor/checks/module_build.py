"""Whether the NVIDIA module is built, or could be, for the kernel that runs and the next one."""

from __future__ import annotations

import re

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import driver_advice, modules_on_disk, next_boot
from rigops.doctor.views.modules_on_disk import OnDisk
from rigops.doctor.views.next_boot import NextKernel
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.nvidia_modinfo import SECTION as NVIDIA_MODINFO
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.uname import SECTION as UNAME
from rigops.probe.snapshot import HostSnapshot

_WHY = (
    "A kernel module fits one kernel only, so DKMS builds the driver for every kernel that is "
    "installed. Where that failed, this kernel comes up without a driver."
)
_NO_SOURCE = re.compile(r"Could not locate dkms\.conf|^File: |Missing the module source")
_TREE = re.compile(r"/var/lib/dkms/([A-Za-z0-9._+-]{1,60}/[A-Za-z0-9._+~-]{1,60})/")
_DIFFERS = (
    "DKMS reports that a module on disk is not as it was built: mostly it was only signed, "
    "stripped or compressed afterwards."
)


@Check(
    "drv.dkms",
    needs=(UNAME, PROC_CMDLINE, NVIDIA_VERSION, NVIDIA_MODINFO, DKMS, BOOTLOADER, PACKAGES),
    fixes=("apply+reboot", "hands"),
    cause_rank=10,
)
def build(examined: Examined) -> Finding:
    """The NVIDIA module is there for this kernel and for the next one.

    Looks for a module for the running kernel and for the one that boots next (GRUB's default entry,
    else the newest kernel): installed by DKMS, found by modinfo, or prebuilt in a package. A kernel
    for which there is none, while there is one for another, is a failure: the driver is missing
    now, or will be after the reboot. Two versions that DKMS has installed for one kernel are a
    warning, and so is a module whose source DKMS does not find (Could not locate dkms.conf): it
    stops there, and the next kernel gets no module.
    """
    snapshot = examined.snapshot
    anywhere = modules_on_disk.is_anywhere(snapshot)
    if not anywhere and (sourceless := _sourceless(snapshot)):
        return sourceless
    if anywhere is None:
        return Finding("unknown", "for which kernels there is an NVIDIA module was not collected")
    if not anywhere:
        return Finding("skipped", "no NVIDIA module is installed, for no kernel")
    return _judged(examined)


def missing_now(examined: Examined) -> list[Finding]:
    """The failure that leaves this boot without a driver, if there is one."""
    return build.findings(examined) if _lacks_now(examined.snapshot) else []


def _lacks_now(snapshot: HostSnapshot) -> bool:
    now = modules_on_disk.for_running(snapshot, next_boot.running(snapshot)).is_there
    return now is False or (now is None and _is_for_none(snapshot))


def _judged(examined: Examined) -> Finding:
    snapshot = examined.snapshot
    running, upcoming = next_boot.running(snapshot), next_boot.next_kernel(snapshot)
    is_same = upcoming is not None and upcoming.release == running
    now = modules_on_disk.for_running(snapshot, running)
    later = modules_on_disk.for_kernel(snapshot, upcoming.release) if upcoming else OnDisk(None)
    lacks_later = later.is_there is False and not is_same
    if _lacks_now(snapshot):
        return _missing_now(examined, running, upcoming if lacks_later else None, now)
    if upcoming and lacks_later:
        return _missing_later(examined, upcoming, later)
    if sourceless := _sourceless(snapshot):
        return sourceless
    if now.is_there is None:
        return Finding("unknown", "whether the running kernel has an NVIDIA module is not known")
    return _versions_twice(snapshot, running) or _there(snapshot, upcoming, now, later)


def _sourceless(snapshot: HostSnapshot) -> Finding | None:
    dkms = snapshot[DKMS].or_empty
    lines = [line for line in dkms.errors if _NO_SOURCE.search(line)]
    broken = [one for one in dkms.modules if one.state == "broken"]
    lines += [one.line for one in broken]
    if not lines:
        return None
    trees = [found[1] for line in lines if (found := _TREE.search(line))]
    trees += [f"{one.name}/{one.version}" for one in broken]
    where = f"/var/lib/dkms/{trees[0]}" if trees else "the one in /var/lib/dkms without a source"
    return Finding(
        "warn",
        "DKMS does not find the source of a module that it has",
        tuple(Evidence(DKMS.name, line) for line in lines[:3]),
        why="An earlier version was removed and its entry stayed. DKMS stops there, so that "
        "installing a kernel or its headers fails, and later kernels get no driver.",
        fix=fix_by_hand(
            f"remove {where} (look whether its `source` leads to /usr/src), then "
            "`dkms autoinstall` and `dpkg --configure -a`"
        ),
    )


def _there(
    snapshot: HostSnapshot, upcoming: NextKernel | None, now: OnDisk, later: OnDisk
) -> Finding:
    if upcoming is None or not snapshot[BOOTLOADER].is_complete:
        summary = "the running kernel has its module, and which kernel boots next is not known"
        return Finding("unknown", summary, now.evidence)
    is_same = upcoming.release == next_boot.running(snapshot)
    if later.is_there is None and not is_same:
        summary = f"whether {upcoming.release}, which boots next, has a module is not known"
        return Finding("unknown", summary, (upcoming.evidence,))
    other = "boots next" if is_same else f"so has {upcoming.release}, which boots next"
    summary = f"the running kernel has its module, and {other}"
    differs = any(one.differs for one in modules_on_disk.built(snapshot, upcoming.release))
    return Finding("ok", summary, now.evidence, why=_DIFFERS if differs else "")


def _is_for_none(snapshot: HostSnapshot) -> bool:
    """DKMS knows of a driver, and has installed it for no kernel at all."""
    dkms, modinfo = snapshot[DKMS].value, snapshot[NVIDIA_MODINFO].value
    waiting = dkms is not None and dkms.nvidia and not any(one.is_installed for one in dkms.nvidia)
    return bool(waiting) and not (modinfo and modinfo.modules)


def _missing_now(
    examined: Examined, running: str | None, upcoming: NextKernel | None, now: OnDisk
) -> Finding:
    snapshot = examined.snapshot
    kernel = f"the running kernel {running}" if running else "any kernel"
    also = f" and the next, {upcoming.release}" if upcoming else ""
    kernels = [one for one in (running, upcoming and upcoming.release) if one]
    errors = tuple(Evidence(DKMS.name, line) for line in snapshot[DKMS].or_empty.errors[:3])
    uname = (Evidence(UNAME.name, running),) if running and snapshot[UNAME].value else ()
    evidence = now.evidence or tuple(
        Evidence(DKMS.name, one.line) for one in modules_on_disk.built(snapshot, running)
    )
    version = snapshot[NVIDIA_VERSION].value
    if version is not None and version.version and snapshot[NVIDIA_VERSION].is_complete:
        summary = f"the loaded driver is no longer on disk for {kernel}{also}"
    else:
        summary = f"no NVIDIA module for {kernel}{also}"
    return Finding(
        "fail",
        summary,
        (*uname, *evidence[:5], *errors),
        why=_WHY + _reason(examined, running),
        fix=_fix(examined, running, then="then `modprobe nvidia`, or reboot"),
        data={"kernels": kernels} if kernels else {},
    )


def _missing_later(examined: Examined, upcoming: NextKernel, later: OnDisk) -> Finding:
    likely = "boots next" if upcoming.is_certain else "probably boots next"
    return Finding(
        "fail",
        f"no driver after a reboot: {upcoming.release}, which {likely}, has none",
        (upcoming.evidence, *later.evidence[:5]),
        why=_WHY + _reason(examined, upcoming.release),
        fix=_fix(examined, upcoming.release, then="before anybody reboots"),
        data={"kernels": [upcoming.release]},
    )


def _reason(examined: Examined, release: str | None) -> str:
    if release and modules_on_disk.has_headers(examined.snapshot, release) is False:
        return f" The headers of {release} are not installed, so nothing can be built for it."
    states = {one.state for one in modules_on_disk.built(examined.snapshot, release)}
    if "added" in states and "built" not in states:
        return (
            " DKMS has the source and no build for this kernel: a driver that is older than the "
            "kernel often does not compile."
        )
    return ""


def _fix(examined: Examined, release: str | None, *, then: str) -> Fix:
    kernel = release or "$(uname -r)"
    if release and modules_on_disk.has_headers(examined.snapshot, release) is False:
        first = f"`apt-get install linux-headers-{kernel}`, then `dkms autoinstall -k {kernel}`"
    else:
        first = f"`dkms autoinstall -k {kernel}` (linux-headers-{kernel} must be installed)"
    log = "/var/lib/dkms/nvidia*/*/build/make.log"
    by_hand = (
        f"{first}, {then}; if it does not compile ({log} says why), install a driver that knows "
        "this kernel (`rigops drivers`), or boot the kernel that has a module"
    )
    text = f"`rigops apply` installs the driver that is declared and builds it for {kernel}"
    return driver_advice.by_deploy(examined, text, by_hand)


def _versions_twice(snapshot: HostSnapshot, running: str | None) -> Finding | None:
    ready = [
        one for one in modules_on_disk.built(snapshot, running) if one.kernel and one.is_installed
    ]
    versions = sorted({one.version for one in ready})
    if len(versions) <= 1:
        return None
    name = ready[0].name
    return Finding(
        "warn",
        f"DKMS has {' and '.join(versions)} installed for the running kernel",
        tuple(Evidence(DKMS.name, one.line) for one in ready),
        why="Which of them is loaded is left to chance, and programs fail with the others'.",
        fix=fix_by_hand(
            f"`dkms remove {name}/VERSION --all` for each but the one that is meant to be "
            "there, then `depmod -a` and reboot"
        ),
    )


@Check("drv.headers", needs=(UNAME, PROC_CMDLINE, DKMS, BOOTLOADER, PACKAGES), fixes=("hands",))
def headers(examined: Examined) -> Finding:
    """The headers of this kernel and of the next one are installed.

    Where DKMS builds the driver, looks whether /lib/modules/KERNEL/build leads somewhere, for the
    running kernel and for the one that boots next. Where it does not, nothing can be built: a
    warning, since modules built before still work.
    """
    snapshot = examined.snapshot
    dkms = snapshot[DKMS].value
    if dkms is None:
        return Finding("unknown", "whether DKMS can build was not collected")
    if not dkms.nvidia:
        return Finding("skipped", "DKMS builds no NVIDIA module here")
    upcoming = next_boot.next_kernel(snapshot)
    kernels = [one for one in (next_boot.running(snapshot), upcoming and upcoming.release) if one]
    wanted = tuple(dict.fromkeys(kernels))
    missing = [one for one in wanted if modules_on_disk.has_headers(snapshot, one) is False]
    if missing:
        evidence = tuple(Evidence(DKMS.name, one.line) for one in dkms.nvidia[:3])
        return _no_headers(missing, evidence)
    unsure = any(modules_on_disk.has_headers(snapshot, one) is None for one in wanted)
    is_configured = snapshot[BOOTLOADER].is_complete
    if unsure or not wanted or upcoming is None or not is_configured:
        return Finding("unknown", "for which kernels there are headers is not known")
    return Finding("ok", f"the headers of {' and '.join(wanted)} are installed")


def _no_headers(kernels: list[str], evidence: tuple[Evidence, ...]) -> Finding:
    names = " and ".join(kernels)
    packages = " ".join(f"linux-headers-{kernel}" for kernel in kernels)
    return Finding(
        "warn",
        f"the headers of {names} are not installed",
        evidence,
        why="DKMS builds the driver against the headers of exactly that kernel. Without them it "
        "silently builds nothing, and the kernel comes up without a driver.",
        fix=fix_by_hand(
            f"`apt-get install {packages}`; the packages linux-headers-amd64 (Debian) and "
            "linux-headers-generic (Ubuntu) bring those of every later kernel"
        ),
    )
