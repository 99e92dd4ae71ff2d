"""Search for gaits with many simulations side by side."""
