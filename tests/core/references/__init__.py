"""Reference implementations of the papers' formulas in plain numpy, element by element and node by node.

They are written from the papers alone and share no code with core, so that an error in one is not repeated in the
other. Tests compare the two. They are slow, dense and short. Equations are those of
docs/explanation/physics/index.md; the tags of papers are in docs/bibliography.md.
"""
