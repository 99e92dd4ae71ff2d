"""Kinds of bodies: what is built of an artist's object."""
