"""The kernel arguments of this rig: kernel_args."""

from rigops.concerns.deploying import deploy

deploy("kernel_args")
