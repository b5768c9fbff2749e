"""What the programs of all engines share on a host: paths, mounts, subvolumes, output, one run."""
