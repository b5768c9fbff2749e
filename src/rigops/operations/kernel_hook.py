"""A host that says so when a new kernel was installed there without the pinned NVIDIA module."""

from __future__ import annotations

from typing import Final

from rigops.hostside.packing import MODE, installed_at
from rigops.operations.owned_files import owned_file, owned_program
from rigops.rendering import render

PROGRAM: Final = installed_at("kernel_hook")
# Before dkms in the order of run-parts: of hooks after one that fails, none is run.
HOOKS: Final = (
    "/etc/kernel/postinst.d/00-rigops-nvidia",
    "/etc/kernel/header_postinst.d/00-rigops-nvidia",
)


def kernel_hook(*, concern: str, wanted: bool) -> None:
    """Have every new kernel looked at. Else a ``taken_back`` of the concern ends it.

    What is pinned it reads from the driver's record, and it tells by the program of ``notify``.
    """
    if not wanted:
        return
    owned_program(name=PROGRAM, concern=concern, program="kernel_hook")
    content = render("kernel-hook.sh.j2", program=PROGRAM)
    for path in HOOKS:
        owned_file(name=path, concern=concern, path=path, content=content, mode=MODE)
