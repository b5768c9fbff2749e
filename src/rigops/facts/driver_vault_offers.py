"""The kept packages as the resolver sees those of any source. Pure."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, Final

from rigops.driver.offers import Offer, Offers, relations
from rigops.driver.request import Refusal
from rigops.errors import RigopsError
from rigops.facts.dpkg_versions import compare
from rigops.probe.package_names import is_driver
from rigops.vault.index import TESTED, stanzas, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rigops.vault.directory import Directory

PLACE: Final = "vault"


def offers(*indexes: str, place: str = PLACE) -> Offers:
    """`place`: where somebody keeps them, as a person is told."""
    found = {
        (one.name, one.version): one
        for index in indexes
        for one in (_offer(record, place) for record in stanzas(index))
    }
    return _sorted(found.values())


def of_folder(own: Offers, directory: Directory) -> Offers | Refusal:
    """The drivers that lie there; other things come from the sources."""
    try:
        records = directory.records
    except RigopsError as error:
        cures = (one.cure for one in error.problems)
        return Refusal(str(error), "; ".join(filter(None, cures)))
    others = Offers(tuple(one for one in own.every if not is_driver(one.name)))
    there = offers(text_of(records), place=f"{directory.folder} on this machine")
    return joined(others, there)


def joined(own: Offers, kept: Offers) -> Offers:
    """Those of the machine's own sources, and of the kept ones what these do not have."""
    known = {(one.name, one.version) for one in own.every}
    more = (one for one in kept.every if (one.name, one.version) not in known)
    return _sorted((*own.every, *more))


def _sorted(found: Iterable[Offer]) -> Offers:
    by_version = cmp_to_key(compare)
    return Offers(tuple(sorted(found, key=lambda one: (one.name, by_version(one.version)))))


def _offer(record: Mapping[str, str], place: str) -> Offer:
    needs = (record.get("Pre-Depends", ""), record.get("Depends", ""))
    tested = TESTED.search(record.get("Description", ""))
    return Offer(
        name=record.get("Package", ""),
        version=record.get("Version", ""),
        source=(record.get("Source", "").split() or [record.get("Package", "")])[0],
        depends=tuple(one for field in needs for one in relations(field)),
        provides=tuple(one[0] for one in relations(record.get("Provides", ""))),
        newest_kernel=tested["release"] if tested else "",
        places=(place,),
    )
