"""Minimisers of the step's potential, their line search, preconditioners and factorisations."""
