"""Farm: bakes many shots, each in its own Blender process. This package does not need Blender's Python modules."""
