"""gpu_persistence, gpu_power_limit, gpu_clocks: settings of the cards that hold across reboots."""
