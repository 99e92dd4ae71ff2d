"""Simulation of a scene, frame by frame."""
