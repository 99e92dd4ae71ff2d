"""Result of the simulation at one frame, and its history as named arrays, for frame files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.arrays import Array
from ..contact.contact_history import ContactHistory, Impact, SupportModes
from ..system.state import (
    BlockHistory,
    Catch,
    ContractionLag,
    DeformationHistory,
    History,
    MuscleHistory,
    SleepCounter,
    State,
    SystemContacts,
    YarnHistory,
)

# Columns that are integers, by array: lowest and highest value, and columns.
_INTEGERS: dict[str, tuple[float, float, slice]] = {
    # The feature of a pair of edges or of neighbours exceeds 32 bits for more than 46,000 edges.
    "contacts": (-(2.0**53), 2.0**53, slice(4)),
    "impacts": (-(2.0**31), 2.0**31, slice(3)),
    "held": (0.0, 2.0**31, slice(2)),
    "muscles": (0.0, 1.0, slice(1)),
    "still": (0.0, 2.0**31, slice(1)),
    "violence": (0.0, 2.0**31, slice(3)),
    "pressed_steps": (0.0, 2.0**31, slice(1)),
}
# Suffix of the name of a term's reference flow.
REFERENCE_SUFFIX = ", where its stiffness is found"
# Names in older files of the arrays that are now shared by all kinds of bodies.
_FORMER_NAMES = {"yarns still": "still", "pull on yarns": "pull from outside"}


@dataclass(frozen=True)
class Frame:
    """Simulated frame.

    number: frame number.
    state: state of all nodes.
    shapes: surface (v, 3) m of each body by name.
    inputs: digests of its inputs, by body and collider.
    iterations: number of solver iterations.
    guards: number of hard steps by guard that decided them, see StepReport.hard_guards.
    """

    number: int
    state: State
    shapes: Mapping[str, Array]
    inputs: Mapping[str, str]
    iterations: int
    guards: Mapping[str, int] = field(default_factory=dict)

    @property
    def surface(self) -> Array:
        """Surface (v, 3) m of the only body."""
        (surface,) = self.shapes.values()
        return surface


def history_arrays(history: History) -> dict[str, dict[str, Array]]:
    """Return the arrays of a history, by block and by name; those of a system are among its first block's."""
    found = {}
    for name in sorted({*history.blocks, *history.contacts}):
        found[name] = _block_arrays(history.block(name))
        if name in history.contacts:
            found[name] |= _contact_arrays(history.contacts[name])
    return found


def history_from_arrays(arrays: Mapping[str, Mapping[str, Array]]) -> History:
    """Return the history in arrays; the inverse of history_arrays(). Raises ValueError for wrong shapes."""
    blocks, contacts = {}, {}
    for name, own in arrays.items():
        reader = _ArrayReader(own)
        if "contacts" in own:
            contacts[name] = _read_contacts(reader)
        blocks[name] = _read_block(reader)
    return History(blocks, contacts)


