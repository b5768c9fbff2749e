"""How a container gets its cards for good, by the versions of its engine and of the toolkit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.sections.container import SECTION as CONTAINER
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.snapshot import HostSnapshot

ADVISED: Final = "1.18.2"  # a toolkit without a report against it
TOOLKIT_PACKAGE: Final = "nvidia-container-toolkit-base"
LINKS: Final = "`nvidia-ctk system create-dev-char-symlinks --create-all` at each boot"

_NUMBERS: Final = re.compile(r"(?:[0-9]{1,4}:)?(?P<numbers>[0-9]{1,5}(?:\.[0-9]{1,5}){1,3})")
_DOCKER: Final = ("docker-ce", "docker.io", "moby-engine", "docker")
_JUST_IN_TIME: Final = (1, 18)  # of the toolkit: its runtime hands cards out by CDI
_MAPS_GPUS: Final = (29, 2)  # of Docker: --gpus means CDI
_KNOWS_CDI: Final = (25,)
_DROPS_DEVICES: Final = ((1, 1, 3), (1, 1, 6))  # of runc, without links in /dev/char


@dataclass(frozen=True)
class ContainerEngines:
    """Versions by package; empty: not known."""

    toolkit: tuple[int, ...]
    docker: tuple[int, ...]
    podman: tuple[int, ...]
    runc: tuple[int, ...]
    has_specification: bool

    def recreate(self, engine: str) -> str:
        """What to start the container with, so that systemd knows of its cards."""
        return f"recreate the container {self._cards(engine)}{self._links(engine)}"

    def _cards(self, engine: str) -> str:
        by_name = "`--device nvidia.com/gpu=all`"
        if engine == "podman":
            return f"with {by_name} and without a hook of NVIDIA's"
        if engine != "docker":
            return "so that its engine gives it the cards by CDI"
        if self.toolkit[:2] >= _JUST_IN_TIME:
            return "with `--runtime=nvidia` in place of `--gpus`"
        if self.docker[:2] >= _MAPS_GPUS and self.has_specification:
            return "as it is: this Docker hands out `--gpus` by the CDI specification"
        if self.docker and self.docker < _KNOWS_CDI:
            return (
                'after `"exec-opts": ["native.cgroupdriver=cgroupfs"]` in /etc/docker/daemon.json'
            )
        return f"with {by_name} in place of `--gpus`"

    def _links(self, engine: str) -> str:
        first, last = _DROPS_DEVICES
        if engine == "podman" or not first <= self.runc <= last:
            return ""
        version = ".".join(map(str, self.runc))
        return f"; runc {version} needs links in /dev/char besides: {LINKS}"


def container_engines(snapshot: HostSnapshot) -> ContainerEngines:
    found = snapshot[CONTAINER].or_empty
    return ContainerEngines(
        toolkit=numbers(found.toolkit or "") or _installed(snapshot, [TOOLKIT_PACKAGE]),
        docker=_installed(snapshot, _DOCKER),
        podman=_installed(snapshot, ["podman"]),
        runc=_installed(snapshot, ["runc"]),
        has_specification=bool(found.cdi),
    )


def numbers(version: str) -> tuple[int, ...]:
    """Of `5:29.2.0-1~debian` 29, 2 and 0."""
    shape = _NUMBERS.match(version)
    return tuple(map(int, shape["numbers"].split("."))) if shape else ()


def _installed(snapshot: HostSnapshot, names: Iterable[str]) -> tuple[int, ...]:
    packages = snapshot[PACKAGES].or_empty
    found = (packages.installed(name) for name in names)
    return next((numbers(one.version) for one in found if one), ())
