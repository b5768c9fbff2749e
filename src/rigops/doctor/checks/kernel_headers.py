"""Whether the driver's module could be built for the kernels that matter."""

from __future__ import annotations

from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import modules_on_disk, next_boot
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.uname import SECTION as UNAME


@Check("drv.headers", needs=(UNAME, PROC_CMDLINE, DKMS, BOOTLOADER, PACKAGES), fixes=("hands",))
def headers(examined: Examined) -> Finding:
    """The headers of this kernel and of the next one are installed.

    Where DKMS builds the driver, looks whether /lib/modules/KERNEL/build leads somewhere, for the
    running kernel and for the one that boots next. Where it does not, nothing can be built: a
    warning, since what was built before still works.
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
        return _missing(missing, evidence)
    unsure = any(modules_on_disk.has_headers(snapshot, one) is None for one in wanted)
    is_configured = snapshot[BOOTLOADER].is_complete
    if unsure or not wanted or upcoming is None or not is_configured:
        return Finding("unknown", "for which kernels there are headers is not known")
    return Finding("ok", f"the headers of {' and '.join(wanted)} are installed")


def _missing(kernels: list[str], evidence: tuple[Evidence, ...]) -> Finding:
    names = " and ".join(kernels)
    packages = " ".join(f"linux-headers-{kernel}" for kernel in kernels)
    return Finding(
        "warn",
        f"the headers of {names} are not installed",
        evidence,
        why="DKMS builds the driver against the headers of exactly that kernel. Without them it "
        "silently builds nothing, and the kernel comes up without a driver.",
        fix=Fix(
            kind="hands",
            text=f"`apt-get install {packages}`; the packages linux-headers-amd64 (Debian) and "
            "linux-headers-generic (Ubuntu) bring those of every later kernel",
        ),
    )
