"""Meshes, lattices and embeddings."""
