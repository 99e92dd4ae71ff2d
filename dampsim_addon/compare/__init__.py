"""Other dials side by side: ghosts in the viewport, sweeps without a window."""
