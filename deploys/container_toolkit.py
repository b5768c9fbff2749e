"""NVIDIA's container toolkit, pinned: container_toolkit."""

from rigops.concerns.deploying import deploy

deploy("container_toolkit")
