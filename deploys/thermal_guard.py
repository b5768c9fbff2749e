"""What happens when the GPUs get too hot: thermal_limit and what goes with it."""

from rigops.concerns.deploying import deploy

deploy("thermal_guard")
