"""Kernel modules of the owner's own, chosen at boot: driver_modules."""

from rigops.concerns.deploying import deploy

deploy("driver_modules")
