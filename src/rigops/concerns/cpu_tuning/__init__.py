"""cpu_max_freq, cpu_governor: how fast the processors may run."""
