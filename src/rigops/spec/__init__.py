"""Inventory data -> typed RigSpec, validated. Pure: no file is read and no host asked."""

from rigops.spec.keys import KEYS, RESERVED_PREFIXES
from rigops.spec.model import RigSpec
from rigops.spec.read import examine, read

__all__ = ["KEYS", "RESERVED_PREFIXES", "RigSpec", "examine", "read"]
