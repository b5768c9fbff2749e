"""Inventory data -> typed RigSpec, validated. Pure: no file is read and no host asked."""

from rigops.inventory.spec.model import RigSpec
from rigops.inventory.spec.read import examine
from rigops.inventory.spec.scalars import Key

__all__ = ["Key", "RigSpec", "examine"]
