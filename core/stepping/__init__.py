"""One substep: the law of the dials, the inertia and the minimisation."""
