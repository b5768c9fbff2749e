"""The toy on the host of pyinfra's context."""

from rigops.concerns.deploying import deploy

deploy("toy")
