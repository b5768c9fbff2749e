"""The proof of peer-to-peer between GPUs: running it on a host, and judging what it found."""
