"""Force fields: what Blender's effectors do to a node, from plain numbers."""
