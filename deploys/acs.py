"""What the ports between the GPUs do with peer traffic: acs_redirect."""

from rigops.concerns.deploying import deploy

deploy("acs")
