"""Provisions and tunes multi-GPU machines."""

__version__ = "0.1.0"
