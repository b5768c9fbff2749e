"""Where the host's apt would take a stanza of sources from: a snapshot, if it knows of one."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase

from rigops.probe import reading
from rigops.probe.script import script
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

Uris = dict[str, tuple[str, ...]]  # by suite

_NAME: Final = "apt-snapshot"
_APT_S: Final = 60
_ROW = re.compile(r"(?P<uri>\S+) (?P<suite>\S+)")

# Which service has snapshots of a suite, apt knows from the suite's own Release file, from its
# configuration, or since it was built. Without ReleaseInfo it names what it never fetched too.
_ASK: Final = r"""
resolve() {
    scratch=$(mktemp -d /tmp/rigops-apt.XXXXXX) || return 0
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 143' HUP INT TERM
    number=0
    for stanza; do
        number=$((number + 1))
        printf '%s\n' "$stanza" >"$scratch/$number.sources"
        echo "== $number"
        # shellcheck disable=SC2016  # these are apt's
        apt-get -q -o Dir::Etc::sourcelist="$scratch/$number.sources" \
            -o Dir::Etc::sourceparts=/dev/null -o Debug::NoLocking=1 \
            -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
            -o APT::Get::IndexTargets::ReleaseInfo=0 \
            indextargets --format '$(REPO_URI) $(RELEASE)' 2>/dev/null | sort -u | hide
    done
    return 0
}
"""


def snapshot_section(stanzas: Sequence[str]) -> Section[tuple[Uris, ...]]:
    asked = shlex.join(("resolve", *stanzas))
    return Section(
        name=_NAME,
        snippet=f"{_ASK}if command -v apt-get >/dev/null; then\n{asked}\nfi\nexit 0\n",
        parse=parse,
        timeout_s=_APT_S,
        wants_root=True,
    )


def parse(text: str) -> tuple[Uris, ...]:
    return tuple(map(_of_stanza, blocks(text).values()))


def _of_stanza(text: str) -> Uris:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines(text):
        if row := _ROW.fullmatch(line.strip()):
            found[row["suite"]][row["uri"]] = None
    return {suite: tuple(uris) for suite, uris in found.items()}


class AptSnapshot(FactBase[tuple[Uris, ...]]):
    """For each of these stanzas the URIs that apt takes its suites from."""

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, stanzas: tuple[str, ...]
    ) -> StringCommand:
        return StringCommand("sh", "-c", QuoteString(script([snapshot_section(stanzas)])))

    def process(self, output: list[str]) -> tuple[Uris, ...]:
        bundle = reading.read("\n".join([*output, ""]).encode())
        collected = bundle.sections.get(_NAME) if bundle else None
        return parse(collected.text if collected else "")

    @staticmethod
    def default() -> tuple[Uris, ...]:
        return ()
