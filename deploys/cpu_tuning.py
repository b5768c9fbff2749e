"""How fast the processors may run: cpu_max_freq, cpu_governor."""

from rigops.concerns.deploying import deploy

deploy("cpu_tuning")
