"""Force fields: the accelerations that Blender's effectors cause, computed from plain numbers."""
