"""One interface over the engines that keep copies of data: btrfs snapshots now, borg next."""
