"""From a scene to its frames."""
