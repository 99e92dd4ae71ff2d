"""Bake, export and bake checks."""
