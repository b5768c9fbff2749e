"""What the preflight program is made of."""
