"""Methods of the literature: damping models, integrators, and reproduced experiments."""
