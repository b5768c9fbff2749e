"""The tree that a host declares, where its driver is declared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from rigops.concerns.driver_modules import NAME
from rigops.concerns.driver_modules.tree import Tree, read
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.errors import RigopsError

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec


def own_tree(spec: RigSpec) -> Tree | Blocker | None:
    """None: none is declared."""
    if spec.driver_modules is None:
        return None
    try:
        tree = read(spec.driver_modules)
    except RigopsError as error:
        return Blocker(f"{NAME}: {error}", error.fix)
    return _undeclared(spec, tree) or tree


def _undeclared(spec: RigSpec, tree: Tree) -> Blocker | None:
    """Why the declared driver is not that of the tree."""
    if spec.driver is None:
        return Blocker(
            f"{NAME} needs the driver of its version", f'declare "driver": "{tree.version}"'
        )
    if not spec.driver.versions.contains(Version(tree.version), prereleases=True):
        return Blocker(
            f'"driver": "{spec.driver.text}" excludes {tree.version}, which {tree.path} is of',
            f'declare "driver": "{tree.version}", or check out a tree of {spec.driver.text}',
        )
    if spec.driver_flavor == "proprietary":
        return Blocker(
            f'{NAME} are open kernel modules, and "driver_flavor" is "proprietary"',
            'leave driver_flavor out, or declare "open"',
        )
    return None
