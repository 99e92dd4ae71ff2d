"""Contact and colliders."""
