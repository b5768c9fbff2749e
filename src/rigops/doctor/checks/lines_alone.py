"""Checks that are decided by known lines alone."""

from __future__ import annotations

from inspect import cleandoc

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding
from rigops.doctor.views import kernel_logs
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.pasted import SECTION as PASTED


def _of_the_kernel(name: str, what: str, cause_rank: int, text: str) -> Check:
    """`what`: no line says of it."""

    def run(examined: Examined) -> Finding:
        return kernel_logs.clean(examined.snapshot, what)

    run.__doc__ = cleandoc(text)
    needs = (KERNEL_LOG_PREVIOUS, KERNEL_LOG)
    return Check(name, needs=needs, needs_gpu=False, fixes=("hands",), cause_rank=cause_rank)(run)


def _of_pastes(name: str, text: str, cause_rank: int = Check.cause_rank) -> Check:
    def run(_: Examined) -> list[Finding]:
        return []

    run.__doc__ = cleandoc(text)
    needs = (PASTED,)
    return Check(name, needs=needs, needs_gpu=False, fixes=("hands",), cause_rank=cause_rank)(run)


MACHINE_CHECK = _of_the_kernel(
    "cpu.mce",
    "machine check",
    54,
    """
    The processor reports no machine checks.

    Reads the kernel logs of this boot and of the one before for machine checks of the processor.
    """,
)
DISKS = _of_the_kernel(
    "disk.errors",
    "disk error",
    70,
    """
    Disks and file systems report no errors.

    Reads the kernel logs of this boot and of the one before for failed reads and writes, for disks
    that left, and for file systems that the kernel made read-only.
    """,
)
HANG = _of_the_kernel(
    "host.hang",
    "kernel hang",
    80,
    """
    No processor of the host was stuck.

    Reads the kernel logs of this boot and of the one before for lockups of a processor and stalls
    of the kernel.
    """,
)
PASSTHROUGH = _of_pastes(
    "passthrough",
    """
    Cards are handed to virtual machines.

    Only where a line of QEMU, libvirt, a hypervisor or vfio was given to doctor: why a card does
    not get into a virtual machine, or not out of it.
    """,
)
CUDA_ERROR = _of_pastes(
    "cuda.error",
    """
    Programs meet no error of CUDA.

    Only where the output of a program was given to doctor: the error that it reports, and whether
    it is of the host or of the program.
    """,
)
DCGM = _of_pastes(
    "dcgm",
    """
    NVIDIA's diagnosis (DCGM) finds nothing.

    Only where an output of dcgmi or of DCGM's exporter was given to doctor: the test that failed,
    and what its words mean.
    """,
)
PACKAGES = _of_pastes(
    "pkg.errors",
    """
    apt, dpkg, dkms and NVIDIA's installer ended without an error.

    Only where their output was given to doctor, those of dnf and pacman too: why an installation
    or the build of the module failed. Errors that only follow from another one are not repeated.
    """,
    cause_rank=5,
)
