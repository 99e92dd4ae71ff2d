"""Bodies whose rest shape, stiffness and first eigenvalues are recomputed after large plastic flow."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..base.arrays import Array
from ..base.computation import Memo
from ..materials.plastic_flow import YieldSurface
from ..objective.plastic_update import PlasticUpdate
from ..scene.parameters import Settings
from ..scene.scene import Scene
from ..steppers.static import solve_static_equilibrium
from ..system.discretization import BodyDiscretization
from ..system.inputs import without_contact
from ..system.material_terms import PlasticTerm
from ..system.state import History, State
from ..system.system import System, assemble_system
from .assembly import Assembly, Island
from .dials import DialInterpreter
from .load_changes import LoadVersions
from .method_selection import make_stepper
from .statics import StaticSolver

# Cached versions of the scene after plastic flow. Each one holds its own factorisations.
_CACHED_VERSIONS = 2
# Solver tolerance for the unloaded shape after plastic flow.
_UNLOADED_TOLERANCE = 1e-3
_WEIGHTLESS = np.zeros(3)


class RestShapeVersion:
    """Everything derived from a scene's bodies after a certain plastic flow."""

    def __init__(self, scene: Scene, statics: StaticSolver, dials: DialInterpreter, key: bytes = b"") -> None:
        self.statics, self.dials, self.key = statics, dials, key
        self.loads = LoadVersions(scene, statics, dials)


class PlasticRestShapes:
    """Rest-shape versions of one scene.

    Each version depends only on the modelled shapes and the plastic flow, not on the path in between.
    """

    def __init__(self, scene: Scene, modelled: RestShapeVersion) -> None:
        self._scene, self._modelled = scene, modelled
        self._versions: Memo[RestShapeVersion] = Memo(_CACHED_VERSIONS)

    def version_for(self, history: History) -> RestShapeVersion:
        """Return the version for the history of a state."""
        flows = self._reference_flows(history)
        if not flows:
            return self._modelled
        total = hashlib.sha256()
        for (name, term), value in flows.items():
            total.update(f"{name} {term}".encode() + np.ascontiguousarray(value).tobytes())
        key = total.digest()
        return self._versions.get(key, lambda: self._build_version(flows, key))

    def _reference_flows(self, history: History) -> dict[tuple[str, str], Array]:
        """Return the flow at which the stiffness is evaluated, by block and term name; empty for little flow."""
        return {
            (block.name, name): flow
            for island in self._modelled.statics.islands
            for block in island.system.blocks[: len(island.bodies)]
            for name, flow in history.block(block.name).reference_flows.items()
        }

    def _build_version(self, flows: dict[tuple[str, str], Array], key: bytes) -> RestShapeVersion:
        modelled_statics, models = self._modelled.statics, list(self._modelled.statics.assembly.models)
        islands = []
        for number, modelled_island in enumerate(modelled_statics.islands):
            island = modelled_island
            if any(block.name == name for block in island.system.blocks for name, _ in flows):
                island = self._apply_flows(number, island, flows)
                for place, body in enumerate(island.bodies):
                    models[body] = replace(models[body], block=island.system.blocks[place])
            islands.append(island)
        statics = modelled_statics.for_assembly(Assembly(tuple(models), tuple(islands)))
        return RestShapeVersion(self._scene, statics, DialInterpreter(self._scene, statics), key)

    def _apply_flows(self, number: int, island: Island, flows: dict[tuple[str, str], Array]) -> Island:
        system = island.system
        blocks = tuple(_with_reference_flow(block, flows) for block in system.blocks)
        if all(region.has_elastic_stiffness for region in system.regions):
            # Nets have no other shape without their weight.
            factors = self._modelled.statics.stiffness_factors(number)
            blocks = _unloaded_blocks(replace(system, blocks=blocks, gravity=_WEIGHTLESS), factors)
        reassembled = assemble_system(blocks, system.gravity, system.links)
        regions = tuple(
            replace(region, has_elastic_stiffness=before.has_elastic_stiffness)
            for region, before in zip(reassembled.regions, system.regions, strict=True)
        )
        return replace(island, system=replace(reassembled, regions=regions, contact=system.contact))


def _with_reference_flow(block: BodyDiscretization, flows: dict[tuple[str, str], Array]) -> BodyDiscretization:
    terms = tuple(
        term.with_reference_flow(flows.get((block.name, term.name))) if isinstance(term, PlasticTerm) else term
        for term in block.terms
    )
    return replace(block, terms=terms)


def _unloaded_blocks(system: System, factors: Array) -> tuple[BodyDiscretization, ...]:
    """Return the system's blocks with their unloaded shape as rest shape."""
    start, inputs = State.at_rest(system.rest), without_contact(system.stationary_inputs())
    unloaded_state = solve_static_equilibrium(make_stepper(system), start, inputs, _UNLOADED_TOLERANCE, factors)
    return tuple(
        replace(block, rest=unloaded_state.positions[part])
        for block, part in zip(system.blocks, system.slices, strict=True)
    )


def plasticity_per_block(settings: Sequence[Settings], h: float) -> list[PlasticUpdate]:
    """Return how each body flows at the end of a step of h s."""
    return [_block_plasticity(one, h) for one in settings]


def _block_plasticity(settings: Settings, h: float) -> PlasticUpdate:
    if settings.plastic_reset:
        return PlasticUpdate(reset=True)
    if settings.plastic_yield == 0.0:
        return PlasticUpdate()
    creep_fraction = -math.expm1(-settings.plastic_creep * h)
    return PlasticUpdate(YieldSurface(0.01 * settings.plastic_yield, creep_fraction, 0.01 * settings.plastic_most))
