"""Start of the simulation: meshes, curves, hair and fabrics."""
