"""The driver that apt would choose once rigops' pin and sources are gone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pyinfra.api.facts import FactBase

from rigops.catalog import versions
from rigops.concerns.nvidia_driver import NAME as CONCERN
from rigops.concerns.nvidia_driver.facts import machine
from rigops.concerns.nvidia_driver.pin import PREFERENCES
from rigops.concerns.nvidia_driver.resolver.fitness import bad
from rigops.facts.sections import section_command, section_value
from rigops.packages import sources
from rigops.plan.context import notice
from rigops.probe.package_names import RUN_FILE, driver_version
from rigops.probe.section import Section
from rigops.probe.text import lines

if TYPE_CHECKING:
    from pyinfra.api.command import StringCommand
    from pyinfra.api.host import Host

    from rigops.catalog.loader import Catalog
    from rigops.concerns.nvidia_driver.record import PinnedDriver

_APT_S: Final = 60
_ASK: Final = f"""
links() {{
    mkdir "$scratch/${{1##*/}}"
    for file in "$1"/*; do
        [ ! -f "$file" ] || [ "$file" = "$2" ] || ln -s "$file" "$scratch/${{1##*/}}/"
    done
}}
unpinned() {{
    scratch=$(mktemp -d /tmp/rigops-apt.XXXXXX) || return 0
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 143' HUP INT TERM
    links {PREFERENCES.rpartition("/")[0]} {PREFERENCES}
    links {sources.FILE.rpartition("/")[0]} {sources.FILE}
    apt-cache -o Dir::Etc::preferencesparts="$scratch/preferences.d" \\
        -o Dir::Etc::sourceparts="$scratch/sources.list.d" \\
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= policy "$@" 2>/dev/null |
        awk '/^[^ ]/ {{ name = $1; sub(/:$/, "", name) }} /^  Candidate:/ {{ print name " " $2 }}'
    return 0
}}
"""


def unpinned_section(names: Iterable[str]) -> Section[dict[str, str]]:
    asked = shlex.join(("unpinned", *sorted(names)))
    return Section(
        name="unpinned",
        snippet=f"{_ASK}if command -v apt-cache >/dev/null; then {asked}; fi\nreturn 0\n",
        parse=_parse,
        timeout_s=_APT_S,
    )


def _parse(text: str) -> dict[str, str]:
    rows = (line.split() for line in lines(text))
    return {row[0]: row[1] for row in rows if len(row) == 2}  # noqa: PLR2004 - name and version


class Unpinned(FactBase[dict[str, str]]):
    """Candidates of apt for these packages, by name, without rigops' files."""

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, names: tuple[str, ...]
    ) -> StringCommand:
        return section_command(unpinned_section(names))

    def process(self, output: list[str]) -> dict[str, str]:
        return section_value(unpinned_section(()), output)

    @staticmethod
    def default() -> dict[str, str]:
        return {}


def report_next_driver(host: Host, pinned: PinnedDriver, catalog: Catalog) -> None:
    """A notice of the version that an upgrade would bring in place of the pinned one."""
    names = tuple(sorted({*pinned.packages} - {RUN_FILE}))
    if not names:
        return
    found: dict[str, str] = host.get_fact(Unpinned, names=names)
    others = {
        version
        for name, candidate in found.items()
        if driver_version(pinned.packages.get(name, "")) == pinned.version
        and (version := driver_version(candidate)) not in {None, pinned.version}
    }
    if not others:
        return
    coming = max(filter(None, others), key=versions.parse)
    text = f"without the pin, apt would upgrade driver {pinned.version} to {coming}"
    if worst := bad(catalog, coming, machine(host, catalog).cards):
        first_sentence = worst.reason.partition(" [")[0].partition(". ")[0]
        text = f"{text}; {first_sentence} (reports: rigops drivers)"
    notice(host, CONCERN, text)
