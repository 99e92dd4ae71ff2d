"""DampSim's simulation core: numpy and scipy only, SI units, no Blender."""
