"""Reads an inventory exactly as pyinfra does, without importing pyinfra.

Groups, group data and host data are merged in pyinfra's order (a test compares the two). What
pyinfra would silently misread is an error here, and every value has its file and line.
"""

from rigops.inventory.load import load
from rigops.inventory.model import Inventory, InventoryHost, Placed

__all__ = ["Inventory", "InventoryHost", "Placed", "load"]
