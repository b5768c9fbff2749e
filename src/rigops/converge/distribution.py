"""Hosts whose files another system generates, so that changes would be lost. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec
    from rigops.probe.sections.os_release import OsRelease


def blocker(system: OsRelease | None, spec: RigSpec) -> str | None:
    """Why nothing is changed there, with what a person can put in instead."""
    if system is None:
        return None
    arguments = spec.kernel_args or ()
    if system.id == "nixos":
        quoted = " ".join(f'"{one}"' for one in arguments)
        lines = [f"boot.kernelParams = [ {quoted} ];"] if arguments else []
        lines += ["hardware.nvidia.nvidiaPersistenced = true;"] if spec.gpu_persistence else []
        snippet = " ".join(lines) or "what you declare"
        return f"NixOS makes its files from its own configuration: put {snippet} there"
    if system.is_image:
        words = " ".join(f"--append-if-missing={one}" for one in arguments)
        snippet = f"`rpm-ostree kargs {words}`" if words else "rpm-ostree, layered packages"
        name = system.pretty_name or system.id
        return f"{name} is an image whose files are not edited: use {snippet}"
    return None
