"""What the artist says: bodies, their parameters and motion, as plain arrays."""
