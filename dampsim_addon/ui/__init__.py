"""Panels, operators and viewport overlays."""
