"""Read-only snapshots of btrfs subvolumes, sent to another disk: snapshots."""

from rigops.concerns.deploying import deploy

deploy("snapshots")
