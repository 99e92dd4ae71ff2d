"""Scenes and experiments of the literature, reproduced for validation."""
