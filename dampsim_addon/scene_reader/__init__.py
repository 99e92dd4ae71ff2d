"""Conversion of a Blender scene to a core scene."""
