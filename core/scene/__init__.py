"""Simulation input: bodies, their parameters and their animated motion, as plain arrays."""
