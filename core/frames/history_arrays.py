"""Serialisation of a history as named arrays, for frame files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..base.arrays import Array
from ..contact.contact_history import ContactHistory, Impact, SupportModes
from ..system.history import (
    BlockHistory,
    ContractionLag,
    DeformationHistory,
    History,
    MuscleHistory,
    SystemContacts,
    YarnHistory,
    YarnSleep,
)

# Suffix of the name of a term's reference flow.
_REFERENCE_SUFFIX = ", where its stiffness is found"


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
        self.rest = dict(arrays)

    def take(self, name: str, *shape: int) -> Array:
        """Return an array, where -1 stands for any size. Raises ValueError if it is missing or has another shape."""
        found = self.rest.pop(name, None)
        if found is None:
            raise ValueError(f"it has no {name}")
        if found.ndim != len(shape) or any(
            side not in (-1, size) for side, size in zip(shape, found.shape, strict=True)
        ):
            raise ValueError(f"its {name} has the shape {found.shape}")
        return found

    def take_optional(self, name: str, *shape: int) -> Array | None:
        """Return an array as take() does; None if it is missing."""
        return self.take(name, *shape) if name in self.rest else None


def _block_arrays(one: BlockHistory) -> dict[str, Array]:
    found: dict[str, Array | None] = {**one.terms}
    found |= {f"{name}{_REFERENCE_SUFFIX}": flow for name, flow in one.reference_flows.items()}
    if one.deformation is not None:
        found |= {
            "deformation velocity": one.deformation.velocity,
            "elastic force": one.deformation.elastic_gradient,
            "elastic force rate": one.deformation.force_rate,
            "still": one.deformation.sleep_counters[0],
            "pull from outside": one.deformation.accelerations[0] if one.deformation.accelerations else None,
        }
    if one.muscles is not None:
        found["muscles"] = np.column_stack([one.muscles.is_on, one.muscles.due_ticks])
    found["sensors"] = one.sensors
    if (lag := one.contraction_lag) is not None:
        found["contraction lag"] = np.array([lag.lag, lag.lag_rate, lag.keyed_rate])
    if one.yarns is not None:
        found |= {
            "yarn places": one.yarns.positions,
            "yarn speeds": one.yarns.speeds,
            "yarn anchors": one.yarns.anchors,
            "yarn presses": one.yarns.normal_forces,
        }
    if one.yarn_sleep is not None:
        found["yarns still"] = np.array([one.yarn_sleep.still_steps, *one.yarn_sleep.dial_values])
        found["pull on yarns"] = one.yarn_sleep.acceleration
    return {name: value for name, value in found.items() if value is not None}


def _read_block(reader: _ArrayReader) -> BlockHistory:
    deformation = muscles = lag = yarns = yarn_sleep = None
    if "deformation velocity" in reader.rest:
        velocity = reader.take("deformation velocity", -1, 3)
        deformation = DeformationHistory(
            velocity,
            reader.take_optional("elastic force", *velocity.shape),
            reader.take_optional("elastic force rate", *velocity.shape),
            reader.take("still", 2)[None],
            (_read_acceleration(reader, "pull from outside"),),
        )
    if "muscles" in reader.rest:
        is_on, due_ticks = reader.take("muscles", -1, 2).T
        muscles = MuscleHistory(is_on > 0.0, due_ticks.copy())
    if "contraction lag" in reader.rest:
        lag = ContractionLag(*reader.take("contraction lag", 3).tolist())
    if "yarn places" in reader.rest:
        places = reader.take("yarn places", -1)
        yarns = YarnHistory(
            places,
            reader.take("yarn anchors", len(places)),
            reader.take("yarn presses", len(places)),
            reader.take_optional("yarn speeds", len(places)),
        )
    acceleration = _read_acceleration(reader, "pull on yarns")
    if "yarns still" in reader.rest:
        still_steps, *dial_values = reader.take("yarns still", -1)
        yarn_sleep = YarnSleep(float(still_steps), np.array(dial_values), acceleration)
    sensors = reader.take_optional("sensors", -1)
    reference_flows = {
        name.removesuffix(_REFERENCE_SUFFIX): reader.rest.pop(name)
        for name in list(reader.rest)
        if name.endswith(_REFERENCE_SUFFIX)
    }
    return BlockHistory(deformation, reader.rest, reference_flows, muscles, sensors, lag, yarns, yarn_sleep)


def _read_acceleration(reader: _ArrayReader, name: str) -> Array | None:
    """Return an acceleration (3,) or (n, 3) m/s^2, if any."""
    return reader.take_optional(name, *(-1,) * (reader.rest[name].ndim - 1), 3) if name in reader.rest else None


def _contact_arrays(one: SystemContacts) -> dict[str, Array]:
    contacts = one.contacts
    supports = np.zeros((len(one.support_modes), 80))
    for row, modes in zip(supports, one.support_modes, strict=True):
        if modes is not None:
            counts = [modes.pressed_count, modes.sticking_count]
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
    slips, forces, depths = numbers[:, 4:7].copy(), numbers[:, 7].copy(), numbers[:, 8].copy()
    impacts = tuple(
        Impact(int(n[0]), int(n[1]), int(n[2]), float(n[3]), float(n[4]), n[5:8].copy(), n[8:].copy())
        for n in reader.take("impacts", -1, 11)
    )
    # Rows of regions without a support are zero.
    supports = tuple(
        SupportModes(int(n[0]), int(n[1]), n[2:8].copy(), n[8:44].reshape(6, 6).copy(), n[44:].reshape(6, 6).copy())
        if n[0] > 0.0
        else None
        for n in reader.take("held", -1, 80)
    )
    contacts = ContactHistory(numbers[:, :4].astype(np.int64), slips, forces, depths)
    return SystemContacts(contacts, impacts, supports, reader.take("contact dials", -1))
