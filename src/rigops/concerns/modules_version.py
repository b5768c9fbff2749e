"""The version of the owner's own kernel modules, to which it binds the driver of a host."""

from __future__ import annotations

from rigops.dataclass import dataclass


@dataclass(frozen=True)
class ModulesVersion:
    """`text` is empty where they cannot be used, which driver_modules reports."""

    text: str
