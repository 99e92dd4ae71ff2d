"""Finite elements: strain measures, their derivatives, and assembly of nodal vectors and sparse matrices."""
