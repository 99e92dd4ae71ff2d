"""Compiled kernels of the most expensive loops, with numpy as fallback."""
