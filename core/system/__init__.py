"""System of equations: its constant data, its state and its inputs."""
