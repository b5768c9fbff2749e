"""ACS: whether the ports between two cards send up what one card means for the other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from rigops.concerns.acs import decide
from rigops.concerns.acs.concern import ACS
from rigops.concerns.acs.state import CHECK
from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.views import board, declared, pcie, peers, proof
from rigops.doctor.views.cards import lost_cards
from rigops.doctor.views.peers import Pair
from rigops.probe import pcie_routes
from rigops.probe.lost_cards import sentence
from rigops.probe.pcie_routes import Route
from rigops.probe.sections.firmware import SECTION as FIRMWARE
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.lspci import LspciFunction
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.probe.sections.pci import SECTION as PCI

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
_SLOWER = (
    "Copies between the cards may take the long way through the CPU, and be slower than they could "
    'be: `"acs_redirect": "off"` may mend that, and `rigops preflight` shows the rates.'
)
_GRAVITY: Final[tuple[Status, ...]] = ("fail", "warn", "info")


@Check(
    "acs.path",
    needs=(*decide.NEEDS, FIRMWARE, KERNEL_LOG, TOPOLOGY, P2P_READ, *proof.NEEDS),
    fixes=("apply", "hands"),
    keys=frozenset({"acs_redirect"}),
    cause_rank=130,
)
def path(examined: Examined) -> Finding:
    """No port between two cards redirects what they send to each other.

    Reads ACSCtl (lspci, as root) of the ports between every two cards: below the switch that they
    share, or up to both root ports. ReqRedir, CmpltRedir and EgressCtrl must be off there: they
    send peer traffic up to the CPU, where it is slow, hangs or gets lost. It is a failure below a
    shared switch and wherever the driver grants P2P or the cards are made for it, or `p2p` is
    required of `driver_modules`, a warning where that is unknown, and information where P2P over
    PCIe is refused, where the cards have NVLink, or where NVIDIA's driver offers none between such
    cards; so it is where preflight passed for the present state, unless `acs_redirect` is declared
    off. A port that could not be read is unknown. Where apply can clear nothing, as on a kernel
    that is locked down, a person has to. Bits that rigops has cleared, where `keep` is declared,
    are a warning: apply sets them again.
    """
    # It is ok only if the bits are seen clear on every port between every two cards.
    snapshot, count = examined.snapshot, views.gpu_count(examined)
    listed = snapshot[LSPCI].or_empty.by_address
    left = declared.judge(examined, ACS, CHECK) if examined.spec.acs_redirect == "keep" else None
    if (said := left or peers.no_pairs(examined)) is not None:
        return said
    if pcie.is_virtual_machine(snapshot):
        return Finding("unknown", "a virtual machine does not see the real ports: see acs.in_vm")
    if not listed:
        return Finding("unknown", _unreadable(examined))
    routes = {card.address: pcie_routes.route_to(snapshot, card.address) for card in examined.cards}
    redirects = {address: pcie_routes.redirects(one) for address, one in listed.items()}
    everywhere = _where_every_bridge_redirects(listed, redirects)
    judged = [
        _of_pair(examined, pair, routes, redirects, everywhere) for pair in peers.pairs(examined)
    ]
    redirected = [one for one in judged if one.status]
    if redirected:
        is_all_known = all(one.status or one.is_clear for one in judged)
        return _redirecting(examined, redirected, is_all_known=is_all_known)
    if count == len(examined.cards) and all(one.is_clear for one in judged):
        ports = [listed.get(port) for port in pcie.ports_above(snapshot, examined.cards)]
        return Finding(
            "ok",
            "no port between the cards redirects what they send to each other",
            tuple(Evidence(LSPCI.name, port.acs.line) for port in ports if port and port.acs),
        )
    return Finding("unknown", _unreadable(examined))


def _redirecting(examined: Examined, judged: list[Redirection], *, is_all_known: bool) -> Finding:
    status = min((one.status for one in judged if one.status), key=_GRAVITY.index)
    if status != "info" and (why := _not_read(examined)):
        return Finding("unknown", why)
    if status == "info" and not is_all_known:
        return Finding("unknown", _unreadable(examined))
    among = dict.fromkeys(one.ports for one in judged if one.status == status)
    ports = tuple(dict.fromkeys(chain.from_iterable(among)))
    listed = examined.snapshot[LSPCI].or_empty.by_address
    evidence = (
        *(
            Evidence(LSPCI.name, line)
            for port in (listed[address] for address in ports)
            for line in (port.line, port.acs.line if port.acs else "")
        ),
        *peers.rows(examined.snapshot),
    )
    verb = "port redirects" if len(ports) == 1 else "ports redirect"
    if status == "info":
        summary = f"{len(ports)} {verb}, and no P2P over PCIe is granted that could suffer from it"
        return Finding(status, summary, evidence, why=_HARMLESS)
    summary = f"{len(ports)} {verb} what the cards send to each other"
    found = Finding(status, summary, evidence, why=_WHY, fix=_fix(examined, ports))
    if examined.spec.acs_redirect == "off":
        return found
    return proof.outranked(examined, found, costs=_SLOWER)


def _not_read(examined: Examined) -> str:
    """Why it is not known what the redirection harms; empty: it is, or that is declared."""
    lost, spec = lost_cards(examined), examined.spec
    is_declared = spec.acs_redirect == "off" or spec.p2p == "required"
    if not lost or is_declared or any(one.is_granted is not None for one in peers.pairs(examined)):
        return ""
    return f"{sentence(lost.values())}: which cards have P2P or NVLink could not be read"


def _fix(examined: Examined, ports: tuple[str, ...]) -> Fix:
    if blocker := decide.blocker(examined.snapshot):
        return fix_by_hand(blocker)
    commands = "; ".join(f"setpci -s {port} ECAP_ACS+6.w=0:2c" for port in ports)
    return Fix(
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
    answer = examined.snapshot[LSPCI]
    if answer.timed_out:
        return "the ports could not be read: lspci did not answer in time"
    if answer.value is None:
        return "the ports could not be read: lspci was not collected"
    if not answer.value.functions:
        return "the ports could not be read: there is no lspci (package pciutils)"
    if answer.without_root or any(one.unreadable for one in answer.value.functions):
        return "the ports could not be read: without root lspci does not show ACS"
    if not answer.is_complete:
        return "the ports could not all be read: lspci's answer is incomplete"
    return "what the ports between the cards redirect could not be read"


@Check("acs.srcvalid", needs=(PCI, LSPCI))
def source_validation(examined: Examined) -> Finding:
    """SrcValid alone is not a fault.

    Other tools flag every plus in ACSCtl. SrcValid makes a port check the sender and does not touch
    peer traffic, so rigs with it set work: it is only mentioned here. acs.path decides.
    """
    snapshot = examined.snapshot
    listed = snapshot[LSPCI].or_empty.by_address
    ports = pcie.ports_above(snapshot, examined.cards)
    controls = [(port, one.acs) for port in ports if (one := listed.get(port)) and one.acs]
    only = [
        (port, acs)
        for port, acs in controls
        if "SrcValid" in acs.enabled and not pcie_routes.redirects(listed[port])
    ]
    if only:
        return Finding(
            "info",
            f"SrcValid is set on {', '.join(port for port, _ in only)}: harmless",
            tuple(Evidence(LSPCI.name, acs.line) for _, acs in only),
            why="This bit only makes a port check the sender. Peer traffic is redirected by "
            "ReqRedir, CmpltRedir and EgressCtrl.",
        )
    if not controls:
        return Finding("unknown", _unreadable(examined))
    return Finding("ok", "no port above a card has SrcValid alone")


@dataclass(frozen=True)
class Redirection:
    """No status where no port is seen to redirect; clear where every port is seen not to."""

    status: Status | None = None
    ports: tuple[str, ...] = ()
    is_clear: bool = False


def _of_pair(
    examined: Examined,
    pair: Pair,
    routes: Mapping[str, Route | None],
    redirects: Mapping[str, bool | None],
    everywhere: tuple[str, ...],
) -> Redirection:
    """`everywhere`: all bridges, where each redirects: then it matters not which are between."""
    one, other = routes[pair.one.address], routes[pair.other.address]
    if one is None or other is None:
        status = _status(examined, pair, is_shared=False) if everywhere else None
        return Redirection(status, everywhere)
    between = one.between(other)
    redirecting = tuple(port for port in between if redirects.get(port))
    if redirecting:
        is_shared = bool(one.shared_with(other))
        return Redirection(_status(examined, pair, is_shared=is_shared), redirecting)
    is_known = one.is_complete and other.is_complete and bool(between)
    return Redirection(is_clear=is_known and all(redirects.get(port) is False for port in between))


def _where_every_bridge_redirects(
    listed: Mapping[str, LspciFunction], redirects: Mapping[str, bool | None]
) -> tuple[str, ...]:
    bridges = [
        address
        for address, one in listed.items()
        if one.is_bridge and redirects[address] is not None
    ]
    return tuple(bridges) if all(redirects[address] for address in bridges) else ()


def _status(examined: Examined, pair: Pair, *, is_shared: bool) -> Status:
    """Unknown P2P counts as granted below a shared switch.

    Between root ports Linux redirects whenever there is an IOMMU, and many boards copy well all the
    same: a failure only for cards that are made for it, or where P2P is declared.
    """
    if examined.spec.acs_redirect == "off":
        return "fail"
    if pair.has_nvlink:
        return "info"
    if peers.is_for_own_modules(examined):
        return "fail"
    if pair.is_granted is False:
        return "info"
    is_required = examined.spec.p2p == "required"
    if pair.is_granted is None and not is_required and _has_none_to_lose(pair):
        return "info"
    is_wanted = is_required or all(_is_made_for_p2p(card) for card in (pair.one, pair.other))
    return "fail" if is_shared or is_wanted else "warn"


def _has_none_to_lose(pair: Pair) -> bool:
    """Cards between which NVIDIA's driver never offers P2P over PCIe, by catalog and chip."""
    models = (pair.one.model, pair.other.model)
    return peers.offers_none(pair) or any(
        model and model.p2p == "nvlink-or-none" for model in models
    )


def _is_made_for_p2p(card: Card) -> bool:
    """By catalog, else by name. A card without a name counts as a GeForce."""
    if card.model is not None:
        return card.model.p2p == "pcie"
    product = card.lspci.product if card.lspci else None
    name = ((card.smi.name if card.smi else None) or product or "").removeprefix("NVIDIA ").strip()
    return bool(name) and not name.startswith(("GeForce", "Graphics Device"))
