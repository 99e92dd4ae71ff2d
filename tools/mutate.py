"""Test the tests: plant faults in a copy of core, one at a time, and report those that no test detects.

    python tools/mutate.py                     all faults; run it in an environment of the core's tests, .venv-core-…
    python tools/mutate.py torque waveform     only faults in files whose path contains one of these words
    python tools/mutate.py --named             only the faults written by hand
    python tools/mutate.py --list              list the faults without planting them
    python tools/mutate.py --page              plant all, and write docs/mutations.md
    python tools/mutate.py --page --unseen     the same, but run only faults that are new or were not detected last time
    python tools/mutate.py --page --known      write the page from the results of earlier runs
    python tools/mutate.py --jobs 2            number of parallel jobs

The checkout is not modified. NAMED are faults that an audit once found undetected, and faults of meaning that
exchanged operators do not reach. The others are drawn from the syntax tree with a fixed seed per file, so that an
edit changes only the draw of its own file. A fault counts as detected if a test fails or takes several times as long
as usual. Each fault is run against the tests that should detect it, the most specific first, without those marked
slow. An undetected fault needs a stronger test, or its reason in EXPLAINED.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "mutations.md"
# Results of the last run, for --unseen.
KEPT = ROOT / "out" / "mutations.json"
SEED = 2026
# Time limit of the tests: at least LEAST_TIME seconds, or PATIENCE times their time without a fault.
LEAST_TIME, PATIENCE = 60.0, 4.0


@dataclass(frozen=True)
class Fault:
    """A text replacement that breaks the code.

    file: path in the checkout.  old, new: text.  start: offset of old, or -1 if old occurs exactly once.
    name: description of a fault written by hand.
    """

    file: str
    old: str
    new: str
    name: str = ""
    start: int = -1

    def planted(self, source: str) -> str:
        """Return the source with the fault. Raise ValueError if the old text does not occur exactly once."""
        if self.start >= 0:
            assert source.startswith(self.old, self.start)
            return source[: self.start] + self.new + source[self.start + len(self.old) :]
        if source.count(self.old) != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {source.count(self.old)} times, expected 1.")
        return source.replace(self.old, self.new)

    def told(self, source: str) -> str:
        """Return the line before and after the change."""
        if self.start < 0:
            return f"{self.old.strip()} → {self.new.strip()}"
        line = source.count("\n", 0, self.start)
        before, after = source.splitlines()[line], self.planted(source).splitlines()[line]
        return f"{before.strip()} → {after.strip()}"


NAMED = (
    Fault(
        "core/literature/damping/torque.py", 
        "(damping_forces.forces[pairs[:, 0]] - damping_forces.forces[pairs[:, 1]])",
        "(damping_forces.forces[pairs[:, 0]] + damping_forces.forces[pairs[:, 1]])",
        "torque (a) by the sum of the ends' forces",
    ),
    Fault(
        "core/literature/damping/torque.py", "np.concatenate([np.zeros(3 * count), np.ones(3 * count)])",
        "np.concatenate([np.zeros(3 * count), np.linspace(1.0, 2.0, 3 * count)])", "torque (c) with another objective",
    ),
    Fault(
        "core/literature/damping/torque.py", "factor = np.clip(np.divide(-power, gain,",
        "factor = 0.5 * np.clip(np.divide(-power, gain,", "torque (a) with half of our factor",
    ),
    Fault(
        "core/literature/damping/velocity_dampings.py", '(start_velocities if dials["damp_current"] else predicted)',
        '(predicted if dials["damp_current"] else start_velocities)', "Current Velocities inverted",
    ),
    Fault(
        "core/literature/damping/damping.py", 
        "enumerate(kinds))", "enumerate(kinds[:1]))", "body, then elements: body alone",
    ),
    Fault(
        "core/literature/damping/velocity_dampings.py", "float(mass.mean())", "0.5 * float(mass.mean())",
        "point damping halved",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", "energy.hessian(positions, not self.use_exact_stiffness)",
        "energy.hessian(positions, False)", "Rayleigh not projected",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", 
        "rayleigh_beta(self.body) * self.body.stiffness_factor", "rayleigh_beta(self.body)",
        "Rayleigh without the dialled stiffness",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", "isotropic_moduli(phi, psi, 3)", "isotropic_moduli(psi, phi, 3)",
        "traditional viscosities swapped",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", 
        "isotropic_moduli(phi, psi, 3)", "isotropic_moduli(0.5 * phi, 0.5 * psi, 3)",
        "traditional viscosities halved",
    ),
    Fault(
        "core/literature/integrators/integrator.py", 
        "Stepper(system, take_newton_step, viscous_matrix)", "nonlinear",
        "one-iteration backward Euler solved to the end",
    ),
    Fault(
        "core/objective/inertia.py", " + (1.0 - phi) * (momenta @ (fields.T @ reference_impulse))", "",
        "Follow-through of the rigid part dropped",
    ),
    Fault(
        "core/settle/controls.py", "TARGET_PHASE = math.pi / 6.0", "TARGET_PHASE = math.pi / 5.0",
        "coarser substeps",
    ),
    Fault(
        "core/contact/penalty_and_friction.py", "return distances, self.contacts.friction * self.lagged_normal_force",
        "return distances, 0.5 * self.contacts.friction * self.lagged_normal_force", "friction halved",
    ),
    Fault(
        "core/geometry/collision/ccd.py", "weights[0] = 1.0 - weights[1] - weights[2]", "weights[0] = 1.0 - weights[1]",
        "wrong barycentric weights in CCD",
    ),
    Fault(
        "core/system/links.py", "self.stiffness * 0.5 * (abs", "self.stiffness * (abs", "painted links twice as stiff",
    ),
    Fault(
        "core/system/links.py", "np.where(self.is_rigid, self.stiffness * factors",
        "np.where(~self.is_rigid, self.stiffness * factors", "rigid and elastic links swapped",
    ),
    Fault(
        "core/settle/waveform.py", "np.cos(w * times) + a / w", "np.cos(w * times) - a / w",
        "settle curve out of phase",
    ),
    Fault(
        "core/materials/loads_and_springs.py", "factors[self.triangles].mean(axis=1)",
        "factors[self.triangles].max(axis=1)", "painted pressure by the largest corner",
    ),
    Fault(
        "core/materials/loads_and_springs.py", "blocks[:, j, :, i, :] -=", "blocks[:, j, :, i, :] +=",
        "pressure Hessian not symmetric",
    ),
    Fault(
        "core/frames/compression.py", "np.asarray(self.offset + np.tensordot", "np.asarray(np.tensordot",
        "compressed frames without their mean",
    ),
    Fault(
        "core/settle/law.py", "bool(np.all(self.kappa == 1.0) and", "bool(np.all(self.kappa == 1.0) or",
        "backward Euler assumed too often",
    ),
    Fault(
        "core/materials/fibres.py", "        return 1.0, max_compression", "        return 0.9, max_compression",
        "relaxed fibres shortened",
    ),
    Fault(
        "core/geometry/collision/penetration.py", "np.lexsort((found.parameter, found.segment))",
        "np.lexsort((-found.parameter, found.segment))", "consistent depth from the crossing nearest to the outer end",
    ),
    Fault(
        "core/simulation/muscle_control.py", "(POINT, *CORNER_KINDS)", "(POINT,)",
        "contact sensor without the contacts at corners",
    ),
    Fault(
        "core/simulation/muscle_control.py", "return now / max(rest, 1e-30)", "return now", "length sensor in metres",
    ),
    Fault(
        "core/simulation/muscle_control.py", "waited_ticks > delay", "waited_ticks >= delay",
        "muscles switch one tick early",
    ),
    Fault(
        "core/simulation/muscle_control.py", "np.where(is_on, sensor_sum < threshold",
        "np.where(is_on, sensor_sum <= threshold",
        "muscles let go at their threshold",
    ),
    Fault(
        "core/objective/weave_problem.py", "(self._h * forces - after * kept)[nodes])", "(-after * kept)[nodes])",
        "weight missing in the momenta of woven cloth",
    ),
    Fault(
        "core/objective/weave_problem.py", "= terms.predicted_velocity + sliding[region.free]",
        "= terms.predicted_velocity", "woven nodes predicted with the yarns' velocity",
    ),
    Fault(
        "core/literature/integrators/methods.py",
        "dynamics.with_pin_velocities(state.velocities + h * force / system.mass[:, None], inputs, h)",
        "state.velocities + h * force / system.mass[:, None]", "pins predicted as if they were free",
    ),
    Fault(
        "core/literature/damping/damping.py",
        "one.damp_velocities(positions[part], start_velocities[part], predicted[part], h)",
        "one.damp_velocities(positions[part], predicted[part], predicted[part], h)",
        "blocks get the predicted as the start velocities",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", "            scale = 0.0\n",
        "            scale = 1.0 * scale\n", "fibres damp despite values",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", "BendingRateDamping(energy, scale * body.stiffness_factor)",
        "BendingRateDamping(energy, scale)", "bending damping without stiffness factor",
    ),
    Fault(
        "core/yarns/energy.py", "(2.0 * bend * self._bend_stiffness / L)",
        "(bend * self._bend_stiffness / L)", "bending rate damping of yarns halved",
    ),
    Fault(
        "core/yarns/elements.py", "k * (a / y) ** 3",
        "k * (a / y) ** 2", "jam curvature by square",
    ),
    Fault(
        "core/yarns/woven_cloth.py", "/ segment_counts[:, None]",
        "/ (0.0 * segment_counts + 2.0)[:, None]", "yarn directions at ends halved",
    ),
    Fault(
        "core/gait/rollout_batch.py", "m.damping_on * m.stiffness_on / m.stiffness)",
        "m.damping_on)", "gait: damper on without stiffness",
    ),
    Fault(
        "core/contact/collisions.py", "forward * (1.0 + cosine) + backward * (1.0 - cosine)",
        "forward * (1.0 - cosine) + backward * (1.0 + cosine)", "friction forwards and backwards exchanged",
    ),
    Fault(
        "core/literature/damping/velocity_dampings.py", "            driving_velocities = damped\n",
        "            driving_velocities = driving_velocities\n", "every sweep uses the first velocities",
    ),
    Fault(
        "core/literature/damping/velocity_dampings.py", "weight = clusters.mass * painted[clusters.node_index]",
        "weight = painted[clusters.node_index] * 1.0", "ray origin without mass",
    ),
    Fault(
        "core/literature/damping/torque.py",
        "forces[clusters.node_index] * (clusters.mass / clusters.mesh.mass[clusters.node_index])[:, None]",
        "forces[clusters.node_index] * 1.0", "remove_torque gives each cluster the whole force",
    ),
    Fault(
        "core/literature/damping/torque.py", "_along_rays(damping_forces, origins), share)",
        "_along_rays(damping_forces, origins), clusters.mass_fractions)", "net force of rays by mass, not by weight",
    ),
    Fault(
        "core/literature/damping/clusters.py", "adjacency = mesh.adjacency + eye(len(mesh.mass))",
        "adjacency = mesh.adjacency + 0.0 * eye(len(mesh.mass))", "rings without their node",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", '"XYZ".index',
        '"YXZ".index', "axis of anisotropy permuted",
    ),
    Fault(
        "core/literature/integrators/methods.py", "2.0 * middle - velocities, inputs",
        "2.0 * middle - state.velocities, inputs", "midpoint reflects undamped velocities",
    ),
    Fault(
        "core/literature/integrators/methods.py", "replace(one, start=0.5 * (one.start + one.end))",
        "replace(one, start=one.start)", "Newmark pins start at the start",
    ),
    Fault(
        "core/literature/integrators/integrator.py", "start_inputs = tuple(one.at_start() for one in inputs)",
        "start_inputs = tuple(inputs)", "start force with the pins' end",
    ),
    Fault(
        "core/yarns/energy.py", "line * mean, -line * mean]",
        "0.0 * mean, -0.0 * mean]", "yarn does not fall when it slides",
    ),
    Fault(
        "core/yarns/woven_cloth.py", "[yarn.closed or 0 < at < k - 1 for at in range(k)]",
        "[0 < at < k - 1 for at in range(k)]", "closed yarns do not slide at their seam",
    ),
    Fault(
        "core/materials/plastic_flow.py", "self._limit_strain(factors @ flow[flowing]",
        "self._limit_strain(flow[flowing] @ factors", "plastic flow applied on the wrong side",
    ),
    Fault(
        "core/simulation/muscle_control.py", "count = np.where(is_auto, count, 0.0)",
        "count = np.where(is_auto, count, count)", "released muscle keeps its count",
    ),
    Fault(
        "core/scene/muscles.py", "one.delay * fps / one.fps",
        "one.delay * one.fps / fps", "delay scaled by the inverse frame rate",
    ),
    Fault(
        "core/system/switched_springs.py", "self.stiffness_ratios * self.damping_times[:, 1]",
        "self.damping_times[:, 1]", "damper of an active muscle without its stiffness",
    ),
    Fault(
        "core/bodies/muscle_springs.py", 'order = np.argsort(body.dampers, kind="stable")',
        'order = np.argsort(-body.dampers, kind="stable")', "weakest of coincident dampers",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", "(self.exponent - 2.0) / (self.reference_power * growth)",
        "self.exponent / (self.reference_power * growth)", "tangent of the power law with its whole exponent",
    ),
    Fault(
        "core/literature/damping/viscous_dampings.py", "linear * (growth ** (0.5 * self.exponent - 1.0)",
        "linear * (growth ** (self.exponent - 1.0)", "power law with twice its exponent",
    ),
    Fault(
        "core/literature/papers/schmedding_scenes.py", "np.where(scene.block.is_fixed, 0.0, 1.0 / scene.block.mass)",
        "1.0 / scene.block.mass", "joints move fixed nodes",
    ),
    Fault(
        "core/literature/papers/schmedding_scenes.py", "h * (predicted[first] - predicted[second])",
        "0.0 * (predicted[first] - predicted[second])", "joints without the predicted velocities",
    ),
)  # fmt: skip

# Number of faults drawn per file, and the tests that should detect them, the most specific first.
DRAWN: dict[str, tuple[int, str]] = {
    "core/contact/penalty_and_friction.py": (4, "contact_energy contact_invariance batched_detection"),
    "core/geometry/collision/ccd.py": (3, "ccd box_tree"),
    "core/materials/loads_and_springs.py": (2, "reference_elastic energies force_terms springs"),
    "core/settle/law.py": (0, "reference_laws"),
    "core/literature/damping/torque.py": (8, "damping reference_velocities"),
    "core/literature/damping/clusters.py": (3, "reference_velocities damping"),
    "core/literature/damping/damping.py": (4, "reference_rates reference_velocities damping combinations"),
    "core/literature/damping/velocity_dampings.py": (8, "reference_velocities damping"),
    "core/literature/damping/viscous_dampings.py": (11, "reference_rates dissipation"),
    "core/materials/assembly.py": (2, "reference_elastic reference_rates dissipation energies"),
    "core/materials/rod_bending.py": (4, "reference_rates reference_elastic dissipation"),
    "core/materials/strains.py": (6, "reference_rates reference_elastic dissipation"),
    "core/materials/elastic_density.py": (8, "reference_elastic energies"),
    "core/materials/strain_energy.py": (3, "reference_elastic dissipation energies"),
    "core/materials/tetrahedra.py": (3, "reference_elastic energies"),
    "core/frames/compression.py": (3, "compression cache"),
    "dampsim_addon/jobs/export/check.py": (2, "reference_geometry"),
    "core/geometry/tetmesh/embedding.py": (3, "reference_geometry tetrahedralise body_types"),
    "core/geometry/mesh/rigid_motion.py": (4, "reference_laws reference_geometry step free_bodies"),
    "core/geometry/mesh/surface.py": (2, "reference_geometry tetrahedralise body_types springs"),
    "core/geometry/tetmesh/winding_number.py": (3, "reference_geometry tetrahedralise body_types"),
    "core/literature/integrators/methods.py": (6, "reference_steps integrators combinations"),
    "core/literature/integrators/integrator.py": (2, "reference_steps integrators links"),
    "core/literature/papers/flat_scenes.py": (2, "reference_elastic stress_form integrators"),
    "core/literature/papers/stress_form.py": (2, "stress_form"),
    "core/solvers/factorisation.py": (2, "reference_solvers step"),
    "core/solvers/line_search.py": (2, "reference_solvers step integrators"),
    "core/solvers/modes.py": (3, "reference_solvers springs step dissipation shot"),
    "core/solvers/newton.py": (2, "reference_solvers step integrators force_terms"),
    "core/objective/reference_motion.py": (2, "reference_laws step waveform links"),
    "core/settle/first_mode.py": (3, "reference_laws settle"),
    "core/objective/rigid_prediction.py": (3, "reference_laws step free_bodies waveform"),
    "core/settle/geometric_stiffness.py": (2, "reference_laws springs shot"),
    "core/objective/inertia.py": (4, "reference_laws step free_bodies waveform"),
    "core/objective/step_potential.py": (3, "reference_potentials reference_laws step"),
    "core/objective/step_problem.py": (4, "reference_laws reference_steps step waveform"),
    "core/settle/controls.py": (2, "reference_laws settle"),
    "core/settle/waveform.py": (6, "reference_laws settle"),
    "core/system/inputs.py": (1, "reference_steps step force_terms"),
    "core/system/links.py": (4, "reference_elastic links link_energy"),
    "core/system/system.py": (2, "reference_potentials reference_steps links step"),
    "core/materials/fibres.py": (9, "energies fibres"),
    "core/system/material_terms.py": (3, "fibres reference_plastic plastic"),
    "core/simulation/simulation.py": (9, "fibres"),
    "core/bodies/fibres.py": (6, "fibres"),
    "core/geometry/collision/penetration.py": (5, "penetration"),
    "core/geometry/collision/intersections.py": (5, "intersections move_out penetration"),
    "core/contact/contact_hysteresis.py": (2, "contact_hysteresis contact"),
    "core/materials/plastic_flow.py": (7, "reference_plastic plastic"),
    "core/scene/muscles.py": (1, "muscles gait_search"),
    "core/simulation/muscle_control.py": (6, "muscles"),
    "core/system/switched_springs.py": (3, "muscles"),
    "core/objective/weave_problem.py": (6, "reference_yarns weave weave_contact"),
    "core/objective/step_objective.py": (2, "reference_yarns weave weave_contact"),
    "core/yarns/elements.py": (5, "reference_yarns weave"),
    "core/yarns/energy.py": (5, "reference_yarns weave"),
    "core/yarns/woven_cloth.py": (4, "weave reference_yarns"),
    "core/yarns/yarns.py": (2, "weave"),
    "core/system/weave_term.py": (1, "reference_yarns weave"),
    "core/contact/contact_model.py": (2, "edge_pairs contact_detection contact_energy contact_invariance contact"),
    "core/contact/collisions.py": (2, "contact_coefficients contact_detection woven_bodies"),
    "core/contact/contact_history.py": (2, "contact_detection contact_coefficients contact_hysteresis"),
    "core/contact/edge_contacts.py": (2, "contact_detection contact_folds edge_pairs"),
    "core/contact_response/impacts.py": (2, "contact_energy contact_invariance contact"),
    "core/objective/plastic_update.py": (2, "plastic"),
    "core/simulation/plastic_rest_shapes.py": (2, "reference_plastic plastic"),
    "core/gait/rollout_batch.py": (3, "gait_search"),
    "core/gait/gait_search.py": (1, "gait_search"),
    "core/bodies/muscle_springs.py": (1, "volume_muscles muscles"),
    "core/literature/papers/oscillator.py": (2, "papers"),
    "core/literature/papers/rate_step.py": (4, "dissipation stress_form"),
    "core/literature/papers/schmedding_scenes.py": (2, "papers"),
    "core/bodies/springs.py": (2, "springs body_types"),
    "core/measure/calibrate.py": (1, "reference_measures shot"),
    "core/measure/release.py": (2, "reference_measures step damping"),
    "core/simulation/dials.py": (1, "reference_laws release_settle"),
}

# Reasons why an undetected fault is harmless, by its file and its line before and after.
EXPLAINED: dict[str, str] = {
    "core/geometry/collision/ccd.py: second = np.where(some & (q != 0.0), a / np.where(q != 0.0, q, 1.0), 0.0) → "
    "second = np.where(some & (q != 0.0), a / np.where(q != 0.0, q, 0.5), 0.0)": (
        "The result of this placeholder is not used; it only prevents a division by zero."
    ),
    "core/literature/damping/torque.py: principal_rates = np.where(has_inertia, along / np.where(has_inertia, values, "
    "1.0), 0.0) → principal_rates = np.where(has_inertia, along / np.where(has_inertia, values, 0.5), 0.0)": (
        "The result of this placeholder is not used; it only prevents a division by zero."
    ),
    "core/geometry/collision/ccd.py: radii = self.radii * (1.0 + 1e-9) + 1e-9 * largest + slack → "
    "radii = self.radii / (1.0 + 1e-9) + 1e-9 * largest + slack": (
        "A second margin of the same size is added, and either is enough for the rounding of squares."
    ),
    "core/geometry/collision/intersections.py: left = np.flatnonzero((np.abs(after) < 0.5) & (np.abs(totals[segment]) "
    "> 0.5)) → left = np.flatnonzero((np.abs(after) < 0.25) & (np.abs(totals[segment]) > 0.5))": (
        "Sums of signs are whole numbers, so any limit between 0 and 1 works."
    ),
    "core/geometry/collision/intersections.py: found = segment_triangle_hits(points, points + reach * skewed, surface) "
    "→ found = segment_triangle_hits(points, points + reach / skewed, surface)": (
        "A ray in any direction counts the intersections, if it is long enough."
    ),
    "core/materials/fibres.py: low, high = 0.05, 20.0 → low, high = 0.025, 20.0": (
        "The search interval contains the width in both cases."
    ),
    "core/frames/compression.py: low = int(np.argmax(tail <= vertices * frames * limit**2)) → "
    "low = int(np.argmax(tail > vertices * frames * limit**2))": (
        "The search starts at zero instead of at the lower bound. It ends at the same number, only later."
    ),
    "core/geometry/mesh/surface.py: _, first = np.unique(np.round(every / (0.5 * spacing)) @ "
    "np.array([1.0, 2.0**20, 2.0**40]), return_index=True) → _, first = np.unique(np.round(every / (0.5 * spacing)) @ "
    "np.array([0.5, 2.0**20, 2.0**40]), return_index=True)": (
        "Any weights that separate the cells work. Halves are exact, so they work too."
    ),
    "core/solvers/factorisation.py: unit = np.eye(update.signs.shape[1]) * update.signs[:, None, :] → "
    "unit = np.eye(update.signs.shape[1]) / update.signs[:, None, :]": "The signs are 1 or -1, their own inverses.",
    "core/solvers/modes.py: return np.asarray(shape * np.sign(shape.ravel()[np.abs(shape).argmax()])) → "
    "return np.asarray(shape / np.sign(shape.ravel()[np.abs(shape).argmax()]))": (
        "The sign is 1 or -1, which is its own inverse."
    ),
}

SWAPPED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Lt: ("<", ">="),
    ast.Gt: (">", "<="),
    ast.LtE: ("<=", ">"),
    ast.GtE: (">=", "<"),
}
RENAMED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "sin": "cos", "cos": "sin"}


class _Finder(ast.NodeVisitor):
    """Collect sites of faults as (start, old, new). Types, strings, messages and assertions are skipped."""

    def __init__(self, source: str) -> None:
        self.source, self.found = source, list[tuple[int, str, str]]()
        self._lines = [0, *(k + 1 for k, sign in enumerate(source) if sign == "\n")]

    def _at(self, line: int, column: int) -> int:
        start = self._lines[line - 1]
        # ast counts columns in bytes.
        text = self.source[start : self.source.find("\n", start)]
        return start + len(text.encode()[:column].decode())

    def _between(self, left: ast.expr, right: ast.expr, kind: type[ast.AST]) -> None:
        old, new = SWAPPED[kind]
        start = self._at(left.end_lineno or 0, left.end_col_offset or 0)
        end = self._at(right.lineno, right.col_offset)
        place = self.source.find(old, start, end)
        if place >= 0 and "#" not in self.source[start:end]:
            self.found.append((place, old, new))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in SWAPPED:
            self._between(node.left, node.right, type(node.op))
            if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.BinOp):
                # Drop the second term.
                start = self._at(node.left.end_lineno or 0, node.left.end_col_offset or 0)
                end = self._at(node.right.end_lineno or 0, node.right.end_col_offset or 0)
                old = self.source[start:end]
                if "(" not in old and "\n" not in old:
                    self.found.append((start, old, ""))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and type(node.ops[0]) in SWAPPED:
            self._between(node.left, node.comparators[0], type(node.ops[0]))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self.found.append((self._at(node.lineno, node.col_offset), "-", ""))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        # Smaller constants are tolerances.
        if isinstance(node.value, float) and abs(node.value) > 1e-3:
            start = self._at(node.lineno, node.col_offset)
            old = self.source[start : self._at(node.end_lineno or 0, node.end_col_offset or 0)]
            self.found.append((start, old, repr(0.5 * node.value)))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in RENAMED and node.args:
            end = self._at(node.func.end_lineno or 0, node.func.end_col_offset or 0)
            self.found.append((end - len(name), name, RENAMED[name]))
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for one in node.body:
            self.visit(one)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass


def drawn(file: str) -> Iterator[Fault]:
    """Yield the number of faults given by DRAWN, on different lines as far as possible."""
    source = (ROOT / file).read_text(encoding="utf-8")
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    sites = sorted(set(finder.found))
    random.Random(f"{SEED} {file}").shuffle(sites)
    lines: set[int] = set()
    fresh, again = [], []
    for site in sites:
        line = source.count("\n", 0, site[0])
        (again if line in lines else fresh).append(site)
        lines.add(line)
    for start, old, new in [*fresh, *again][: DRAWN[file][0]]:
        yield Fault(file, old, new, start=start)


def faults(words: list[str], named: bool) -> list[Fault]:
    every = [*NAMED, *([] if named else [fault for file in DRAWN for fault in drawn(file)])]
    return [fault for fault in every if not words or any(word in fault.file for word in words)]


def tests_for(file: str) -> list[str]:
    return [f"tests/core/test_{name}.py" for name in DRAWN[file][1].split()]


def copied(folder: Path) -> Path:
    """Return a copy of all files that the core's tests need."""
    root = folder / "dampsim"
    # Tests that read other files (project rules) do not run here.
    for name in ("core", "tests", "docs", "tools", "dampsim_addon"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "images", "addon"))
    for name in ("__init__.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    return root


def run(root: Path, tests: list[str], limit: float | None) -> tuple[bool, str, float]:
    """Return whether tests fail, the first failure, and the time in s."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no"]
    # No bytecode: two faults of one file within a second would share the timestamp of their cached bytecode.
    # The copy has no kernel of its own.
    environment = {
        "DAMPSIM_KERNEL": str(runpy.run_path(str(ROOT / "tools" / "kernel.py"))["checkout_library"]()),
        **os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [*command, *tests], cwd=root, env=environment, check=False, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return True, "time limit exceeded", time.monotonic() - begun
    first = next(
        (line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), done.stdout[-300:]
    )
    return done.returncode != 0, first.partition(" - ")[0], time.monotonic() - begun


@dataclass(frozen=True)
class Verdict:
    """Result of one fault.  told: its line before and after.  seen: detected.  by: the first test that failed."""

    fault: Fault
    told: str
    seen: bool
    by: str
    seconds: float

    @property
    def key(self) -> str:
        return f"{self.fault.file}: {self.told}"


def judged(every: list[Fault], jobs: int, hasty: bool) -> Iterator[Verdict]:
    """Yield a verdict per fault. Raise SystemExit if a test fails without a fault; hasty skips this check."""
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for k in range(jobs):
            copies.put(copied(Path(folder) / str(k)))
        limits: dict[str, float] = {}

        def judge(fault: Fault) -> Verdict:
            root = copies.get()
            try:
                path = root / fault.file
                source = path.read_text(encoding="utf-8")
                tests, limit = tests_for(fault.file), 0.0
                for one in tests:
                    limit += limits[one]
                path.write_text(fault.planted(source), encoding="utf-8")
                seen, by, seconds = run(root, tests, max(LEAST_TIME, PATIENCE * limit))
                path.write_text(source, encoding="utf-8")
                return Verdict(fault, fault.told(source), seen, by if seen else "", seconds)
            finally:
                copies.put(root)

        for one in sorted({test for fault in every for test in tests_for(fault.file)}):
            if hasty:
                limits[one] = LEAST_TIME
                continue
            root = copies.get()
            failed, by, limits[one] = run(root, [one], None)
            copies.put(root)
            if failed:
                sys.exit(f"{one} fails without any fault: {by}")
        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(judge, every)


def page(verdicts: list[Verdict], every: list[Fault]) -> str:
    """Return the text of docs/mutations.md, worst first. every: all faults, of which some may not have been run."""
    by_hand = [one for one in verdicts if one.fault.name]
    rest = [one for one in verdicts if not one.fault.name]
    drawn_count = sum(not fault.name for fault in every)
    lines = [
        "# Mutation tests",
        "",
        "Generated by `python tools/mutate.py --page`. Faults are planted in a copy of `core/`, one at a time. The",
        "tests that should detect each fault run, except those marked slow.",
        "",
        "| faults | known | run | detected | undetected |",
        "|---|---|---|---|---|",
    ]
    for title, count, some in (
        (f"drawn with seed {SEED}", drawn_count, rest), ("written by hand", len(every) - drawn_count, by_hand),
    ):  # fmt: skip
        seen = sum(one.seen for one in some)
        lines.append(f"| {title} | {count} | {len(some)} | {seen} | {len(some) - seen} |")
    if len(verdicts) < len(every):
        lines += ["", "Faults that were not run are new, or their file changed since the last complete run."]
    lines += ["", "## Undetected", "", "| fault | reason |", "|---|---|"]
    for one in sorted(verdicts, key=lambda one: one.key in EXPLAINED):
        if not one.seen:
            lines.append(f"| `{one.fault.file}`: {_code(one.told)} | {EXPLAINED.get(one.key, 'not explained')} |")
    lines += ["", "## Drawn at random", "", "| file | drawn | run | detected |", "|---|---|---|---|"]
    rows = []
    for file in DRAWN:
        some = [one for one in rest if one.fault.file == file]
        count = sum(not fault.name and fault.file == file for fault in every)
        seen = sum(one.seen for one in some)
        rows.append((seen - len(some), len(some) - count, f"| `{file}` | {count} | {len(some)} | {seen} |"))
    # Undetected faults first, then those that were not run.
    lines += [row for *_, row in sorted(rows, key=lambda one: one[:2])]
    lines += ["", "## Written by hand", "", "| fault | file | detected by |", "|---|---|---|"]
    lines += [f"| {one.fault.name} | `{one.fault.file}` | {_test(one)} |" for one in by_hand]
    return "\n".join(lines) + "\n"


def _test(one: Verdict) -> str:
    return f"`{one.by.rpartition('::')[2].partition('[')[0]}`" if one.seen else "**no test**"


def _code(told: str) -> str:
    return " → ".join(f"`{part}`" for part in told.replace("|", "\\|").split(" → "))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of file paths; only matching files are used")
    parser.add_argument("--named", action="store_true", help="use only the faults written by hand")
    parser.add_argument("--list", action="store_true", help="list the faults without planting them")
    parser.add_argument("--page", action="store_true", help="write docs/mutations.md")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--hasty", action="store_true", help="skip the check that the tests pass without any fault")
    parser.add_argument(
        "--unseen", action="store_true", help="run only faults that are new or were not detected last time"
    )
    parser.add_argument("--known", action="store_true", help="run nothing; use the results of earlier runs")
    asked = parser.parse_args()
    every = faults(asked.words, asked.named)
    if asked.page and (asked.words or asked.named):
        parser.error("--page needs all faults: drop the words and --named")
    if asked.list:
        for fault in every:
            print(f"{fault.file}: {_told(fault)}")
        return 0
    known: dict[str, str] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    found: dict[str, Verdict] = {}
    if asked.unseen or asked.known:
        for fault in every:
            key = f"{fault.file}: {_told(fault)}"
            if known.get(key) or (asked.known and key in known):
                found[key] = Verdict(fault, _told(fault), bool(known[key]), known[key], 0.0)
    again = [] if asked.known else [fault for fault in every if f"{fault.file}: {_told(fault)}" not in found]
    KEPT.parent.mkdir(exist_ok=True)
    for one in judged(again, asked.jobs, asked.hasty):
        found[one.key] = one
        known[one.key] = one.by if one.seen else ""
        KEPT.write_text(json.dumps(known, indent=1), encoding="utf-8")
        print(f"{one.seconds:5.1f} s  {'detected' if one.seen else 'UNDETECTED'}  {one.key}  {one.by}", flush=True)
    keys = [f"{fault.file}: {_told(fault)}" for fault in every]
    verdicts = [found[key] for key in keys if key in found]
    unseen = [one for one in verdicts if not one.seen]
    print(f"{len(verdicts)} faults, {len(verdicts) - len(unseen)} detected")
    for one in unseen:
        print(f"undetected: {one.key}: {EXPLAINED.get(one.key, 'NOT EXPLAINED')}")
    if asked.page:
        PAGE.write_text(page(verdicts, every), encoding="utf-8")
    return int(any(one.key not in EXPLAINED for one in unseen))


def _told(fault: Fault) -> str:
    return fault.told((ROOT / fault.file).read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
