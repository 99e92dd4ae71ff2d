"""One substep: the dials' law, the inertia, the minimisation."""
