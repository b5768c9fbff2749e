"""Read-only snapshots of btrfs subvolumes: taken, pruned, sent to another disk, restored."""
