"""Removal, measurement and groups of simulated objects."""
