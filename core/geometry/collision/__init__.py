"""Proximity queries, intersections and continuous collision detection (CCD)."""
