"""The dampings of the papers; registry.py lists them."""
