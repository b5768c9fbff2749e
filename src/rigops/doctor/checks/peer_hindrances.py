"""Obstacles to peer access: cards with other chips, displays, memory that the kernel moves."""

from __future__ import annotations

from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import peers, proof
from rigops.doctor.views.peers import Grants
from rigops.probe.sections.limits import SECTION as LIMITS
from rigops.probe.sections.modprobe import SECTION as MODPROBE
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pci import SECTION as PCI

HMM = "uvm.hmm"
_AFFECTED = "Blackwell"


_NOT_BY_MODULES = (
    "Modules of your own change nothing about that: libcuda refuses such pairs, whatever the "
    "kernel grants."
)
_KEEP_APART = "use cards of one chip in a job, or leave driver_modules out"


@Check("mixed.gpus", needs=(TOPOLOGY, P2P_READ), fixes=("hands",))
def mixed(examined: Examined) -> Finding:
    """The cards have the same chip.

    Compares the PCI device ids: NVIDIA gives each chip a block of 128. The driver offers peer
    access over PCIe only between cards of one chip: two RTX 3090 and an RTX A6000 can have it, a
    3090 and a 4090 never. Different chips are information, not a fault; where `driver_modules` is
    declared they are a warning, since no kernel module makes peers of them.
    """
    nothing = peers.no_pairs(examined)
    if nothing is not None:
        return nothing
    found = peers.classify_pairs(examined)
    pairs = (*found.granted, *found.refused, *found.undetermined)
    differences = [peers.is_mixed(pair) for pair in pairs]
    if True in differences:
        return _several_chips(examined, differences.count(True), len(pairs))
    if not pairs or None in differences or not found.all_seen:
        return Finding("unknown", "not every card could be identified")
    return Finding("ok", f"all {len(examined.cards)} cards have the same chip")


def _several_chips(examined: Examined, mixed_pairs: int, total: int) -> Finding:
    counts: dict[str, int] = {}
    for card in examined.cards:
        counts[card.name] = counts.get(card.name, 0) + 1
    kinds = ", ".join(f"{count}x {name}" for name, count in counts.items())
    evidence = tuple(
        Evidence(PCI.name, card.function.line) for card in examined.cards if card.function
    )
    is_own = examined.spec.driver_modules is not None
    return Finding(
        "warn" if is_own else "info",
        f"cards with different chips ({kinds}): no peer access over PCIe between "
        f"{mixed_pairs} of {total} pairs",
        evidence,
        why=f"{peers.MIXED_WHY} {_NOT_BY_MODULES}" if is_own else peers.MIXED_WHY,
        fix=fix_by_hand(_KEEP_APART) if is_own else None,
        data={"cards": counts},
    )


@Check("display.p2p", needs=(TOPOLOGY, P2P_READ, *proof.NEEDS), fixes=("hands",))
def display(examined: Examined) -> Finding | list[Finding]:
    """No display is connected to a card with peer access over PCIe.

    Looks at `display_active` of each card that the driver grants peer access over PCIe. A display
    there is a warning: with patched drivers it has broken peer copies, and on any driver it takes
    memory and time from the card. Where `p2p` is required of `driver_modules`, and no preflight has
    passed for the present state, it is a failure on any card. Where nothing is granted, or all of
    it goes over NVLink, it does not apply.
    """
    nothing = peers.no_pairs(examined)
    if nothing is not None:
        return nothing
    found = peers.classify_pairs(examined)
    pairs = found.granted
    if peers.is_for_own_modules(examined):
        pairs += (*found.refused, *found.undetermined)
    everything_is_refused = bool(found.refused) and not found.undetermined and not pairs
    if everything_is_refused and found.all_seen:
        summary = "the driver grants no peer access that a display could disturb"
        return Finding("skipped", summary)
    if pairs and all(pair.has_nvlink for pair in pairs) and not found.undetermined:
        summary = "peer access goes over NVLink, which a display does not disturb"
        return Finding("skipped", summary)
    by_address = {
        card.address: card
        for pair in pairs
        if not pair.has_nvlink
        for card in (pair.one, pair.other)
    }
    driving = [card for card in by_address.values() if card.smi and card.smi.display_active]
    if driving:
        return [_drives_a_display(examined, card) for card in driving]
    active = [None if card.smi is None else card.smi.display_active for card in examined.cards]
    if found.all_seen and active and all(one is False for one in active):
        return Finding("ok", "no card drives a display")
    return Finding("unknown", _unseen(found, active))


def _unseen(found: Grants, active: list[bool | None]) -> str:
    if True in active:
        return "a card drives a display, and the driver's grants to it are not known"
    if not found.all_seen:
        return "not every card was seen"
    return "whether a card drives a display was not collected"


def _drives_a_display(examined: Examined, card: Card) -> Finding:
    is_for_own = peers.is_for_own_modules(examined)
    has = "is to have" if is_for_own else "has"
    last = proof.last_proof(examined)
    return Finding(
        "fail" if is_for_own and not (last and last.holds) else "warn",
        f"a display is connected to a card that {has} peer access over PCIe",
        (Evidence(SMI.name, card.smi.line if card.smi else ""),),
        subject=card.subject,
        why="With drivers that were patched for peer access a display on such a card has broken "
        "the copies between cards; with others it costs memory and time.",
        fix=fix_by_hand(
            "put the monitor on the board's own graphics output, on a card that does not "
            "take part, or on none at all, and boot"
        ),
    )


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
