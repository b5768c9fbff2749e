"""NVIDIA's driver versions: compared as numbers, printed as NVIDIA writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

EXAMPLES = "a version such as 535.54.03 or 570.144"

_SHAPE = re.compile(r"[1-9][0-9]{1,3}(\.[0-9]{1,3}){1,2}")


def parse(text: str) -> Version:
    """ValueError for what is not a version of NVIDIA's."""
    stripped = text.strip()
    if not _SHAPE.fullmatch(stripped):
        raise ValueError(f"{text!r} is not an NVIDIA driver version, which is {EXAMPLES}")
    return Version(stripped)


def spelled(version: Version | str) -> str:
    """Print a version as NVIDIA does: packaging alone would turn 535.54.03 into 535.54.3."""
    first, second, *rest = (parse(version) if isinstance(version, str) else version).release
    return ".".join([str(first), str(second), *(str(part).zfill(2) for part in rest)])


def is_spelled(text: str) -> bool:
    """Whether it is a version, written as NVIDIA does."""
    return bool(_SHAPE.fullmatch(text)) and spelled(text) == text


def branch_of(version: Version | str) -> str:
    return str((parse(version) if isinstance(version, str) else version).major)


def is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def matches(versions: str, version: Version) -> bool:
    return not versions or version in SpecifierSet(versions)


def nearest(version: Version | str, known: Iterable[str]) -> tuple[str, ...]:
    """The known neighbors below and above, or the version alone where it is known.

    Neighbors are of the same branch, unless nothing of that branch is known.
    """
    wanted = parse(version) if isinstance(version, str) else version
    candidates = sorted({parse(one) for one in known})
    candidates = [one for one in candidates if one.major == wanted.major] or candidates
    if wanted in candidates:
        return (spelled(wanted),)
    below = [one for one in candidates if one < wanted][-1:]
    above = [one for one in candidates if one > wanted][:1]
    return tuple(spelled(one) for one in below + above)
