"""The literature's scenes and experiments."""
