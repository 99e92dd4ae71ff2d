"""Dampings that act on velocities ([Sch]). See core/dampings.py for the list of all."""
