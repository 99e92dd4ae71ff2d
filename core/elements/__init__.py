"""Elements of meshes: strains, their derivatives, and how parts are added up at the nodes."""
