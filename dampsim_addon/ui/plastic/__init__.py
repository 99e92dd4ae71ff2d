"""Plasticity."""
