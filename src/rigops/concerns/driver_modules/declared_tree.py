"""The tree that a host declares, where its driver is declared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from rigops.concerns.driver_modules import NAME
from rigops.concerns.driver_modules.after_proof import StoredTree
from rigops.concerns.driver_modules.tree import Tree, read
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.errors import RigopsError
from rigops.plan.context import notice, provided

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.inventory.spec import RigSpec


def own_tree(host: Host, spec: RigSpec) -> Tree | Blocker | None:
    """None: none is declared. Where it is gone, that of the last proof is it, from the vault."""
    if spec.driver_modules is None:
        return None
    try:
        tree = read(spec.driver_modules)
    except RigopsError as error:
        stored = provided(host, StoredTree)
        found = stored.tree() if stored else None
        if found is None:
            return Blocker(f"{NAME}: {error}", error.fix)
        notice(host, NAME, f"{error}: the tree that was proven is taken from the vault")
        tree = found
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
