"""Backups with borg, or the watch over those of another tool: borg."""

from rigops.concerns.deploying import deploy

deploy("borg")
