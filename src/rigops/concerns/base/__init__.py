"""limits, nccl, notify: what every rig needs before its GPUs."""
