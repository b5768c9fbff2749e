"""Facts of a host: one sh script, many sections, each with its own pure parser."""
