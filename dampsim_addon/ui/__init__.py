"""Panels, buttons, and what is drawn over the viewport."""
