"""Whether the NVIDIA module is built for the kernel that runs, and for the one that boots next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor import rig
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Remedy
from rigops.doctor.rig import driver_state, modules_on_disk, next_boot
from rigops.doctor.rig.modules_on_disk import DKMS, OnDisk

if TYPE_CHECKING:
    from rigops.doctor.finding import Status
    from rigops.doctor.rig.next_boot import NextKernel
    from rigops.probe.facts import HostFacts

BUILD = "drv.dkms"
HEADERS = "drv.headers"

_WHY = (
    "A kernel module fits one kernel only, so DKMS builds the driver anew for every kernel that is "
    "installed. Where that failed, this kernel comes up without a driver."
)
_DIFFERS = (
    "DKMS says that a module on disk is not as it was built: mostly it was only signed, stripped "
    "or compressed afterwards."
)


def build(examined: Examined) -> list[Finding]:
    facts = examined.facts
    if rig.has_no_gpu(examined):
        return [_finding("skipped", driver_state.NO_GPU)]
    anywhere = modules_on_disk.is_anywhere(facts)
    if anywhere is None:
        return [
            _finding("unknown", "for which kernels there is an NVIDIA module was not collected")
        ]
    if not anywhere:
        return [_finding("skipped", "no NVIDIA module is installed, for no kernel")]
    return [_judged(examined)]


def missing_now(examined: Examined) -> list[Finding]:
    """The failure that leaves this boot without a driver, if there is one."""
    return [one for one in build(examined) if one.status == "fail" and _lacks_now(examined.facts)]


def _lacks_now(facts: HostFacts) -> bool:
    now = modules_on_disk.for_running(facts, next_boot.running(facts)).is_there
    return now is False or (now is None and _is_for_none(facts))


def _finding(
    status: Status,
    summary: str,
    evidence: tuple[Evidence, ...] = (),
    *,
    why: str = "",
    remedy: Remedy | None = None,
    kernels: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        id=BUILD,
        status=status,
        summary=summary,
        evidence=evidence,
        why=why,
        remedy=remedy,
        data={"kernels": list(kernels)} if kernels else {},
    )


def _judged(examined: Examined) -> Finding:
    facts = examined.facts
    running, upcoming = next_boot.running(facts), next_boot.next_kernel(facts)
    is_same = upcoming is not None and upcoming.release == running
    now = modules_on_disk.for_running(facts, running)
    later = modules_on_disk.for_kernel(facts, upcoming.release) if upcoming else OnDisk(None)
    lacks_later = later.is_there is False and not is_same
    if _lacks_now(facts):
        return _missing_now(examined, running, upcoming if lacks_later else None, now)
    if upcoming and lacks_later:
        return _missing_later(examined, upcoming, later)
    if now.is_there is None:
        return _finding("unknown", "whether the running kernel has an NVIDIA module is not known")
    return _versions_twice(facts, running) or _there(facts, upcoming, now, later)


def _there(facts: HostFacts, upcoming: NextKernel | None, now: OnDisk, later: OnDisk) -> Finding:
    if upcoming is None or not _is_configured(facts):
        summary = "the running kernel has its module, and which kernel boots next is not known"
        return _finding("unknown", summary, now.evidence)
    is_same = upcoming.release == next_boot.running(facts)
    if later.is_there is None and not is_same:
        summary = f"whether {upcoming.release}, which boots next, has a module is not known"
        return _finding("unknown", summary, (upcoming.evidence,))
    other = "boots next" if is_same else f"so has {upcoming.release}, which boots next"
    summary = f"the running kernel has its module, and {other}"
    differs = any(one.differs for one in modules_on_disk.built(facts, upcoming.release))
    return _finding("ok", summary, now.evidence, why=_DIFFERS if differs else "")


def _is_for_none(facts: HostFacts) -> bool:
    """DKMS knows of a driver, and has installed it for no kernel at all."""
    dkms, modinfo = facts.dkms, facts.nvidia_modinfo
    waiting = dkms is not None and dkms.nvidia and not any(one.is_installed for one in dkms.nvidia)
    return bool(waiting) and not (modinfo and modinfo.modules)


def _is_configured(facts: HostFacts) -> bool:
    return facts.bootloader is not None and facts.is_whole("bootloader")


def _missing_now(
    examined: Examined, running: str | None, upcoming: NextKernel | None, now: OnDisk
) -> Finding:
    facts = examined.facts
    kernel = f"the running kernel {running}" if running else "any kernel"
    also = f", nor for {upcoming.release}, which boots next" if upcoming else ""
    errors = tuple(Evidence(DKMS, line) for line in (facts.dkms.errors if facts.dkms else ())[:3])
    evidence = now.evidence or tuple(
        Evidence(DKMS, one.line) for one in modules_on_disk.built(facts, running)
    )
    version = facts.nvidia_version
    if version is not None and version.version and facts.is_whole(driver_state.VERSION):
        summary = f"the loaded driver is no longer on disk for {kernel}{also}"
    else:
        summary = f"there is no NVIDIA module for {kernel}{also}"
    return _finding(
        "fail",
        summary,
        (*_uname(facts), *evidence[:5], *errors),
        why=_WHY + _reason(examined, running),
        remedy=_remedy(examined, running, then="then `modprobe nvidia`, or reboot"),
        kernels=tuple(one for one in (running, upcoming and upcoming.release) if one),
    )


def _missing_later(examined: Examined, upcoming: NextKernel, later: OnDisk) -> Finding:
    likely = "boots next" if upcoming.is_certain else "is the newest and probably boots next"
    return _finding(
        "fail",
        f"the driver will be gone after a reboot: {upcoming.release}, which {likely}, has none",
        (upcoming.evidence, *later.evidence[:5]),
        why=_WHY + _reason(examined, upcoming.release),
        remedy=_remedy(examined, upcoming.release, then="before anybody reboots"),
        kernels=(upcoming.release,),
    )


def _uname(facts: HostFacts) -> tuple[Evidence, ...]:
    release = next_boot.running(facts)
    return (Evidence("uname", release),) if release and facts.uname else ()


def _reason(examined: Examined, release: str | None) -> str:
    if release and modules_on_disk.has_headers(examined.facts, release) is False:
        return f" The headers of {release} are not installed, so nothing can be built for it."
    states = {one.state for one in modules_on_disk.built(examined.facts, release)}
    if "added" in states and "built" not in states:
        return (
            " DKMS has the source and no build for this kernel: a driver that is older than the "
            "kernel often does not compile."
        )
    return ""


def _remedy(examined: Examined, release: str | None, *, then: str) -> Remedy:
    kernel = release or "$(uname -r)"
    if release and modules_on_disk.has_headers(examined.facts, release) is False:
        first = f"`apt-get install linux-headers-{kernel}`, then `dkms autoinstall -k {kernel}`"
    else:
        first = f"`dkms autoinstall -k {kernel}` (linux-headers-{kernel} must be installed)"
    log = "/var/lib/dkms/nvidia*/*/build/make.log"
    by_hand = (
        f"{first}, {then}; if it does not compile ({log} says why), install a driver that knows "
        "this kernel (`rigops drivers`), or boot the kernel that has a module"
    )
    text = f"`rigops apply` installs the driver that is declared and builds it for {kernel}"
    return driver_state.by_deploy(examined, text, by_hand)


def _versions_twice(facts: HostFacts, running: str | None) -> Finding | None:
    ready = [
        one for one in modules_on_disk.built(facts, running) if one.kernel and one.is_installed
    ]
    versions = sorted({one.version for one in ready})
    if len(versions) <= 1:
        return None
    name = ready[0].name
    return _finding(
        "warn",
        f"DKMS has {' and '.join(versions)} installed for the running kernel",
        tuple(Evidence(DKMS, one.line) for one in ready),
        why="Which of them is loaded is left to chance, and programs fail with the others'.",
        remedy=Remedy(
            kind="hands",
            text=f"`dkms remove {name}/VERSION --all` for each but the one that is meant to be "
            "there, then `depmod -a` and reboot",
        ),
    )


CHECKS = (
    Check(
        id=BUILD,
        title="The NVIDIA module is there for this kernel and for the next one",
        explanation=(
            "Looks for a module for the running kernel and for the one that boots next (GRUB's "
            "default entry, else the newest kernel): installed by DKMS, found by modinfo, or "
            "prebuilt in a package. A kernel for which there is none, while there is one for "
            "another, is a failure: the driver is missing now, or will be after the reboot. Two "
            "versions that DKMS has installed for one kernel are a warning."
        ),
        run=build,
    ),
)
