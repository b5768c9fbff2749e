"""The container toolkit in the declared version, from the host's own apt sources, and held.

No engine is restarted or configured: the engines start the toolkit's programs for each container.
"""

from __future__ import annotations

from pyinfra.context import host

from rigops.catalog import find_toolkit
from rigops.concerns.container_toolkit import NAME as CONCERN
from rigops.concerns.container_toolkit.offers import SECTION, Offers, build_of, why_none
from rigops.concerns.container_toolkit.state import PACKAGES, installed_build, judge_toolkit
from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.state import REFUSED, UNKNOWN
from rigops.facts.sections import GpuPackages, RigopsState, SectionFact
from rigops.packages.operations import held, packages
from rigops.packages.records import HOLDS_RECORD, WORK_RECORD
from rigops.plan.commands import blockers
from rigops.plan.context import headline, notice


class ToolkitOffers(SectionFact[Offers]):
    section = SECTION


def container_toolkit(*, declared: str | None) -> None:
    """Have this version, held. None: undeclared, the packages stay and are no longer held."""
    if declared is None:
        held(name="Holds", concern=CONCERN, names=(), declared=False)
        return
    found = host.get_fact(GpuPackages)
    holds = host.get_fact(RigopsState).records.get(HOLDS_RECORD)
    catalog = catalog_of(host)
    (state,) = judge_toolkit(declared, found, holds=holds, catalog=catalog)
    build = installed_build(declared, found)
    if state.status in {REFUSED, UNKNOWN}:
        blockers(name="Blockers", concern=CONCERN, reasons=(state.text,))
        return
    is_coming = build is None
    if is_coming:
        offers = host.get_fact(ToolkitOffers)
        build = build_of(declared, offers)
        if build is None:
            blockers(name="Blockers", concern=CONCERN, reasons=(why_none(declared, offers),))
            return
    if state.is_to_change:
        headline(host, CONCERN, f"container toolkit {state.now} -> {state.wanted}")
        if (known := find_toolkit(catalog, declared)) is not None:
            notice(host, CONCERN, f"container toolkit {declared}: {known.why}")
    # An earlier run may have been cut off in a trigger when all packages were there.
    if is_coming or WORK_RECORD in host.get_fact(RigopsState).records:
        packages(
            name="Packages of the container toolkit",
            concern=CONCERN,
            install=dict.fromkeys(PACKAGES, build),
            change_held=PACKAGES,
        )
    held(name="Holds", concern=CONCERN, names=PACKAGES)
