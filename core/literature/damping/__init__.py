"""Damping models from the literature; registry.py lists them."""
