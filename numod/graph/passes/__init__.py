"""The optimisation passes over a recorded program."""
