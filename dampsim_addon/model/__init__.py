"""Properties of the Blender objects, and registries of simulated objects, colliders, force fields and groups."""
