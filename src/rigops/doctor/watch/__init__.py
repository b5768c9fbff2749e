"""What changes on the cards of a host while it is watched."""
