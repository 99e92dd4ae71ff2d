"""Steppers: one substep of solids, sheets and woven cloth, and static equilibrium."""
