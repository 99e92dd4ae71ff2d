"""DampSim's properties of Blender's objects, and the conversion of a Blender scene to a core scene."""
