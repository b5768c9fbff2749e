"""Settings of the kernel and of nvidia_uvm that move memory behind a program's back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.sections.limits import SECTION as LIMITS
from rigops.probe.sections.modprobe import SECTION as MODPROBE

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined

HMM = "uvm.hmm"

_AFFECTED = "Blackwell"


@Check("uvm.hmm", needs=(MODPROBE,), fixes=("accept",))
def hmm(examined: Examined) -> Finding:
    """Heterogeneous memory management on several Blackwell cards.

    Reads /sys/module/nvidia_uvm/parameters/uvm_disable_hmm. With two Blackwell cards or more an N
    is information, since some owners could only stop hangs of P2P by switching HMM off. It is never
    a warning, since there is no controlled test.
    """
    affected = [
        card for card in examined.cards if card.model and card.model.architecture == _AFFECTED
    ]
    if len(affected) < 2:  # noqa: PLR2004 - one card has no peer
        unsure = not views.sees_the_bus(examined) or any(
            card.model is None for card in examined.cards
        )
        few = f"this concerns rigs with several {_AFFECTED} cards"
        return (
            Finding("unknown", f"{few}, and not all cards are known")
            if unsure
            else Finding("skipped", few)
        )
    modules = examined.snapshot[MODPROBE].value
    if modules is None or modules.uvm_disable_hmm is None:
        return Finding("unknown", "whether nvidia_uvm uses HMM could not be read")
    evidence = (Evidence(MODPROBE.name, f"uvm_disable_hmm {modules.uvm_disable_hmm_line}"),)
    if modules.uvm_disable_hmm:
        return Finding("ok", "nvidia_uvm was loaded with uvm_disable_hmm=1", evidence)
    return Finding(
        "info",
        f"nvidia_uvm uses HMM on a rig with {len(affected)} {_AFFECTED} cards",
        evidence,
        why="Owners of such rigs report that NCCL's P2P locked up until uvm_disable_hmm=1 was "
        "set; the mechanism is not known. Where preflight passes, leave it.",
        fix=Fix(
            kind="accept",
            text="only where copies between the cards hang: `options nvidia_uvm "
            "uvm_disable_hmm=1` in /etc/modprobe.d, a new initramfs, and a reboot",
        ),
    )


@Check("hugetlb.numa_balancing", needs=(LIMITS,), fixes=("accept",))
def balancing(examined: Examined) -> Finding:
    """Automatic NUMA balancing.

    Reads kernel.numa_balancing. On more than one NUMA node a value other than 0 is information;
    with one node there is nothing to balance.
    """
    limits = examined.snapshot[LIMITS].value
    if limits is None or limits.numa_nodes is None:
        return Finding("unknown", "how many NUMA nodes there are was not read")
    if limits.numa_nodes < 2:  # noqa: PLR2004 - pages move between two nodes or more
        return Finding("skipped", "there is one NUMA node")
    if limits.numa_balancing is None:
        return Finding("unknown", "kernel.numa_balancing could not be read")
    line = limits.raw.get("numa_balancing", "")
    evidence = (Evidence(LIMITS.name, f"kernel.numa_balancing = {line}"),)
    if limits.numa_balancing == 0:
        return Finding("ok", "the kernel does not move pages on its own", evidence)
    return Finding(
        "info",
        f"the kernel moves pages between its {limits.numa_nodes} NUMA nodes on its own",
        evidence,
        why="It unmaps pages to see who uses them, which costs time while a collective runs. "
        "Healthy, if not the fastest.",
        fix=Fix(
            kind="accept",
            text="to try without: `sysctl kernel.numa_balancing=0`, and a file in "
            "/etc/sysctl.d to keep it",
        ),
    )
