"""A host in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rigops.doctor import views
from rigops.doctor.views.cards import find_cards
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.os_release import SECTION as OS_RELEASE
from rigops.probe.sections.uname import SECTION as UNAME

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.probe.section import Section
    from rigops.probe.snapshot import HostSnapshot


SUMMARIZED: Final[tuple[Section[Any], ...]] = (OS_RELEASE, UNAME, NVIDIA_VERSION)


def summary(snapshot: HostSnapshot, catalog: Catalog) -> dict[str, object]:
    """None where it was not collected; `gpus` are those on the bus, whatever the driver says."""
    system = snapshot[OS_RELEASE].value
    return {
        "os": system and (system.pretty_name or system.id),
        "kernel": snapshot[UNAME].or_empty.release,
        "driver": snapshot[NVIDIA_VERSION].or_empty.version,
        "gpus": _gpus(snapshot, catalog),
    }


def _gpus(snapshot: HostSnapshot, catalog: Catalog) -> list[dict[str, object]] | None:
    if all(snapshot[section].value is None for section in views.NAMES_CARDS):
        return None
    return [
        {
            "address": card.address,
            "model": card.model.name if card.model else None,
            "name": card.name,
            "driver": card.function.driver if card.function else None,
        }
        for card in find_cards(snapshot, catalog)
    ]
