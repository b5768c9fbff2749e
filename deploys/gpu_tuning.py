"""What holds on the cards: gpu_persistence, gpu_power_limit, gpu_clocks."""

from rigops.concerns.deploying import deploy

deploy("gpu_tuning")
