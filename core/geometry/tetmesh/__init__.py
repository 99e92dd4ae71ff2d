"""Tetrahedralisation of closed surfaces, and the embedding of points in the tetrahedra."""
