"""driver_modules: kernel modules that the owner supplies, chosen at boot by a kernel argument."""

from __future__ import annotations

from typing import Final

from rigops.concerns.concern import Concern
from rigops.concerns.driver_modules import NAME
from rigops.inventory.spec.scalars import Key, text

DRIVER_MODULES: Final = Concern(
    name=NAME,
    keys=(
        Key(
            NAME,
            "a folder, a git checkout or a .tar.gz of kernel modules on this machine",
            text,
            ("open_gpu_kernel_modules", "driver_module"),
            stays_here=True,
        ),
    ),
)
