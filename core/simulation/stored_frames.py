"""Check that a stored frame fits the simulation that continues from it.

The reader of a frame file checks each array alone: its checksum, shape and numbers. A file can still belong to another
system, or lack a part of the history, and would then be continued from silently.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..base.arrays import Array
from ..frames.frame import REFERENCE_SUFFIX, Frame, history_arrays
from ..materials.plastic_flow import BendingFlow, PlasticFlow
from ..objective.plastic_update import plastic_terms
from ..scene.body import SceneSample
from ..scene.parameters import PARAMETERS
from ..system.discretization import BodyDiscretization
from ..system.state import SystemContacts
from .simulation import Simulation

# Parts of a history that may be missing after a frame that has them, because the next step recomputes them or because
# they belong to a motion that has ended. A body that a keyed Hold lets go is no longer steered.
_TEMPORARY_PARTS = {"elastic force", "elastic force rate", "yarn speeds", "still", "pull from outside", "steering"}
# Parts whose number of rows changes from frame to frame.
_VARYING_PARTS = {"contacts", "impacts", "still", "pull from outside", "steering"}
# Largest permanent strain, with a margin for rounding.
_MAX_STRAIN = 1.01 * float(PARAMETERS["plastic_most"].max) / 100.0
# Largest difference of a frame's time from its number, in frames; times are sums of many substeps.
_TIME_TOLERANCE = 1e-3


def find_fault(frame: Frame, previous: Frame | None, simulation: Simulation, sample: SceneSample | None = None) -> str:
    """Return why a simulation cannot continue from a stored frame, as a clause; '' if it can.

    previous: the stored frame before it, which has been checked; None for the first one.
    sample: the scene at the frame; only needed if pins change.
    """
    scene = simulation.scene
    vertices = {body.name: len(body.surface.vertices) for body in scene.bodies}
    nodes = simulation.islands[-1].node_slice.stop
    if len(frame.state.positions) != nodes or vertices != {k: len(shape) for k, shape in frame.shapes.items()}:
        return "it has other nodes or vertices"
    if abs(frame.state.time * scene.fps - frame.number) > _TIME_TOLERANCE:
        return "it has another time"
    found = history_arrays(frame.state.history)
    known = {block.name: block for island in simulation.islands for block in island.system.blocks}
    if not found.keys() <= known.keys():
        return "it has the history of another object"
    for name, arrays in found.items():
        if not _fits_block(arrays, known[name]):
            return f"the history of {name} has another size"
        if not all(_is_possible_flow(*one) for one in _flows(arrays, known[name])):
            return f"the permanent deformation of {name} is impossible"
    for island in simulation.islands if sample is None else simulation.version_at(sample).statics.islands:
        contacts = frame.state.history.contacts.get(island.system.name)
        if contacts is not None and not _fits_regions(contacts, len(island.system.regions)):
            return f"the contacts of {island.system.name} have another size"
    return "" if previous is None else _lost_part(history_arrays(previous.state.history), found)


def _fits_block(arrays: Mapping[str, Array], block: BodyDiscretization) -> bool:
    """Return whether the history of a block has its number of nodes and elements."""
    expected = {term.name: term.flow.zero_flow().shape for term in plastic_terms(block)}
    expected |= {f"{name}{REFERENCE_SUFFIX}": shape for name, shape in expected.items()}
    expected |= {"catch": (len(block.rest), 7)}
    expected |= {name: (len(block.rest), 3) for name in ("deformation velocity", "elastic force", "elastic force rate")}
    pull = arrays.get("pull from outside")
    if pull is not None and pull.shape not in ((3,), (len(block.rest), 3)):
        return False
    return all(arrays[name].shape == shape for name, shape in expected.items() if name in arrays)


def _flows(arrays: Mapping[str, Array], block: BodyDiscretization) -> list[tuple[PlasticFlow, Array]]:
    """Return the flows of a block, and those at which its stiffness was found, with their kinds."""
    named = [(term, f"{term.name}{suffix}") for term in plastic_terms(block) for suffix in ("", REFERENCE_SUFFIX)]
    return [(term.flow, arrays[name]) for term, name in named if name in arrays]


def _is_possible_flow(kind: PlasticFlow, flow: Array) -> bool:
    """Return whether a plastic flow gives rest shapes that the simulation can have.

    Tensors (m, d, d) need stretches that Maximum allows, so that they are regular, and strains (m,) of springs as well.
    Flows of bending need rest angles within a whole turn.
    """
    if isinstance(kind, BendingFlow):
        rest_angles = (kind.energy.with_flow(flow).kernel_data or (flow,))[0]
        return bool(np.abs(rest_angles).max(initial=0.0) <= 2.0 * np.pi)
    if flow.ndim < 3:
        return bool(np.abs(flow).max(initial=0.0) <= _MAX_STRAIN)
    if not len(flow):
        return True
    stretches = np.linalg.svd(flow, compute_uv=False)
    most = float(np.exp(_MAX_STRAIN))
    return bool(stretches.min() >= 1.0 / most and stretches.max() <= most)


def _fits_regions(contacts: SystemContacts, region_count: int) -> bool:
    """Return whether a contact history refers to regions of a system only. Surfaces have negative numbers."""
    return len(contacts.support_modes) == region_count and all(
        0 <= impact.region < region_count and impact.other < region_count for impact in contacts.impacts
    )


def _lost_part(before: Mapping[str, Mapping[str, Array]], after: Mapping[str, Mapping[str, Array]]) -> str:
    """Return a clause about a part of the history that a frame lacks, or that has another shape than before."""
    for block, arrays in before.items():
        for name, array in arrays.items():
            found = after.get(block, {}).get(name)
            if found is None and name not in _TEMPORARY_PARTS:
                return f"it lacks a part of the history of {block}"
            if found is not None and name not in _VARYING_PARTS and found.shape != array.shape:
                return f"the history of {block} has another size"
    return ""
