"""The pinned NVIDIA driver of this rig: driver and what belongs to it."""

from rigops.concerns.deploying import deploy

deploy("nvidia_driver")
