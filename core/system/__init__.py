"""The constant part of a simulation, its state, and what moves it."""
