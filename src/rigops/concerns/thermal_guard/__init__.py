"""thermal_limit and what goes with it: a service that acts on heat, and on lost sensors."""
