"""Many shots, each in a Blender of its own. Nothing here needs Blender: what runs is its command line."""
