"""Who hears of what goes wrong without a person: notify, metrics."""

from rigops.concerns.deploying import deploy

deploy("monitoring")
