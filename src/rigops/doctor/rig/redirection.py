"""Whether what one card sends to another is redirected on its way, and how bad that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.doctor.rig import pcie
from rigops.doctor.rig.peers import Pair, pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.check import Examined
    from rigops.doctor.finding import Status
    from rigops.doctor.rig.cards import Card
    from rigops.doctor.rig.pcie import Way
    from rigops.probe.sections.lspci import LspciFunction


@dataclass(frozen=True)
class Redirection:
    """No status where no port is seen to redirect; clear where every port is seen not to."""

    status: Status | None = None
    ports: tuple[str, ...] = ()
    is_clear: bool = False


def between_cards(examined: Examined) -> list[Redirection]:
    """One for each pair."""
    facts = examined.facts
    listed = pcie.by_address(facts)
    ways = {card.address: pcie.way_to(facts, card.address) for card in examined.cards}
    return [_of_pair(examined, pair, ways, listed) for pair in pairs(examined)]


def _of_pair(
    examined: Examined,
    pair: Pair,
    ways: Mapping[str, Way | None],
    listed: Mapping[str, LspciFunction],
) -> Redirection:
    one, other = ways[pair.one.address], ways[pair.other.address]
    if one is None or other is None:
        ports = _where_every_bridge_redirects(listed)
        return Redirection(_status(examined, pair, is_shared=False), ports) if ports else _UNKNOWN
    between = one.between(other)
    told = {port: pcie.redirects(listed.get(port)) for port in between}
    redirecting = tuple(port for port in between if told[port])
    if redirecting:
        is_shared = bool(one.shared_with(other))
        return Redirection(_status(examined, pair, is_shared=is_shared), redirecting)
    is_known = one.is_whole and other.is_whole and bool(between)
    return Redirection(is_clear=is_known and all(said is False for said in told.values()))


_UNKNOWN = Redirection()


def _where_every_bridge_redirects(listed: Mapping[str, LspciFunction]) -> tuple[str, ...]:
    """Which of them stand between the cards was not said, and then does not matter."""
    told = {
        one.address: said
        for one in listed.values()
        if one.is_bridge and (said := pcie.redirects(one)) is not None
    }
    return tuple(told) if told and all(told.values()) else ()


def _status(examined: Examined, pair: Pair, *, is_shared: bool) -> Status:
    """P2P of which nothing is known counts as granted below a shared switch.

    Between root ports Linux redirects whenever there is an IOMMU, and many boards copy well all the
    same: a failure only for cards that are made for it, or where P2P is declared.
    """
    if examined.spec.acs_redirect == "off":
        return "fail"
    if pair.is_granted is False or pair.has_nvlink:
        return "info"
    is_wanted = examined.spec.p2p == "required" or all(
        _is_made_for_p2p(card) for card in (pair.one, pair.other)
    )
    return "fail" if is_shared or is_wanted else "warn"


def _is_made_for_p2p(card: Card) -> bool:
    """By catalogue, else by name. A card that nobody could name counts as a GeForce."""
    if card.model is not None:
        return card.model.p2p == "pcie"
    product = card.lspci.product if card.lspci else None
    name = ((card.smi.name if card.smi else None) or product or "").removeprefix("NVIDIA ").strip()
    return bool(name) and not name.startswith(("GeForce", "Graphics Device"))
