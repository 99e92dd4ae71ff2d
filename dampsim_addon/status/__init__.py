"""Information for the panel: changes since a bake, measurements, overlaps and results."""
