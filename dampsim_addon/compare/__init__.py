"""Comparison of parameter values: ghosts in the viewport and parameter sweeps on the command line."""
