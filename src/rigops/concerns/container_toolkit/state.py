"""Whether the packages of the container toolkit are as declared. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.catalog import Catalog, find_toolkit
from rigops.catalog.model import ContainerToolkit
from rigops.concerns.container_toolkit import NAME
from rigops.concerns.state import AS_DECLARED, DIFFERS, LEFT_OVER, REFUSED, UNKNOWN, State, Status
from rigops.errors import RigopsError
from rigops.packages.dpkg import upstream
from rigops.packages.records import Holds

if TYPE_CHECKING:
    from rigops.probe.sections.packages import Package, Packages

CHECK: Final = "container.toolkit"
PACKAGES: Final = (
    "libnvidia-container-tools",
    "libnvidia-container1",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
)

_THING: Final = "container toolkit"


def judge_toolkit(
    declared: str | None, found: Packages, *, holds: str | None, catalog: Catalog
) -> list[State]:
    """`holds`: the record of holds."""
    there = [one for name in PACKAGES if (one := found.installed(name))]
    if declared is None:
        return _left_over(there, holds)
    wanted = f"{declared} (held)"
    status: Status = DIFFERS
    why = ""
    known = find_toolkit(catalog, declared)
    if known and known.status == "bad":
        status, why = REFUSED, _known_to_be_bad(known)
    elif not found.managers:
        status, why = UNKNOWN, "the installed packages could not be read"
    elif "dpkg" not in found.managers:
        status, why = REFUSED, _without_apt(found)
    elif installed_build(declared, found) and all(one.is_held for one in there):
        status = AS_DECLARED
    evidence = tuple(one.line for one in there if one.line)
    return [State(CHECK, "host", _THING, wanted, _now(there), status, why, evidence)]


def installed_build(declared: str, found: Packages) -> str | None:
    """The version of all of them as dpkg has it, where it is the declared one."""
    versions = [one.version for name in PACKAGES if (one := found.installed(name))]
    is_whole = len(versions) == len(PACKAGES) and len(set(versions)) == 1
    return versions[0] if is_whole and upstream(versions[0]) == declared else None


def _left_over(there: list[Package], holds: str | None) -> list[State]:
    try:
        names = Holds.parse(holds).names_for(NAME)
    except RigopsError:  # apply reports it
        return []
    evidence = tuple(one.line for one in there if one.name in names and one.line)
    state = State(CHECK, "host", _THING, "not held", "held", LEFT_OVER, evidence=evidence)
    return [state] if names else []


def _now(there: list[Package]) -> str:
    if not there:
        return "not installed"
    versions = dict.fromkeys(one.version for one in there)
    if len(versions) == 1:
        text = upstream(there[0].version)
    else:
        text = ", ".join(f"{one.name} {one.version}" for one in there)
    lacking = [name for name in PACKAGES if name not in {one.name for one in there}]
    if lacking:
        text += f" without {', '.join(lacking)}"
    is_held = all(one.is_held for one in there)
    return f"{text} ({'held' if is_held else 'not held'})"


def _known_to_be_bad(known: ContainerToolkit) -> str:
    evidence = "; ".join(map(str, known.evidence))
    return (
        f"container toolkit {known.version} is known to be bad: {known.why} [{evidence}]. "
        "fix: declare another version"
    )


def _without_apt(found: Packages) -> str:
    managers = ", ".join(sorted(found.managers))
    return (
        f"packages are installed with apt only, and this host has {managers}. "
        f"fix: install the toolkit there by hand, and take {NAME} out of its declaration"
    )
