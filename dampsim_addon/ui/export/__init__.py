"""Export of baked objects."""
