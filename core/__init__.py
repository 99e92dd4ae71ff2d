"""Simulation core of DampSim: numpy and scipy only, SI units, no Blender."""
