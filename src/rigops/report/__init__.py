"""Documents as text for people. Pure."""
