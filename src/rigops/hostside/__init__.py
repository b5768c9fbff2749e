"""Programs that run on hosts: each joined with what it shares into one text, before it is sent."""

from rigops.hostside.packing import Language, Packed, pack

__all__ = ["Language", "Packed", "pack"]
