"""Page docs/papers.md: where each item of the sources is implemented, with the verdicts of the pages that measure it.

A row is: item | implementation or content | place | evidence, or – for none. Evidence, separated by semicolons, is a
link, or the page of a claim and the beginning of its text; the verdict and its link come from that page. Rows have no
measured numbers of their own, so that each number is in one place.
"""

from __future__ import annotations

import re

from .page import OUT, VERDICTS, table

PAGE = OUT.parent / "papers.md"
_INTRODUCTION = """# Where each paper is implemented

The tables list every equation, figure, table, claim and experiment of the sources. For each item, they give its place in the panel
(*Advanced*, under *Damping Model*), on the command line, in the core or on a page, or the reason why it is left out. The last column has
the verdict on the source's claim, and links to the page that measures it. Equations and methods without a claim are only tested. Generated
by `python run.py docs`.
"""
# Sections of the page: title, introduction, second and third heading, rows.
SOURCES: tuple[tuple[str, str, tuple[str, str], str], ...] = (
    (
        "[Sch] Optimized Damping for Dynamic Simulations",
        """The page is [schmedding.md](validation/schmedding.md). The implemented equations are in
[physics, section 3](explanation/physics/03-velocity-damping.md).""",
        ("implemented", "where"),
        """
(1), (3) equation of motion, damping as a separate force | yes | `core/literature/integrators/integrator.py`, `core/literature/damping/damping.py`
(2) point damping | yes, capped for light nodes | panel *Point*; `core/literature/damping/point.py` | schmedding: 1: point damping
2 spring damping along edges | yes | panel *Springs*; `core/literature/damping/spring.py` | schmedding: figure 1: springs do not affect; schmedding: figure 1: springs allow
2 its projection on the edge | yes, with the unit vector twice | panel *Springs*; without it *Springs, Unprojected*
2 by predicted velocities | yes, with explicit integrators; implicit ones have no predicted velocities before their minimisation | panel *Integrator*; `core/literature/integrators/explicit.py` | schmedding: 2: predicted velocities
2 by current velocities | yes; shown only with integrators for which it makes a difference | panel *Current Velocities*; `core/literature/damping/spring.py`
3 connectivity matrix E | yes, transposed | `core/literature/damping/spring.py`
(4), (5), (6) k sweeps | yes | panel *Sweeps*; `core/literature/damping/spring.py` | schmedding: 3.1: many iterations
Lemma 1: γ can be small enough | yes: γ_s from the largest eigenvalue | `core/literature/damping/spring.py` | schmedding: lemma 1
Theorem 1: sweeps converge to v_cm | yes, along three sets of edges | [picture](validation/sch_sweeps.svg); `tests/core/test_damping.py` | schmedding: lemma 1
(7) direct forces | yes | panel *Direct*; `core/literature/damping/direct.py` | schmedding: 3.2: (7) gives
(8) with γ | yes, with the factor mᵢ/h that is missing in print | panel *γ*; `core/literature/damping/direct.py` | schmedding: 1.1, 6: no overshoot
3.2 no connectivity needed | yes: for the body; (a) needs edges | `core/literature/damping/clusters.py` | schmedding: 3.2: the choice of edges
(9) torque, zero sum of forces | yes | `core/literature/damping/torque.py`; `tests/core/test_damping.py` | schmedding: 3.3: linear momentum; schmedding: 3.3: (a), (b) and (c)
3.3.1 (a) projection on distances | yes | panel *Torque*: *Along Edges* and *Along Edges, as Printed*; `core/literature/damping/torque.py`
(10) its factor | yes, as intended; the printed factor is the inverse | panel *Along Edges, as Printed* | schmedding: (10): the factor
3.3.2 (b) from the centre of mass | yes | panel *Along Radii*; `core/literature/damping/torque.py`
3.3.2 from any point Σ αᵢ xᵢ | yes: painted, with our additional factor that keeps the energy from growing | panel *Along Rays*, *Centre Group*; `core/literature/damping/torque.py`, `core/literature/damping/direct.py` | schmedding: 3.3.2: subtracting
(11), (12), (13), (14) (c) the linear programme | yes | panel *Linear Programme*; `core/literature/damping/torque.py` | schmedding: 4: both projections
3.4.1 global damping | yes | panel *Damping Clusters*: *Body*, *Pieces*; `core/literature/damping/clusters.py`
3.4.2 local damping, mᵢ/Nᵢ | yes: elements, and nodes with their neighbours | panel *Elements*, *Neighbours*; `core/literature/damping/clusters.py`
3.4.2, 5 global, then local, each with its own projection | yes | panel *Second Torque Scheme*; command line `direct:clusters=body_then_elements,torque=edges_printed,torque_then=radii`; `core/literature/damping/stages.py` | schmedding: 5: global, then local
4 local damping without projection | yes | panel *Torque*: *None* | schmedding: 4: local damping without
4 (7) is unconditionally stable | measured, a bar and slivers | `core/literature/papers/compare.py` | schmedding: 4: the damping (7)
4 (a) is local, (b) and (c) are global | measured, forces that turn one end | `core/literature/damping/torque.py` | schmedding: 4: (a) conserves
4 best scheme for each case | measured, for the body and for elements | panel *Torque*, *Damping Clusters* | schmedding: 4: for global damping; schmedding: 4: for local damping
4 projections on other forces: constraints, point damping | yes, for scripts; DampSim's own steps do not need them | `core/literature/damping/torque.py` | schmedding: 4: the projections work
1.1 for edges, surfaces, volumes | yes: solids and springs | panel *Kind*; `core/bodies/registry.py`
1.1 for meshless models | yes, for scripts: `nearest_clusters` and `damp_relative_velocities` damp a cloud of particles without edges. Blender's objects are meshes and curves, so the panel has no such kind | `core/literature/damping/clusters.py`, `core/literature/damping/direct.py`; `tests/core/test_damping.py`
1.1 with any integrator and elasticity | yes | panel *Integrator*, *Elasticity* | schmedding: abstract: works with
1.1, 6 larger steps | measured, on a bar, on slivers and in three scenes | command line `compare` | schmedding: abstract, 5: global (a); schmedding: the same for its single
1 badly shaped meshes | measured | command line `compare --scene slivers`; `core/literature/papers/compare.py` | schmedding: abstract, 1: damping
Figure 1: a sneaker on a spring dragger | yes, with a similar scene | `sample_blends/shoe.blend`, with *Settle* and *Bounce*; [picture](validation/sch_figure1.svg) with the paper's dampings; `core/literature/papers/schmedding_scenes.py`
Figure 2: a sphere on a membrane | yes, with a similar scene | `sample_blends/membrane.blend`, with *Settle* and *Bounce*; [picture](validation/sch_figure2.svg) with the paper's dampings; `core/literature/papers/schmedding_scenes.py` | schmedding: figure 2
Figure 3: bars on a rope bridge | yes, with a similar scene | [picture](validation/sch_figure3.svg); `core/literature/papers/schmedding_scenes.py` | schmedding: figure 3
5 collisions (Teschner 2003) | different method: closest triangles, CCD and edges; the scenes above use a separate penalty, with which the damping methods were compared | panel *Contact*; `core/contact/collision_detection.py`, `core/literature/papers/schmedding_scenes.py`
5 penetration depth (Heidelberger 2004) | yes, in the form of [MSS], for points that start deep inside or where *Exit Direction* selects it; otherwise the closest point | panel *Exit Direction*; `core/geometry/collision/penetration.py`, `core/contact/collision_detection.py`; (7.14) of [physics](explanation/physics/07-contact.md) | –
5 local constraints between meshes (Gissler 2006) | different method: soft and rigid links | panel *Links*; `core/system/links.py`
5 meshing (Spillmann 2006) | different method: a lattice fitted to the surface | panel *Resolution*; `core/geometry/tetmesh/tetrahedralise.py`
table | the paper has none | [schmedding.md](validation/schmedding.md) has DampSim's
""",
    ),
    (
        "[MSS] Slides about springs and point masses",
        """The page is [springs.md](validation/springs.md).""",
        ("implemented", "where"),
        """
explicit Euler step | yes | panel *Forward Euler*; `core/literature/integrators/explicit.py` | springs: [MSS]: explicit Euler as printed
stability depends on Δt and stiffness | measured: largest steps of six integrators at five damping ratios | [picture](validation/mss_limits.svg); `core/literature/papers/oscillator.py` | springs: [MSS]: explicit schemes; springs: [MSS]: all schemes
(1), (2) implicit Euler | yes, solved to a tolerance | panel *Backward Euler*; `core/literature/integrators/implicit.py` | springs: [MSS]: all schemes
(3), (4) one linear system | yes, about x + h v where the slides expand about x | panel *Backward Euler, One Iteration* | springs: [MSS] (1) to (4)
K, the tangent stiffness; A = M − Δt² K | yes, with the other sign of K | `core/materials/springs.py`, `core/objective/step_problem.py`
block of one spring | yes, corrected; the slides' block has a wrong term | `core/materials/strain_energy.py` | springs: [MSS]: K of a spring
assembly, the whole algorithm | yes | `core/materials/assembly.py`, `core/steppers/implicit.py`
iterative solver, warm start | different method: one factorisation and L-BFGS; iterations counted for comparison | `core/solvers/lbfgs.py` | springs: [MSS]: iterative solvers
advantages and disadvantages of both | measured: numerical damping, propagation of a force | `core/literature/papers/oscillator.py` | springs: [MSS]: implicit integration; springs: [MSS]: an explicit step
Figure: ẋ = −x, explicit and implicit jumps | yes | [picture](validation/mss_decay.svg), with [regions of stability](validation/mss_regions.svg) and [longest steps](validation/mss_limits.svg)
volume as tetrahedra, each edge a spring | yes | panel *Kind*: *Springs*, *Struts*: *Through the Volume*; `core/bodies/springs.py`
masses shared by the corners | yes | `core/materials/tetrahedra.py` | springs: [MSS]: each tetrahedron
points inside and around, Delaunay | different method: a lattice fitted to the surface | `core/geometry/tetmesh/tetrahedralise.py`
the surface in barycentric coordinates | yes | `core/geometry/tetmesh/embedding.py`
outer masses tied to walls | yes: weights of *Pins* below 1 are springs to the animation | panel *Pins*; `core/bodies/pins.py`
diagonal struts | yes | panel *Struts*: *Across Faces*; `core/bodies/springs.py`
collision by a 3D grid | different method: bounding-volume trees of triangles and of their swept volumes | `core/geometry/collision/proximity.py`, `core/geometry/collision/broad_phase.py`
naive penalty, tunnelling | penalties are minimised together with the step; CCD finds tunnelling within a step | `core/contact/penalty_and_friction.py`, `core/geometry/collision/ccd.py`
consistent penalty, phases 1 and 2: points inside, intersecting edges | yes | `core/geometry/collision/intersections.py`
phases 3 and 4: depths at the border, propagated inwards | yes, with squared distances and another denominator | `core/geometry/collision/penetration.py`, `core/contact/collision_detection.py` (*Depth: Consistent*); [physics, section 7](explanation/physics/07-contact.md) | –
example of a grid in a browser | a picture of another program; a net does the same | panel *Kind*: *Springs*
""",
    ),
    (
        "[Ctl] Creatures of springs and dampers",
        """""",
        ("implemented", "where"),
        """
forward Euler | yes | panel *Forward Euler*; `core/literature/integrators/explicit.py`
backward Euler by Baraff and Witkin's equation 6, LU | yes, symmetric and factorised | panel *Backward Euler, One Iteration*; `core/literature/integrators/implicit.py`
stiff systems, regions of absolute stability, A-stable methods | measured | [picture](validation/mss_regions.svg); `core/literature/papers/oscillator.py` | springs: [Ctl]: the step of a stiff; springs: [Ctl]: all implicit
implicit midpoint, trapezoidal rule | yes; Newmark with ¼ and ½ is the trapezoid | panel *Implicit Midpoint*, *Newmark* | integrators: [Ctl]: midpoint and trapezoid; integrators: [Ctl]: they need
stiff decay | measured, all implicit integrators | `core/literature/papers/oscillator.py` | springs: [Ctl]: midpoint and trapezoid
springs and dampers between point masses | yes; dampers by any *Damping Model* | panel *Kind*: *Springs*; `core/bodies/springs.py`
a damper constant for each spring | yes, in N s/m, beside the damping of the object; muscles have theirs per stiffness | panel *Damper Attribute*, *Muscles*: *Damping*; `core/system/spring_dampers.py`, `core/system/switched_springs.py`
binary sensors of a spring's length | yes, of one edge or several together | panel *Muscles*; `core/simulation/muscle_control.py`; [muscles.md](explanation/muscles.md)
another rest length, stiffness and damping while active | yes | panel *Muscles*: *Length*, *Stiffness On*, *Damping On*; `core/system/switched_springs.py`
weights, threshold, delay of the control | yes, with any threshold; keyframes force a muscle as well | panel *Muscles*: *Threshold*, *Delay*; `core/simulation/muscle_control.py`; rule in [muscles.md](explanation/muscles.md)
ground contact | yes: an infinite plane, or any mesh | panel *Add Floor*; `core/contact/collision_detection.py`
roughness by direction, its interpolation | yes; the front is an axis or painted, the roughness of the ground a number and a vertex group | panel *Front*, *Friction Backward*, *Roughness*, *Roughness Group*; `core/contact/collisions.py`; (7.7) of [physics](explanation/physics/07-contact.md) | –
Coulomb friction | yes, with sticking that does not creep | panel *Friction*; `core/contact/penalty_and_friction.py`
more sensors: contact, a target | yes; the project has none | panel *Muscles*: *Contact*, *Distance*; `core/simulation/muscle_control.py`
steps tied to the render time | yes: substeps of frames | panel *Substeps*; `core/settle/substeps.py`
a better interface | yes | `dampsim_addon/ui/main/panel.py`
pictures and numbers | the project gives none | [springs.md](validation/springs.md) has DampSim's
""",
    ),
    (
        "[You] Controllable, Non-Oscillatory Damping for Deformable Objects",
        """""",
        ("content", "where, or why not"),
        """
(1.1) | motion of a continuum | `core/objective/step_problem.py`: every step solves it for the nodes
(1.2) to (1.6) | damping forces by backward Euler | `core/objective/step_problem.py`, with C(x) in the step; panel: *Damping Model* with *Strain Rate*, *Rayleigh*, *Traditional*
(1.7) to (1.10) | the same as a minimum of kinetic energy and ½h Sᵀ A⁻¹ S over stress | `core/objective/step_problem.py` has the minimum over velocities, the dual problem, not over stress | young: The minimum of the modified energy; young: The minimum over stress of a free
1.1.1 mass-spring systems | nets of springs | panel: kind *Springs*; `core/bodies/springs.py`
1.1.1 springs that change their rest length (muscles) | actuation | panel *Muscles*; `core/system/switched_springs.py`; [muscles.md](explanation/muscles.md)
1.1.1 finite elements, Green strain | linear tetrahedra | panel: kind *Solid*; `core/materials/tetrahedra.py`
1.1.1 modal dynamics | damping mode by mode | no: bending along modes of the rest shape stretches a body, and the thesis names other limits; `core/solvers/modes.py` only measures them | young: DampSim leaves out
1.1.1 quasi-static methods | rest under all loads | panel: *Start at Rest*; `core/simulation/statics.py`
1.1.3 perception | studies of perceived realism | nothing to compute
(2.1) to (2.21) | a wave at minimal total energy; depends on Δt | [young_background](validation/young_background.md) | young: (2.1) to (2.47)
(2.22) to (2.27) | τ/Δt before potential energy | panel: *τ and κ* with κ = 0; `core/settle/law.py`; [young_background](validation/young_background.md) | young: τ only scales time; young: Rest does not depend
(2.28) to (2.30) | a damped mass on a spring | [young_background](validation/young_background.md) | young: (2.1) to (2.47)
figure 2.1 | under-, over- and critical damping | [picture](validation/you_figure_2_1.svg)
figure 2.2 (a), (b) | modes of over-damped systems | pictures [(a)](validation/you_figure_2_2a.svg) and [(b)](validation/you_figure_2_2b.svg)
(2.31) to (2.33) | all modes at once | [young_background](validation/young_background.md) | young: Every mode
(2.34) to (2.47) | diffusion of strain | [young_background](validation/young_background.md) | young: (2.1) to (2.47)
(2.48), (2.49) | diffusion in the plane | [young_background](validation/young_background.md) | young: The displacements of a plate
(2.50), (2.51) | wave equation compared with diffusion | [young_background](validation/young_background.md) | young: (2.1) to (2.47)
(3.1) to (3.6) | Green strain of triangles and tetrahedra | `core/materials/strains.py`
(3.7), (3.8) | steepest descent with halved steps | `core/literature/papers/stress_form.py`; increases its step in a different way, [physics, section 5](explanation/physics/05-stress-form.md) | –
(3.9) to (3.11) | modified energy of a stress | `core/literature/papers/stress_form.py` | young: The minimum of the modified energy; young: The minimum over stress of a free
(3.12) | forces of Cauchy's stress | `core/literature/papers/stress_form.py` has those of Green's strain, which span the same space, [physics, section 5](explanation/physics/05-stress-form.md) | –
(3.13) to (3.17) | potential energy | `core/materials/stvk.py`, panel: *Elasticity*; triangles: `core/materials/strain_energy.py`
(3.18), (3.19) | gradient by finite differences | not used: `core/literature/papers/stress_form.py` has the exact one | young: The minimum of the modified energy
(3.20) | update of positions | `core/literature/papers/stress_form.py` | young: Momentum is conserved
program 3.1 | the algorithm | `core/literature/papers/stress_form.py` | young: The minimum of the modified energy
4.1 a second run with τ from the rest time of the first | calibration | panel: *Calibrate*; `core/measure/calibrate.py` | young: τ controls
(4.1), (4.2) | d1 and d2 | command line: `python run.py compare`; `core/literature/papers/compare.py` | young: d1 and d2 are; young: In Example 2 d2
example 1, figure 4.1, table 4.1 (a) | trapezoid | `core/literature/papers/flat_scenes.py` | young: Example 1 rests
example 2, figure 4.2, table 4.1 (b) | annulus | `core/literature/papers/flat_scenes.py` | young: Example 2 rests; young: In Example 2 τ = 2
(4.3) to (4.9) | the traditional step | `core/literature/papers/traditional_step.py`; panel, with implicit integration: *Traditional* | young: The traditional step works
(4.10) to (4.24) | waves in a damped solid | [physics, section 4](explanation/physics/04-strain-rate-dissipation.md), with its misprints; their result below
(4.25) to (4.28) | viscosities that critically damp one wave | panel: *Traditional*, *Wavelength*; `core/literature/damping/traditional.py` | young: (4.25) and (4.28)
(4.29) to (4.38) | possible for ν ≥ 1/3 | rejected with an error below 1/3: `core/literature/damping/traditional.py` | young: (4.25) and (4.28)
table 4.2 | viscosities of both examples | `core/literature/damping/traditional.py` | young: Table 4.2
figure 4.3 (a), (b) | example 1, both methods | pictures of the [new](validation/you_example1.svg) and the [traditional method](validation/you_example1_traditional.svg) | young: In Example 1 the traditional
figure 4.4 (a), (b) | example 2, both methods | pictures of the [new](validation/you_example2.svg) and the [traditional method](validation/you_example2_traditional.svg) | young: In Example 2 the new; young: In Example 2 d2
4.3 comparison of methods | time to rest and swings of each | both examples of [young](validation/young.md) | young: In Example 1 the new; young: In Example 2 the new
(5.1), (5.2) | backward Euler as a minimum | `core/objective/step_problem.py`; [physics, section 1](explanation/physics/01-step-potential.md) | –
(5.3), (5.4) | κ, oscillation control | panel: *τ and κ* | young: (5.4) with
(5.5) | plasticity | yes, as a flow after each substep instead of a bound within it: panel *Plasticity*; `core/materials/plastic_flow.py`, [physics, section 9](explanation/physics/09-plasticity.md) | [plasticity](explanation/plasticity.md#accuracy)
5.1.3 contact, friction, fluids | other energies in the same minimum | contact and friction in this way: `core/contact/penalty_and_friction.py`, [physics, section 7](explanation/physics/07-contact.md); no fluids, because they have no fixed mesh
""",
    ),
    (
        "[SRD] Strain Rate Dissipation for Elastic Deformations",
        """""",
        ("content", "where, or why not"),
        """
figure 1 | yarn-level shirt of a million nodes | no: a step of that size takes too long, and yarns collide with colliders only (panel *Kind*: *Weave*) | srd: The shirts of; [times](explanation/woven-cloth.md#time)
(1) | good damping | [srd](validation/srd.md), the part of each damping force outside the strain's gradients | srd: Strain rate forces have no part
(2) | equation of motion with a dissipation potential | `core/literature/damping/damping.py`; every integrator accepts it
(3) | forces from a potential of the strain's rate | `core/literature/damping/dissipation.py` | srd: Strain rate forces have no part; srd: Strain rate forces do not act
(4), (5) | elastic energies and forces of a strain | `core/materials/strain_energy.py`
(6), (7) | dissipation by elements | `core/literature/damping/dissipation.py` | srd: Strain rate forces do not act
(8) | Jacobian with respect to velocities | `core/literature/damping/dissipation.py` | srd: (8) is symmetric
(9) | Jacobian with respect to positions, clamped and without its second part | `core/literature/damping/dissipation.py`; in a step: `core/literature/papers/rate_step.py` | srd: (9) is the derivative; srd: (9)'s first part
3.4 faster convergence, one iteration within 2% | claims about (9) | `core/literature/papers/rate_step.py` | srd: Clamped stress; srd: The changed Jacobian; srd: With one iteration, the changed Jacobian changes the kinetic energy by less than 2%, far less than the early exit does, 3.4: the spring; srd: With one iteration, the changed Jacobian changes the kinetic energy by less than 2%, far less than the early exit does, 3.4: the cloth
3.5 Baraff and Witkin's damping | quadratic potentials of constraints | `core/materials/strains.py` with `core/literature/damping/dissipation.py`; panel: *Strain Rate* on *Springs*
3.5 Rayleigh, D = αM + β ∂²V/∂x² | both terms | panel: *Rayleigh*, *Damping Ratio* and *α*; `core/literature/damping/rayleigh.py` | srd: Rayleigh damping is good
(10), (11) | tangent stiffness in Rayleigh's force | `core/literature/damping/rayleigh.py`: the positive part, and the whole for comparison | srd: Rayleigh's D
(12) | good Rayleigh damping | panel: *Strain Rate*, the default settings | srd: (12): without
3.6 and figure 2 | the spun spring, h = 0.01 and 0.1, one iteration | `core/literature/papers/flat_scenes.py`; [picture](validation/srd_spring.svg) | srd: The spun spring; srd: Rayleigh damping slows; srd: Symplectic Euler; srd: The numerical damping; srd: With Newmark and h; srd: One Newton iteration
(13), (14) | St. Venant–Kirchhoff | panel: *Elasticity*; `core/materials/stvk.py`
(15), (16) | λ_d and μ_d | panel: *Viscosity*: factors, or values in Pa s and N s/m; `core/literature/damping/strain_rate.py` | srd: λ_d and μ_d
(17) | rate of Green's strain | `core/materials/strains.py`
section 4, corotational strain | future work in the paper | panel: *Strain*: *Stretch*; `core/materials/strains.py` | srd: Corotational
section 7, nonlinear, anisotropic, heterogeneous potentials | future work in the paper | panel: *Anisotropy* and *Axis*, *Damping Group*; not nonlinear, because the paper gives no formula
(18) | forces of sliding coordinates, with the smearing part | panel *Kind*: *Weave*; `core/yarns/elements.py` and `core/yarns/energy.py`; [physics, section 10](explanation/physics/10-woven-cloth.md) | –
(19) | Jacobian with respect to positions, with sliding | not needed: damping is evaluated at the start of the step and has no such Jacobian; the paper drops the last part too | srd: The changed Jacobian
(20), (22), (23) | bending of rods, two strains | `core/materials/rod_strains.py`; panel *Kind*: *Rope*, and *Weave* with both of its rates | srd: (23); srd: Forces of a nearly straight rod
(21), (24) | their rates | `core/materials/rod_strains.py`, with the minus sign that is missing in print | srd: (21) and (24)
figure 3, left | hanging and swinging cloth, β = 0.15 | `core/literature/papers/flat_scenes.py`; pictures of [hanging](validation/srd_hang.svg) and [swinging](validation/srd_swing.svg); panel *Kind*: *Cloth* | srd: A hanging cloth; srd: A swinging cloth
5, friction and contact of yarns | persistent contacts that slide | `core/yarns/energy.py`; the force that pulls out a yarn is compared with Coulomb friction and drag | [pulls](explanation/woven-cloth.md#pulling-a-yarn-out)
figure 3, right | yarn-level patch, β_s and β_b | a patch of yarns with `core/yarns/energy.py`; one rod on [srd](validation/srd.md) | srd: β_s alone; [patch](explanation/woven-cloth.md#srd-figure-3-right)
figure 4 | shirts on a character, four settings | `sample_blends/shirt.blend`, with Settle and Bounce; folds of one patch with the paper's λ_d and μ_d; panel *Kind*: *Cloth*; not with yarns, for the reasons of figure 1 | srd: Less damping shows
section 6, StVK cloth with remeshing, adaptive time steps, a graphics card | platform of its shirts | no: bends are not refined, for measured reasons; steps are fractions of a frame; DampSim uses numpy, scipy and a small compiled kernel on the CPU | [refinement](explanation/solids-cloth-ropes.md)
section 6, an overhead of 2% through collisions | strain rate damping compared with Rayleigh damping | iterations and entries of the matrix are counted; `tests/benchmarks/rates.py` measures times | srd: Strain rate damping costs no more
""",
    ),
)
CLAIM = re.compile(r"(\w+): (.+)")


