"""Reads an inventory exactly as pyinfra does, without importing pyinfra.

Groups, group data and host data are merged in pyinfra's order (a test compares the two). What
pyinfra would silently misread is an error here, and every value has its file and line.
"""

from rigops.inventory.load import Inventory, InventoryHost, load

__all__ = ["Inventory", "InventoryHost", "load"]
