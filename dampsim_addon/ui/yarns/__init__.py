"""Woven cloth."""
