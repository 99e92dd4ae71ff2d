"""Fibres."""
