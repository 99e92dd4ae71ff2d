"""Meshes, tetrahedralisation, proximity queries, continuous collision detection (CCD) and rigid motions."""
