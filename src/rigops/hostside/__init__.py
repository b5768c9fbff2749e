"""Programs that run on hosts: each joined with what it shares into one text, before it is sent."""

from rigops.hostside.packing import FOLDER, MODE, Language, Packed, installed_at, pack

__all__ = ["FOLDER", "MODE", "Language", "Packed", "installed_at", "pack"]
