"""Dampings that are potentials of a rate ([SRD], [You] 4.2), and the elements they are made of."""
