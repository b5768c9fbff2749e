"""What real archives offer of the driver: see tests/fixtures/apt/archives."""

from __future__ import annotations

from functools import cache, cmp_to_key
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.concerns.nvidia_driver.resolver.offers import Offer, Offers, Origin, relations
from rigops.packages.dpkg import compare

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER: Final = Path(__file__).parents[4] / "fixtures/apt/archives"
_COLUMNS: Final = 4


def archive(*suites: str) -> Offers:
    """What a machine with these suites in its sources is offered."""
    return together(
        *(one for one in _every() if any(_suite(place) in suites for place in one.places))
    )


def together(*offers: Offer) -> Offers:
    return Offers(tuple(sorted(offers, key=cmp_to_key(_older_first))))


def offer(
    name: str,
    version: str,
    depends: str = "",
    provides: str = "",
    kernel: str = "",
    *,
    maker: str = "",
) -> Offer:
    return Offer(
        name=name,
        version=version,
        source=name,
        depends=relations(depends),
        provides=tuple(one for group in relations(provides) for one in group),
        newest_kernel=kernel,
        places=("made-up/main",),
        origins=(Origin("http://made-up.example", maker),) if maker else (),
    )


@cache
def _every() -> tuple[Offer, ...]:
    return tuple(one for path in sorted(_FOLDER.glob("*.txt")) for one in _read(path))


def _read(path: Path) -> Iterator[Offer]:
    source = version = ""
    maker = "Ubuntu" if path.stem.startswith(("noble", "jammy")) else "Debian"
    places: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            source, version, *places = line.split()
            continue
        columns = line.strip().replace("(=)", f"(= {version})").split("\t")
        name, depends, provides, kernel = [*columns, "", "", ""][:_COLUMNS]
        made = offer(name, version, depends, provides, kernel, maker=maker)
        yield Offer(**{**vars(made), "source": source, "places": tuple(places)})


def _suite(place: str) -> str:
    return place.partition("/")[0]


def _older_first(one: Offer, other: Offer) -> int:
    if one.name != other.name:
        return -1 if one.name < other.name else 1
    return compare(one.version, other.version)
