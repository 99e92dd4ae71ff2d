"""Base classes of panels and operators."""
