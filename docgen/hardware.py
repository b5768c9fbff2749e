"""The cards and drivers of the catalog, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from docgen.markdown import MADE, table
from rigops.catalog import load
from rigops.catalog.lookup import good_branches, has_ended
from rigops.catalog.model import ARCHITECTURES, EVERY_CARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.catalog import Catalog
    from rigops.catalog.model import Gpu

_HEAD: Final = """\
# Hardware: cards and their drivers

{made}

From the catalog of {as_of}, in which each value has its evidence: `rigops drivers --gpu NAME -v`
shows it. Your own file adds to it and overrides it ([how](../how-to/drivers.md)). rigops itself was
tried on few of these cards ([verified on](verified-on.md)).

- **power**: the default in watts, and the range of one real board. The values that `nvidia-smi`
  reports on your machine win.
- **peak**: millisecond peaks against the power limit, by which a power supply trips. Few cards were
  measured; others have the value of a similar one, and the evidence says so.
- **P2P**: what the stock driver grants between two such cards over PCIe, or over NVLink where that
  is named.
- **NVLink**: GB/s one way, all links together.
- **VRAM °C**: whether the driver reports the memory's temperature.
- **good**: driver branches that are known to be good for the card, the newest first; an ended one
  gets no fixes. `-`: no reports, or a caution; `rigops drivers --gpu NAME` has the details.
- **branches**: the oldest and the newest that drive the card.
"""
_P2P: Final = {
    "pcie": "yes",
    "nvlink": "NVLink",
    "nvlink-or-none": "bridge only",
    "none": "no",
    "unknown": "unknown",
}


def page() -> str:
    catalog = load()
    parts = [_HEAD.format(made=MADE, as_of=catalog.as_of)]
    for architecture in reversed(ARCHITECTURES):
        if cards := [one for one in catalog.gpus if one.architecture == architecture]:
            parts += [f"\n## {architecture}\n\n", _cards(catalog, cards), "\n", _reasons(cards)]
    return "".join([*parts, _drivers(catalog)])


def _cards(catalog: Catalog, cards: list[Gpu]) -> str:
    return table(
        ("card", "GiB", "power", "peak", "P2P", "NVLink", "VRAM °C", "good", "branches"),
        [
            (
                card.name,
                f"{card.memory_gib}",
                _power(card),
                f"{card.spike_factor:g}",
                _P2P[card.p2p],
                f"{card.nvlink_gb_per_s:g}" if card.nvlink_links else "-",
                "yes" if card.memory_temperature else "no",
                _good(catalog, card),
                f"{card.first_branch} to {card.last_branch}"
                if card.last_branch
                else f"{card.first_branch} on",
            )
            for card in cards
        ],
    )


def _power(card: Gpu) -> str:
    if not card.watts_max:
        return f"{card.watts_default}"
    return f"{card.watts_default} ({card.watts_min} to {card.watts_max})"


def _good(catalog: Catalog, card: Gpu) -> str:
    good = [
        f"{one.branch} (ended)" if has_ended(one, catalog.as_of) else one.branch
        for one in reversed(good_branches(catalog, (card,)))
    ]
    return ", ".join(good) or "-"


def _reasons(cards: list[Gpu]) -> str:
    """Why P2P is so, once for all cards of which it is the same."""
    found: dict[str, list[str]] = {}
    for card in cards:
        for reason in filter(None, (card.p2p_why, card.p2p_own)):
            found.setdefault(reason, []).append(card.name)
    return "".join(f"\n- {', '.join(names)}: {why}" for why, names in found.items()) + "\n"


def _drivers(catalog: Catalog) -> str:
    rows = [
        (
            one.branch,
            one.kind,
            one.end_of_life or "not known",
            one.cuda or "-",
            one.releases[-1].version if one.releases else "-",
            _span(one.architectures),
            _span(one.open_architectures),
        )
        for one in reversed(catalog.drivers)
    ]
    bad = "\n".join(_bad(catalog))
    head = ("branch", "kind", "support ends", "CUDA", "newest", "proprietary", "open modules")
    return f"""
## Drivers

`rigops drivers` says which to use, and why; `rigops drivers --gpu NAME` for one card.

{table(head, rows)}

Known to be bad:

{bad}
"""


def _bad(catalog: Catalog) -> Iterator[str]:
    for branch in reversed(catalog.drivers):
        for one in branch.verdicts:
            if one.status == "bad":
                cards = "every card" if EVERY_CARD in one.gpus else ", ".join(one.gpus)
                yield f"- {branch.branch} {one.versions} on {cards}: {one.why}".replace("  ", " ")


def _span(architectures: tuple[str, ...]) -> str:
    if not architectures:
        return "-"
    return f"{architectures[0]} to {architectures[-1]}"
