"""Containers that should see the cards: does their runtime know the driver of today?"""

from __future__ import annotations

from typing import Final

from rigops.concerns.container_toolkit import NAME as TOOLKIT
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views.container_engines import ADVISED, container_engines
from rigops.doctor.views.driver_packages import not_read
from rigops.probe.sections.container import HOOK, Container
from rigops.probe.sections.container import SECTION as CONTAINER
from rigops.probe.sections.dev_nodes import SECTION as DEV_NODES
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.snapshot import HostSnapshot

_BY_HAND: Final = "/etc/cdi/"
_SCHEMA: Final = (0, 7)  # of CDI, which engines before these cannot read
_READS_SCHEMA: Final = {"docker": (26, 1), "podman": (5, 1)}
# The beginnings of nodes, and what /proc/devices calls their major.
_NAMES: Final = (
    ("/dev/nvidia-uvm", "nvidia-uvm"),
    ("/dev/nvidia-caps/", "nvidia-caps"),
)


@Check(
    "container",
    needs=(NVIDIA_VERSION, DEV_NODES, CONTAINER, PACKAGES),
    fixes=("hands", "apply"),
)
def container(examined: Examined) -> Finding:
    """Container runtimes know the loaded driver.

    Where Docker, podman or containerd is installed: a CDI specification that names a driver that is
    neither loaded nor on the disk, that has device numbers of an earlier load of the driver, or
    that names none and is older than the driver's libraries, is a warning; so is one in a schema
    that the engine is too old for, and the NVIDIA container toolkit that no runtime knows. A
    specification made by hand beside those of nvidia-cdi-refresh, and containers without the
    toolkit, are information.
    """
    snapshot = examined.snapshot
    found = snapshot[CONTAINER].value
    if found is None or found.engines is None:
        return Finding("unknown", not_read(snapshot[CONTAINER], "container runtimes"))
    if stale := _stale(snapshot, found) or _renumbered(snapshot, found):
        return stale
    if fault := _unreadable(snapshot, found) or _by_hand(found):
        return fault
    is_complete = snapshot[CONTAINER].is_exhaustive
    if not found.engines:
        return (
            Finding("skipped", "there is no container runtime")
            if is_complete
            else Finding("unknown", "container runtimes could not all be read")
        )
    return _equipped(found, is_complete=is_complete)


def _stale(snapshot: HostSnapshot, found: Container) -> Finding | None:
    """By the version that a specification names; by age only where it names none."""
    loaded = snapshot[NVIDIA_VERSION].value
    version = loaded.version if loaded else None
    on_disk = {one.path.partition("/libcuda.so.")[2] for one in found.libraries}
    fits = any(one.version == version or one.version in on_disk for one in found.named)
    if loaded and version and found.named and not fits:
        named = found.named[0]
        return _outdated(
            f"{named.spec} names driver {named.version}, and {version} is loaded",
            (Evidence(CONTAINER.name, named.line), Evidence(NVIDIA_VERSION.name, loaded.line)),
            found,
            named.spec,
        )
    newest = max(found.libraries, key=lambda one: one.epoch, default=None)
    if newest is None or found.named or not found.cdi:
        return None
    written = max(found.cdi, key=lambda one: one.epoch)
    if written.epoch >= newest.epoch:
        return None
    return _outdated(
        f"{written.path} is older than the driver's libraries",
        (Evidence(CONTAINER.name, written.line), Evidence(CONTAINER.name, newest.line)),
        found,
        written.path,
    )


def _renumbered(snapshot: HostSnapshot, found: Container) -> Finding | None:
    """The kernel gives nvidia-uvm and nvidia-caps another major at each load of the driver."""
    majors = snapshot[DEV_NODES].or_empty.majors
    for node in found.nodes:
        name = next((name for start, name in _NAMES if node.node.startswith(start)), "")
        now = majors.get(name)
        if now is not None and node.major != now:
            return _outdated(
                f"{node.spec} has {node.node} with major {node.major}, and it is {now}",
                (Evidence(CONTAINER.name, node.line),),
                found,
                node.spec,
            )
    return None


