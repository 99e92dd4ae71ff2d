"""The objective of a substep: reference motion, inertia, potential, contact and sleep."""
