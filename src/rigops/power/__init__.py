"""How much power a rig may draw, and from where it gets it."""
