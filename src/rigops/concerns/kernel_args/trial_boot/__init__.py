"""Trial boots: new kernel arguments in one extra entry that is started exactly once. Pure."""