def _outdated(summary: str, evidence: tuple[Evidence, ...], found: Container, spec: str) -> Finding:
    return Finding(
        "warn",
        summary,
        evidence,
        why="A CDI specification lists the driver's files and devices one by one. After a change "
        "of the driver containers that use it do not start, or find no CUDA.",
        fix=fix_by_hand(_renewed(found, spec)),
    )


def _renewed(found: Container, spec: str) -> str:
    if not found.refresh:
        return f"`nvidia-ctk cdi generate --output={spec}`"
    aside = f"move {spec} away, and " if spec.startswith(_BY_HAND) else ""
    return f"{aside}`systemctl restart nvidia-cdi-refresh`"


def _unreadable(snapshot: HostSnapshot, found: Container) -> Finding | None:
    """An engine does not say so: it finds no device of that name."""
    newer = next((one for one in found.schemas if one.version >= _SCHEMA), None)
    engines = container_engines(snapshot)
    old = [
        f"{name} {'.'.join(map(str, version))}"
        for name, version, least in (
            ("Docker", engines.docker, _READS_SCHEMA["docker"]),
            ("podman", engines.podman, _READS_SCHEMA["podman"]),
        )
        if () < version < least
    ]
    if newer is None or not old:
        return None
    return Finding(
        "warn",
        f"{' and '.join(old)} cannot read {newer.spec}: its schema is too new",
        (Evidence(CONTAINER.name, newer.line),),
        why="Docker reads CDI schema 0.7.0 from 26.1 on, podman from 5.1 on. Older ones report an "
        "unresolvable device.",
        fix=Fix(
            kind="apply",
            concern=TOOLKIT,
            declare={TOOLKIT: ADVISED},
            text=f'declare "container_toolkit": "{ADVISED}", which writes an older schema, and '
            "generate the specification again",
        ),
    )


def _by_hand(found: Container) -> Finding | None:
    copies = [one for one in found.cdi or () if one.path.startswith(_BY_HAND)]
    if not copies or not found.refresh:
        return None
    return Finding(
        "info",
        f"{copies[0].path} was made by hand, and nvidia-cdi-refresh writes /var/run/cdi",
        (Evidence(CONTAINER.name, copies[0].line),),
        why="nvidia-cdi-refresh follows changes of the driver, and a copy does not. Engines use "
        "it silently where the fresh one is missing.",
        fix=fix_by_hand(f"move {copies[0].path} away"),
    )


def _equipped(found: Container, *, is_complete: bool) -> Finding:
    engines = " and ".join(sorted(found.engines or ()))
    if found.cdi or found.nvidia_runtimes:
        how = "a CDI specification" if found.cdi else "Docker's nvidia runtime"
        if not is_complete:
            return Finding("unknown", f"{engines} with {how}; not all of it was read")
        return Finding("ok", f"{engines}: containers can use the cards by {how}")
    if not is_complete or found.nvidia_runtimes is None or found.cdi is None:
        return Finding("unknown", f"how {engines} would give cards to containers was not read")
    if not found.tools:
        return Finding(
            "info",
            f"{engines} cannot give the cards to containers",
            why="The NVIDIA container toolkit is not installed. It is needed only for GPUs "
            "in containers.",
        )
    return _unknown_to(found, engines)


def _unknown_to(found: Container, engines: str) -> Finding:
    by_hook = "docker" in (found.engines or ()) and HOOK in found.tools
    return Finding(
        "info" if by_hook else "warn",
        f"the NVIDIA container toolkit is installed, and {engines} does not know it",
        (Evidence(CONTAINER.name, f"nvidia-ctk {found.toolkit or 'is installed'}"),),
        why="There is neither an nvidia runtime in Docker's configuration nor a CDI specification. "
        + (
            "Docker's own `--gpus` works without, until systemd reloads; `--runtime=nvidia` and "
            "CDI names do not."
            if by_hook
            else "Containers cannot use the cards."
        ),
        fix=fix_by_hand(
            "`nvidia-ctk runtime configure --runtime=docker`, and restart Docker"
            if "docker" in (found.engines or ())
            else "`systemctl enable --now --no-reload nvidia-cdi-refresh.path "
            "nvidia-cdi-refresh.service`; where this toolkit has no such units, `nvidia-ctk cdi "
            "generate --output=/etc/cdi/nvidia.yaml` after each change of the driver"
        ),
    )
