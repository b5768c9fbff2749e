"""Facts, a spec and the catalog into findings. Pure: a check reads no host and runs nothing."""
