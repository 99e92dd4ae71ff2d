"""Minimisers of the step's potential."""
