"""What DampSim knows of Blender's own data."""
