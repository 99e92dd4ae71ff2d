"""Where surfaces touch: what meets, how hard it presses, and how it slides (docs/physics.md section 7)."""
