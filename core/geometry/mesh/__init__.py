"""Surface meshes: topology, seams, orientation, subdivision, decimation and rigid motions."""
