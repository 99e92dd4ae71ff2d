"""Simulated frames and their storage on disk."""
