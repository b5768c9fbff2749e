"""What was found, as text for people. Pure."""
