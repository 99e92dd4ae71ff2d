"""Access to Blender's own data: animation, modifiers, evaluated meshes, force fields and caches."""
