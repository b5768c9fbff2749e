"""Provisioning and tuning of small multi-GPU machines."""

__version__ = "0.1.0"
