"""What plays hardware and driver inside a simulated rig; standard library only."""
