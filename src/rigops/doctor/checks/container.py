"""Containers that should see the cards: does their runtime know the driver of today?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views.driver_packages import not_read
from rigops.probe.sections.container import HOOK
from rigops.probe.sections.container import SECTION as CONTAINER
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.sections.container import Container
    from rigops.probe.snapshot import HostSnapshot


@Check("container", needs=(NVIDIA_VERSION, CONTAINER), fixes=("hands",))
def container(examined: Examined) -> Finding:
    """Container runtimes know the loaded driver.

    Where Docker, podman or containerd is installed: a CDI specification that names a driver that is
    neither loaded nor on the disk, or that names none and is older than the driver's libraries, is
    a warning; so is the NVIDIA container toolkit that no runtime knows. Containers without the
    toolkit are information.
    """
    snapshot = examined.snapshot
    found = snapshot[CONTAINER].value
    if found is None or found.engines is None:
        return Finding("unknown", not_read(snapshot[CONTAINER], "container runtimes"))
    if stale := _stale(snapshot, found):
        return stale
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
        written.path,
    )


def _outdated(summary: str, evidence: tuple[Evidence, ...], spec: str) -> Finding:
    return Finding(
        "warn",
        summary,
        evidence,
        why="A CDI specification lists the driver's files one by one. After a change of the driver "
        "containers that use it do not start, or find no CUDA.",
        fix=fix_by_hand(f"`nvidia-ctk cdi generate --output={spec}`"),
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
            "Docker's own `--gpus` works without; `--runtime=nvidia` and CDI names do not."
            if by_hook
            else "Containers cannot use the cards."
        ),
        fix=fix_by_hand(
            "`nvidia-ctk runtime configure --runtime=docker`, and restart Docker"
            if "docker" in (found.engines or ())
            else "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
        ),
    )
