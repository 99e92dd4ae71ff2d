"""The papers' formulas once more, in plain numpy, element by element and node by node, from the papers alone.

Nothing here is shared with core, so that a fault in one is no fault in the other; tests compare the two. Slow, dense
and short. Equations are those of docs/explanation/physics/index.md; the tags of papers are in docs/bibliography.md.
"""
