"""Frames, and how they are kept on disk."""
