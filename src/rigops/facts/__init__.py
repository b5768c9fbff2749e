"""What pyinfra deploys know about a host: each fact is one section of the probe."""
