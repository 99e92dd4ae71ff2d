"""What DampSim keeps with Blender's objects, and how they become the core's scene."""
