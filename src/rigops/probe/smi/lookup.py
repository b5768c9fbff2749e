"""Values by the names that they have had in one driver or another."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rigops.probe.smi import values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rigops.probe.smi.said import Leaf

Value = TypeVar("Value")


class Values:
    """Leaves of one card or of the head. What is said but cannot be read is kept."""

    def __init__(self, leaves: Mapping[str, Leaf]) -> None:
        self._leaves = leaves
        self.unparsed: list[str] = []

    def get(self, reads: Callable[[str], Value | None], *paths: str) -> Value | None:
        """The first of these paths at which there is a value."""
        for path in paths:
            leaf = self._leaves.get(path)
            if leaf is None or values.is_absent(leaf.value) or values.is_trouble(leaf.value):
                continue
            value = reads(leaf.value)
            if value is not None:
                return value
            self.unparsed.append(leaf.line)
        return None

    def says(self, *paths: str) -> bool:
        return any(path in self._leaves for path in paths)

    def any(self, *paths: str) -> bool | None:
        found = [self.get(values.switch, path) for path in paths]
        known = [one for one in found if one is not None]
        return any(known) if known else None

    def sum(self, total: str, *parts: str) -> int | None:
        """The total, or what its parts come to; one in trouble or cut off may hide any number."""
        whole = self.get(values.count, total)
        if whole is not None:
            return whole
        found = [self.get(values.count, part) for part in parts]
        known = [one for one in found if one is not None]
        said = [self._leaves[part].value for part in parts if part in self._leaves]
        is_all = parts[-1] in self._leaves and not any(map(values.is_trouble, said))
        return sum(known) if any(known) or (known and is_all) else None
