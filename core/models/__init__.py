"""Simulation models made from the artist's meshes."""
