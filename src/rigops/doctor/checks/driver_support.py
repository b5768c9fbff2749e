"""How long the driver gets fixes, and whether the next boot brings the same one."""

from __future__ import annotations

from datetime import date

from rigops.catalog import find_branch, versions
from rigops.catalog.lookup import ENDED, has_ended, recommended
from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.views import driver_advice, driver_state, modules_on_disk, next_boot
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.nvidia_modinfo import SECTION as NVIDIA_MODINFO
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.uname import SECTION as UNAME
from rigops.probe.snapshot import HostSnapshot


@Check("drv.eol", needs=(NVIDIA_VERSION,))
def end_of_life(examined: Examined) -> Finding:
    """The driver's branch still gets fixes.

    Looks up the loaded driver's branch in the catalog. A branch whose end has passed is
    information, with the maintained one for these cards: it works as before, and no fix for a new
    kernel or for a security hole will come. A branch that the catalog does not know is unknown.
    """
    version = examined.snapshot[NVIDIA_VERSION].or_empty.version
    if version is None:
        if driver_state.loaded(examined).is_loaded is False:
            return Finding("skipped", driver_state.NOT_LOADED)
        return Finding("unknown", "the version of the loaded driver could not be read")
    name = versions.branch_of(version)
    evidence = driver_state.loaded(examined).evidence
    branch = find_branch(examined.catalog, name)
    collected = _day(examined.snapshot.collected_at)
    # No clock is right that is behind the catalog.
    today = collected and max(collected, examined.catalog.as_of)
    if branch is None or not branch.end_of_life or not today:
        why = f"how long driver branch {name} gets fixes is not known"
        return Finding("unknown", why, evidence)
    end = branch.end_of_life
    if not has_ended(branch, today):
        return Finding("ok", f"driver branch {name} gets fixes until {end}", evidence)
    since = "" if end == ENDED else f" since {end}"
    best = recommended(examined.catalog, views.driven(examined))
    is_newer = best is not None and int(best.branch) > int(name)
    return Finding(
        "info",
        f"driver branch {name} has had no fixes{since}",
        evidence,
        why=f"Plan for {best.branch}, which drives these cards and gets fixes until "
        f"{best.end_of_life}."
        if best and is_newer
        else "No maintained branch is known to be good for these cards.",
    )


def _day(moment: str | None) -> date | None:
    try:
        return date.fromisoformat((moment or "")[:10])
    except ValueError:
        return None


@Check(
    "drv.next_boot",
    needs=(UNAME, PROC_CMDLINE, NVIDIA_VERSION, NVIDIA_MODINFO, DKMS, BOOTLOADER, PACKAGES),
    fixes=("apply+reboot", "hands"),
    cause_rank=45,
)
def after_reboot(examined: Examined) -> Finding:
    """The kernel that boots next brings the same driver.

    Where another kernel boots next, compares the version of its NVIDIA module (modinfo, DKMS) with
    the declared driver, or without a declaration with the loaded one. Another version is a
    warning: the next reboot changes the driver. drv.dkms judges a kernel without a module,
    drv.mismatch the running one.
    """
    snapshot = examined.snapshot
    running, upcoming = next_boot.running(snapshot), next_boot.next_kernel(snapshot)
    if upcoming is None or running is None:
        return Finding("unknown", "which kernel runs, and which one boots next, is not known")
    if upcoming.release == running:
        return Finding("skipped", "the running kernel boots next")
    if modules_on_disk.for_kernel(snapshot, upcoming.release).is_there is False:
        return Finding("skipped", f"{upcoming.release}, which boots next, has no module: drv.dkms")
    found = _version_for(snapshot, upcoming.release)
    wish, loaded = examined.spec.driver, snapshot[NVIDIA_VERSION].or_empty.version
    if found is None or (wish is None and loaded is None):
        why = f"the driver of {upcoming.release}, which boots next, is not known"
        return Finding("unknown", why, (upcoming.evidence,))
    version, line = found
    fits = versions.parse(version) in wish.versions if wish else version == loaded
    now = f"{wish.text} is declared" if wish else f"{loaded} is loaded"
    evidence = (upcoming.evidence, line)
    if fits:
        return Finding(
            "ok", f"{upcoming.release}, which boots next, has driver {version}", evidence
        )
    return Finding(
        "warn",
        f"the next boot brings driver {version} ({upcoming.release}), and {now}",
        evidence,
        why="A kernel has a module of its own. Programs find libraries of another version after "
        "the boot, or a driver that was never tried here.",
        fix=driver_advice.by_deploy(
            examined,
            "`rigops apply` installs the declared driver for the kernel that boots next",
            f"`dkms status` shows the versions; remove the one that is not wanted "
            f"(`dkms remove NAME/{version} --all`), `dkms autoinstall -k {upcoming.release}`, or "
            "boot the running kernel by default",
        ),
    )


def _version_for(snapshot: HostSnapshot, release: str) -> tuple[str, Evidence] | None:
    for module in snapshot[NVIDIA_MODINFO].or_empty.modules:
        if module.kernel == release and (version := driver_state.numbers(module.version)):
            return version, Evidence(NVIDIA_MODINFO.name, module.line)
    for one in modules_on_disk.built(snapshot, release):
        if one.is_installed and one.kernel and (version := driver_state.numbers(one.version)):
            return version, Evidence(DKMS.name, one.line)
    return None
