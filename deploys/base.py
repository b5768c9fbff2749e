"""What every rig needs before its GPUs: limits, nccl, notify."""

from rigops.concerns.deploying import deploy

deploy("base")
