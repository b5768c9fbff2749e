"""driver and its keys: the pinned NVIDIA driver."""
