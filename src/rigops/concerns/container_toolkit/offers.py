"""The builds of the container toolkit in the host's own apt sources, and the choice of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cmp_to_key
from typing import Final

from rigops.concerns.container_toolkit.state import PACKAGES
from rigops.packages.dpkg import compare, upstream
from rigops.packages.request import few
from rigops.probe.section import Section
from rigops.probe.text import stripped

_UPDATE: Final = "sudo apt-get update"
_NO_SOURCE: Final = (
    "no apt source of this host has the NVIDIA container toolkit. fix: add NVIDIA's repository "
    f"libnvidia-container to its sources; then {_UPDATE}"
)
_SNIPPET: Final = f"""
if [ -s /var/lib/dpkg/status ] && command -v apt-cache >/dev/null; then
    apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \\
        madison {" ".join(PACKAGES)} 2>/dev/null |
        awk '$NF == "Packages" {{ print $1, $3 }}' | sort -u | head -n 2000
fi
return 0
"""
_WORDS: Final = 2  # of a line

Offers = Mapping[str, frozenset[str]]  # versions by package


def parse(text: str) -> Offers:
    found: dict[str, set[str]] = defaultdict(set)
    for line in stripped(text):
        words = line.split()
        if len(words) == _WORDS and words[0] in PACKAGES:
            found[words[0]].add(words[1])
    return {name: frozenset(versions) for name, versions in found.items()}


def build_of(declared: str, offers: Offers) -> str | None:
    """The newest one of this version that all packages have, as dpkg has it."""
    return next((one for one in _newest_first(offers) if upstream(one) == declared), None)


def why_none(declared: str, offers: Offers) -> str:
    known = list(dict.fromkeys(map(upstream, _newest_first(offers))))
    if not known:
        return _NO_SOURCE
    return (
        f"no apt source of this host has the container toolkit {declared}; they have {few(known)}. "
        f"fix: declare one of these, or try {_UPDATE}"
    )


def _newest_first(offers: Offers) -> list[str]:
    whole = frozenset.intersection(*(offers.get(name, frozenset()) for name in PACKAGES))
    return sorted(whole, key=cmp_to_key(compare), reverse=True)


SECTION: Final = Section(
    name="container-toolkit-offers",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=60,  # apt reads all its lists, on a slow machine too
    wants_root=True,
)
