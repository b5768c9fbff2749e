"""Facts, a spec and the catalogue into findings. Pure: a check reads no host and runs nothing."""