def rows(text: str) -> list[list[str]]:
    """Return the four cells of each row of a section."""
    return [[*line.split(" | "), "–"][:4] for line in text.strip().splitlines()]


def page_claims(page: str) -> dict[str, str]:
    """Return the verdict on each claim of a page of docs/validation, as it is published."""
    text = (OUT / f"{page}.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1].strip("*") for cells in lines if cells[1].strip("*") in VERDICTS}


def evidence_links(text: str) -> str:
    """Return the links of a row's evidence, each with its verdict, worst first. Raises KeyError for unknown claims."""
    links = []
    for part in text.split("; "):
        named = CLAIM.fullmatch(part)
        if named is None:
            links.append((len(VERDICTS), part))
            continue
        page, beginning = named.groups()
        verdicts = [verdict for claim, verdict in page_claims(page).items() if claim.startswith(beginning)]
        if len(verdicts) != 1:
            raise KeyError(f"{page}.md has {len(verdicts)} claims that begin with {beginning!r}")
        links.append((VERDICTS.index(verdicts[0]), f"[{verdicts[0]}](validation/{page}.md)"))
    return ", ".join(dict.fromkeys(link for _, link in sorted(links, key=lambda one: one[0])))


def papers_page() -> str:
    """Return the text of docs/papers.md. The pages with the claims must exist."""
    parts = [_INTRODUCTION]
    for title, introduction, heads, text in SOURCES:
        lines = [[*cells[:3], evidence_links(cells[3])] for cells in rows(text)]
        paragraph = f"{introduction}\n\n" if introduction else ""
        parts.append(f"## {title}\n\n{paragraph}{table(['item', *heads, 'measured'], lines)}")
    return "\n".join(parts)
