"""Common parts of all engines' programs on a host: paths, mounts, subvolumes, output, one run."""
