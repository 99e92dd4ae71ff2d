"""The settle law: from Settle and Bounce to the coefficients of a substep."""
