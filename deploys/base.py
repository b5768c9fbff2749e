"""What every rig needs before its GPUs: limits, nccl."""

from rigops.concerns.deploying import deploy

deploy("base")
