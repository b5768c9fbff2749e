"""What a rig can be declared to be: a folder a concern."""
