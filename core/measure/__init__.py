"""What can be measured of a simulation, and drawn of it."""
