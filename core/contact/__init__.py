"""Contact between surfaces: detection, penalty forces and friction (docs/explanation/physics/07-contact.md).

Penalty and friction are in penalty_and_friction.py, detection in collision_detection.py (points) and edge_contacts.py
(edges), exact intersection tests in intersections.py, the preconditioner in contact_preconditioner.py. Continuous
collision detection (CCD) of single primitives is in core/geometry.
"""
