"""Main panel, and operators of objects."""
