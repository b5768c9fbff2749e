"""The owner's own kernel modules: built for each kernel, chosen at boot, the stock ones else."""

from typing import Final

NAME: Final = "driver_modules"
