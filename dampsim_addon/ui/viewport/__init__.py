"""Viewport overlays."""
