"""Muscles and walks."""
