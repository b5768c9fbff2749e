"""The exact packages of proven drivers: which they are, and where they are stored."""