class _ArrayReader:
    """Arrays of a block. Each one can be taken once; `rest` holds the others."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.rest = {_FORMER_NAMES.get(name, name): array for name, array in arrays.items()}

    def take(self, name: str, *shape: int) -> Array:
        """Return an array, where -1 stands for any size.

        Raises ValueError if it is missing, has another shape, or other numbers in a column of integers.
        """
        found = self.rest.pop(name, None)
        sides = () if found is None else found.shape
        if (
            found is None
            or len(sides) != len(shape)
            or any(k not in (-1, n) for k, n in zip(shape, sides, strict=True))
        ):
            raise ValueError(f"its {name} is missing or has another shape")
        low, high, columns = _INTEGERS.get(name, (0.0, 0.0, slice(0)))
        numbers = found[..., columns]
        if numbers.size and not (
            low <= numbers.min() and numbers.max() <= high and (numbers == np.rint(numbers)).all()
        ):
            raise ValueError(f"its {name} has wrong counts")
        return found

    def take_optional(self, name: str, *shape: int) -> Array | None:
        """Return an array as take() does; None if it is missing."""
        return self.take(name, *shape) if name in self.rest else None


def _block_arrays(one: BlockHistory) -> dict[str, Array]:
    deformation, muscles, lag = one.deformation, one.muscles, one.contraction_lag
    yarns, sleep, catch = one.yarns, one.sleep, one.catch
    found: dict[str, Any] = {
        **one.terms,
        **{f"{name}{REFERENCE_SUFFIX}": flow for name, flow in one.reference_flows.items()},
        "deformation velocity": deformation and deformation.velocity,
        "elastic force": deformation and deformation.elastic_gradient,
        "elastic force rate": deformation and deformation.force_rate,
        "still": sleep and np.array([sleep.still_steps, *sleep.dial_values]),
        "pull from outside": sleep and sleep.acceleration,
        "muscles": muscles and np.column_stack([muscles.is_on, muscles.due_ticks]),
        "sensors": one.sensors,
        "contraction lag": lag and np.array([lag.lag, lag.lag_rate, lag.keyed_rate]),
        "yarn places": yarns and yarns.positions,
        "yarn speeds": yarns and yarns.speeds,
        "yarn anchors": yarns and yarns.anchors,
        "yarn presses": yarns and yarns.normal_forces,
        "catch": catch and np.column_stack([catch.offsets, catch.velocities, catch.times]),
        "steering": one.steering,
        "violence": one.violence,
        "impact": one.impact,
        "pressed_steps": one.pressed_steps,
    }
    return {name: value for name, value in found.items() if value is not None}


def _read_block(reader: _ArrayReader) -> BlockHistory:
    deformation = yarns = sleep = None
    if (velocity := reader.take_optional("deformation velocity", -1, 3)) is not None:
        deformation = DeformationHistory(
            velocity,
            reader.take_optional("elastic force", *velocity.shape),
            reader.take_optional("elastic force rate", *velocity.shape),
        )
    if (places := reader.take_optional("yarn places", -1)) is not None:
        anchors, normal_forces = (reader.take(name, len(places)) for name in ("yarn anchors", "yarn presses"))
        yarns = YarnHistory(places, anchors, normal_forces, reader.take_optional("yarn speeds", len(places)))
    # For all nodes, or for each.
    shape = (-1, 3) if reader.rest.get("pull from outside", np.zeros(3)).ndim > 1 else (3,)
    acceleration = reader.take_optional("pull from outside", *shape)
    if acceleration is not None or "still" in reader.rest:
        still_steps, *dial_values = reader.take("still", -1).tolist()
        sleep = SleepCounter(still_steps, np.array(dial_values), acceleration)
    switches, lag = reader.take_optional("muscles", -1, 2), reader.take_optional("contraction lag", 3)
    sensors, violence = reader.take_optional("sensors", -1), _read_violence(reader)
    caught, steering = reader.take_optional("catch", -1, 7), reader.take_optional("steering", -1, -1)
    impact, pressed_steps = reader.take_optional("impact", -1), reader.take_optional("pressed_steps", 1)
    if impact is not None and not len(impact):
        raise ValueError("its impact is missing or has another shape")
    reference_names = [name for name in reader.rest if name.endswith(REFERENCE_SUFFIX)]
    reference_flows = {name.removesuffix(REFERENCE_SUFFIX): reader.rest.pop(name) for name in reference_names}
    return BlockHistory(
        deformation,
        reader.rest,
        reference_flows,
        None if switches is None else MuscleHistory(switches[:, 0] > 0.0, switches[:, 1].copy()),
        sensors,
        None if lag is None else ContractionLag(*lag.tolist()),
        yarns,
        sleep,
        None if caught is None else Catch(caught[:, :3].copy(), caught[:, 3:6].copy(), caught[:, 6].copy()),
        steering,
        violence,
        impact,
        pressed_steps,
    )


def _read_violence(reader: _ArrayReader) -> Array | None:
    """Return the counts (2,) of violence. Older frames have a further count between them."""
    if reader.rest.get("violence", np.zeros(2)).shape == (3,):
        return reader.take("violence", 3)[[0, 2]]
    return reader.take_optional("violence", 2)


def _contact_arrays(one: SystemContacts) -> dict[str, Array]:
    contacts, supports = one.contacts, np.zeros((len(one.support_modes), 80))
    for row, modes in zip(supports, one.support_modes, strict=True):
        if modes is not None:
            counts = modes.pressed_count, modes.sticking_count
            row[:] = [*counts, *modes.compliance, *modes.shapes.ravel(), *modes.contact_stiffness.ravel()]
    impacts = [
        [k.region, k.other, k.contact_steps, k.approach_speed, k.rebound_speed, *k.normal, *k.support_velocity]
        for k in one.impacts
    ]
    return {
        "contacts": np.column_stack([contacts.keys, contacts.slips, contacts.forces, contacts.depths]),
        "impacts": np.array(impacts, dtype=float).reshape(-1, 11),
        "held": supports,
        "contact dials": one.dial_values,
    }


def _read_contacts(reader: _ArrayReader) -> SystemContacts:
    numbers = reader.take("contacts", -1, 9)
    slips, forces, depths = (numbers[:, part].copy() for part in (slice(4, 7), 7, 8))
    impacts = tuple(
        Impact(int(n[0]), int(n[1]), int(n[2]), float(n[3]), float(n[4]), n[5:8].copy(), n[8:].copy())
        for n in reader.take("impacts", -1, 11)
    )
    # Rows of regions without a support are zero.
    supports = tuple(
        SupportModes(int(n[0]), int(n[1]), n[2:8].copy(), *n[8:].reshape(2, 6, 6).copy()) if n[0] > 0.0 else None
        for n in reader.take("held", -1, 80)
    )
    contacts = ContactHistory(numbers[:, :4].astype(np.int64), slips, forces, depths)
    return SystemContacts(contacts, impacts, supports, reader.take("contact dials", -1))
