"""ACS: whether the ports between two cards send up what one card means for the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.doctor import rig
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Remedy, saying
from rigops.doctor.rig import board, pcie, redirection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.doctor.finding import Status
    from rigops.doctor.rig.redirection import Redirection

PATH = "acs.path"
SOURCE_VALIDATION = "acs.srcvalid"

_LSPCI = "lspci"
_PEERS = "nvidia-smi-p2p-read"
_SRC_VALID = "SrcValid"
_WHY = (
    "A port with ACS redirection does not let one card reach the other on the short way: it sends "
    "everything up to the CPU's root complex, where peer copies are slow, hang or get lost, while "
    "the driver says that P2P works. Linux sets these bits whenever an IOMMU is there, with "
    "iommu=pt too."
)
_HARMLESS = (
    "The bits are set, and there is nothing that they could redirect: without P2P over PCIe the "
    "cards talk through the host's memory or through NVLink."
)
_GRAVITY: Final[tuple[Status, ...]] = ("fail", "warn", "info")


def path(examined: Examined) -> list[Finding]:
    """Only what is not seen to be set, on every port between every two cards, is well."""
    nothing = _nothing_to_judge(examined)
    if nothing is not None:
        return [nothing]
    judged = redirection.between_cards(examined)
    redirected = [one for one in judged if one.status]
    if redirected:
        is_all_known = all(one.status or one.is_clear for one in judged)
        return [_redirecting(examined, redirected, is_all_known=is_all_known)]
    count = rig.gpu_count(examined)
    if count == len(examined.cards) and all(one.is_clear for one in judged):
        return [_all_clear(examined)]
    return [_path("unknown", _unreadable(examined))]


def _nothing_to_judge(examined: Examined) -> Finding | None:
    if rig.has_no_gpu(examined):
        return _path("skipped", "there is no NVIDIA GPU")
    if rig.gpu_count(examined) == 1:
        return _path("skipped", "the only card has no peer to talk to")
    if pcie.is_virtual_machine(examined.facts):
        return _path("unknown", "a virtual machine does not see the real ports: see acs.in_vm")
    if not pcie.by_address(examined.facts):
        return _path("unknown", _unreadable(examined))
    return None


def _path(
    status: Status,
    summary: str,
    evidence: Iterable[Evidence] = (),
    *,
    why: str = "",
    remedy: Remedy | None = None,
) -> Finding:
    return Finding(
        id=PATH,
        status=status,
        summary=summary,
        evidence=tuple(evidence),
        why=why,
        remedy=remedy,
    )


def _all_clear(examined: Examined) -> Finding:
    listed = pcie.by_address(examined.facts)
    acs = [one.acs for port in _ports_above(examined) if (one := listed.get(port))]
    summary = "no port between the cards redirects what they send to each other"
    return _path("ok", summary, [Evidence(_LSPCI, one.line) for one in acs if one])


def _redirecting(examined: Examined, found: list[Redirection], *, is_all_known: bool) -> Finding:
    status = min((one.status for one in found if one.status), key=_GRAVITY.index)
    if status == "info" and not is_all_known:
        return _path("unknown", _unreadable(examined))
    ports = _unique(port for one in found if one.status == status for port in one.ports)
    listed = pcie.by_address(examined.facts)
    told = [(listed[port].line, listed[port].acs) for port in ports]
    evidence = [
        Evidence(_LSPCI, said) for line, acs in told for said in (line, acs.line if acs else "")
    ]
    peers = examined.facts.nvidia_smi_p2p_read
    rows = [Evidence(_PEERS, row) for row in peers.rows] if peers else []
    verb = "port redirects" if len(ports) == 1 else "ports redirect"
    if status == "info":
        summary = f"{len(ports)} {verb}, and no P2P over PCIe is granted that could suffer from it"
        return _path(status, summary, [*evidence, *rows], why=_HARMLESS)
    summary = f"{len(ports)} {verb} what the cards send to each other: {', '.join(ports)}"
    return _path(status, summary, [*evidence, *rows], why=_WHY, remedy=_remedy(examined, ports))


def _remedy(examined: Examined, ports: tuple[str, ...]) -> Remedy:
    commands = "; ".join(f"setpci -s {port} ECAP_ACS+6.w=0:2c" for port in ports)
    return Remedy(
        kind="apply",
        concern="acs",
        declare={"acs_redirect": "off"},
        text="`rigops apply` clears the redirect bits of the ports between the cards, now and at "
        "every boot",
        by_hand=f"as root: {commands} (lost at the next boot; what stays is the kernel argument "
        f"pci=disable_acs_redir={';'.join(ports)}, in quotes for GRUB; or, on boards that let you, "
        f"{board.steps(examined, 'acs', turn='off')})",
    )


def _unreadable(examined: Examined) -> str:
    facts = examined.facts
    if _LSPCI in facts.timed_out:
        return "the ports could not be read: lspci did not answer in time"
    if facts.lspci is None:
        return "the ports could not be read: lspci was not collected"
    if not facts.lspci.functions:
        return "the ports could not be read: there is no lspci (package pciutils)"
    if _LSPCI in facts.without_root or any(one.unreadable for one in facts.lspci.functions):
        return "the ports could not be read: without root lspci does not show ACS"
    if not facts.is_whole(_LSPCI):
        return "the ports could not all be read: lspci's answer is cut off"
    return "what the ports between the cards redirect could not be read"


def source_validation(examined: Examined) -> list[Finding]:
    if rig.has_no_gpu(examined):
        return [_validation("skipped", "there is no NVIDIA GPU")]
    facts = examined.facts
    listed = pcie.by_address(facts)
    ports = _ports_above(examined)
    controls = [(port, one.acs) for port in ports if (one := listed.get(port)) and one.acs]
    only = [
        (port, acs)
        for port, acs in controls
        if _SRC_VALID in acs.enabled and not pcie.redirects(listed[port])
    ]
    if only:
        return [
            Finding(
                id=SOURCE_VALIDATION,
                status="info",
                summary=f"SrcValid is set on {', '.join(port for port, _ in only)}: harmless",
                evidence=tuple(Evidence(_LSPCI, acs.line) for _, acs in only),
                why="This bit only makes a port check who sends. What redirects peer traffic is "
                "ReqRedir, CmpltRedir and EgressCtrl.",
            )
        ]
    if not controls:
        return [_validation("unknown", _unreadable(examined))]
    return [_validation("ok", "no port above a card has SrcValid alone")]


_validation = saying(SOURCE_VALIDATION)


def _ports_above(examined: Examined) -> tuple[str, ...]:
    ways = [pcie.way_to(examined.facts, card.address) for card in examined.cards]
    return _unique(port for way in ways if way for port in way.ports)


def _unique(ports: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ports))


CHECKS = (
    Check(
        id=PATH,
        title="No port between two cards redirects what they send to each other",
        explanation=(
            "Reads ACSCtl (lspci, as root) of the ports between every two cards: below the switch "
            "that they share, or up to both root ports. ReqRedir, CmpltRedir and EgressCtrl must "
            "be off there: they send peer traffic up to the CPU, where it is slow, hangs or gets "
            "lost. It is a failure below a shared switch and wherever the driver grants P2P or the "
            "cards are made for it, a warning where nobody knows, and information where P2P over "
            "PCIe is refused or the cards have NVLink. A port that could not be read is unknown."
        ),
        run=path,
        keys=frozenset({"acs_redirect"}),
    ),
    Check(
        id=SOURCE_VALIDATION,
        title="SrcValid alone is no fault",
        explanation=(
            "Other tools flag every plus in ACSCtl. SrcValid makes a port check who sends and does "
            "not touch peer traffic, so rigs with it set work: it is only mentioned here. What "
            "counts is acs.path."
        ),
        run=source_validation,
    ),
)
