"""Measurements of a simulation, and their charts."""
