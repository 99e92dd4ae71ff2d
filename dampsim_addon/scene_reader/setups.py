"""Setups: the dials, kind, vertex groups and collections of a simulated object, to be copied or saved as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NoReturn

import bpy
import numpy as np
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from mathutils.interpolate import poly_3d_calc

from ...core import PARAMETERS, Array, ParameterError, SceneError
from ...core.base.errors import printable_text, shown_text
from ...core.base.untrusted_files import parse_json
from ...core.base.wording import closest_name, format_number
from ...core.geometry.mesh.rigid_motion import transform_points
from ...core.scene.part import KEYABLE_PART_DIALS
from ..blender.sampler import mesh_positions
from ..blender.vertex_groups import read_weights, write_weights
from ..model.parameter_properties import DAMPSIM_PG_part
from ..model.properties import VERTEX_GROUP_ROLES, DAMPSIM_PG_object
from .rest_shapes import vertex_tree
from .scene_builder import mesh_triangles

FORMAT_NAME, FORMAT_VERSION = "DampSim setup", 1
# Files of setups have a few kilobytes.
MAX_BYTES = 1_000_000
# Blender cuts off names of more than 255 bytes, but not those of parts.
_MAX_NAME_BYTES = 1024
# Characters that no name of Blender contains.
_NO_NAME = re.compile("[\0\ud800-\udfff]")
# Properties beside the parameters. The kind comes first, since it changes others.
_PROPERTIES = (
    "kind", "target", "bound_by", "bound_percent", "bound_length", "max_keys", "max_bones", "bone_bound_percent",
    "bone_influences", "keeps_rig_posable", "chain_collection", "chain_channels", "live", "draft", "draft_part",
    "let_fall", "unpinned_pieces", "sew_loose_edges", "damper_attribute",
)  # fmt: skip
_COLLECTIONS = ("collider_collection", "field_collection")
_PART_PROPERTIES = ("name", "vertex_group", "own_sag", *KEYABLE_PART_DIALS)
# Files from before parts had a Sag lack these.
_ADDED_PART_PROPERTIES = {"own_sag": False, "sag": PARAMETERS["sag"].default}
# Types of properties, as messages call them.
TYPE_NAMES = {"BOOLEAN": "True or False", "INT": "a whole number", "FLOAT": "a number", "STRING": "text"}
# Largest number of parts in a file.
_MAX_PARTS = 100

Value = bool | int | float | str


@dataclass(frozen=True)
class Setup:
    """Settings of a simulated object without its mesh, animation, links and bake.

    values: by name of the property.  groups: names of vertex groups by role.  collections: their names by property.
    parts: name, vertex group and dials of each part, by name of the property.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    collections: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Mapping[str, Value], ...] = ()


def read_setup(obj: bpy.types.Object) -> Setup:
    """Return the setup of an object, at the current frame if dials are keyframed."""
    group = obj.dampsim
    collections = {name: getattr(group, name) for name in _COLLECTIONS}
    return Setup(
        {name: _rounded(getattr(group, name)) for name in (*_PROPERTIES, *PARAMETERS)},
        {role: name for role in VERTEX_GROUP_ROLES if (name := getattr(group, role))},
        {name: one.name for name, one in collections.items() if one is not None},
        tuple({name: _rounded(getattr(part, name)) for name in _PART_PROPERTIES} for part in group.parts),
    )


def _rounded(value: Value) -> Value:
    """Return the number that the user typed, which Blender stores in single precision."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def apply_setup(obj: bpy.types.Object, setup: Setup, source: bpy.types.Object | None = None) -> list[str]:
    """Apply a setup to an object, and return what could not be applied, as notes.

    source: mesh object from whose surface the weights of missing vertex groups are copied. Pins of an object stay as
    they are where the setup has none.

    Raises SceneError if the mesh is in Edit Mode or empty.
    """
    group, notes = obj.dampsim, []
    for one in (obj, source):
        if one is not None and one.type == "MESH" and one.mode == "EDIT":
            # Neither can weights be read nor written there.
            raise SceneError(f"{one.name}: leave Edit Mode before a setup is copied.")
    if obj.type == "MESH" and not obj.data.vertices:
        raise SceneError(f"{obj.name}: its mesh has no vertices.")
    for name, value in setup.values.items():
        setattr(group, name, value)
    for role in VERTEX_GROUP_ROLES:
        name = setup.groups.get(role, "")
        label = "pin group" if role == "pin_group" else role.replace("_", " ")
        if not name and role == "pin_group":
            continue
        problem = _provide_group(obj, name, source)
        if problem is not None:
            notes.append(f"{label} '{name}' is missing{problem}")
            continue
        setattr(group, role, name)
    group.parts.clear()
    kept = {str(part.name): index for index, part in enumerate(group.parts)}
    for values in setup.parts:
        problem = _provide_group(obj, str(values["vertex_group"]), source)
        if problem is not None:
            notes.append(f"vertex group '{values['vertex_group']}' of part '{values['name']}' is missing{problem}")
        # A library override keeps the parts of its library.
        part = group.parts[kept[str(values["name"])]] if values["name"] in kept else group.parts.add()
        for name, value in values.items():
            setattr(part, name, value)
    for name in _COLLECTIONS:
        wanted = setup.collections.get(name)
        if wanted is not None and wanted not in bpy.data.collections:
            notes.append(f"collection '{wanted}' is missing")
            continue
        setattr(group, name, bpy.data.collections[wanted] if wanted is not None else None)
    # Names may contain line breaks.
    return list(map(printable_text, notes))


def _provide_group(obj: bpy.types.Object, name: str, source: bpy.types.Object | None) -> str | None:
    """Copy a missing vertex group from another object. Return None, or the end of a note if that is impossible."""
    if not name or obj.type != "MESH" or name in obj.vertex_groups:
        return None
    if source is None or source.type != "MESH" or name not in source.vertex_groups:
        return ""
    if not obj.data.is_editable:
        return ", and the mesh is not editable"
    write_weights(obj, name, nearest_weights(source, obj, name))
    return None


def nearest_weights(source: bpy.types.Object, obj: bpy.types.Object, name: str) -> Array:
    """Return the weights (v,) of an object's vertices from the nearest points on the surface of another object.

    Surfaces are compared where they are, or each in its own space if they are closer to each other there.
    """
    weights = read_weights(source, [name])[0]
    candidates = []
    for in_world in (True, False):
        places = []
        for one in (source, obj):
            matrix = np.array(one.matrix_world) if in_world else np.eye(4)
            places.append(transform_points(matrix, mesh_positions(one.data).astype(float)))
        size = max(float(np.linalg.norm(np.ptp(places[0], axis=0))), 1e-30)
        found, distance = _interpolate(places[0], mesh_triangles(source.data).tolist(), weights, places[1])
        candidates.append((distance / size, found))
    return min(candidates, key=lambda one: one[0])[1]


def _interpolate(vertices: Array, triangles: list[list[int]], weights: Array, points: Array) -> tuple[Array, float]:
    """Return the weights (p,) of a surface at the points nearest to points (p, 3), and the mean distance."""
    found, total = np.zeros(len(points)), 0.0
    if not triangles:
        tree = vertex_tree(vertices)
        for number, point in enumerate(points.tolist()):
            _, nearest, distance = tree.find(point)
            assert distance is not None
            found[number], total = weights[nearest], total + distance
        return found, total / max(len(points), 1)
    corners = [Vector(vertex) for vertex in vertices.tolist()]
    surface = BVHTree.FromPolygons(vertices.tolist(), triangles)
    for number, point in enumerate(points.tolist()):
        place, _, face, distance = surface.find_nearest(Vector(point))
        if place is None or face is None or distance is None:
            continue
        shares = poly_3d_calc([corners[k] for k in triangles[face]], place)
        found[number], total = float(np.dot(shares, weights[triangles[face]])), total + distance
    return found, total / max(len(points), 1)


def setup_text(setup: Setup) -> str:
    """Return a setup as JSON."""
    return json.dumps({"format": FORMAT_NAME, "version": FORMAT_VERSION, **asdict(setup)}, indent=1) + "\n"


def parse_setup(text: bytes, place: str) -> Setup:
    """Return the setup of a JSON file. place: name of the file.  Raises ParameterError with one sentence."""
    if len(text) > MAX_BYTES:
        _refuse(place, f"it has more than {MAX_BYTES} bytes")
    try:
        found = parse_json(text)
    except json.JSONDecodeError as error:
        _refuse(place, f"it is not valid JSON ({str(error).splitlines()[0]})")
    except ValueError as error:
        _refuse(place, str(error))
    if not isinstance(found, dict) or found.get("format") != FORMAT_NAME:
        _refuse(place, "it is no setup of DampSim")
    if found.get("version") != FORMAT_VERSION or isinstance(found.get("version"), bool):
        _refuse(place, f"its version is not {FORMAT_VERSION}, so it comes from another version of DampSim")
    parts = {one.name for one in fields(Setup)}
    _check_names(place, found, parts | {"format", "version"})
    # Files from before there were parts have none.
    part_list = found.setdefault("parts", [])
    for name in parts - {"parts"}:
        if not isinstance(found.get(name), dict):
            _refuse(place, f"'{name}' is missing or no object")
    _check_names(place, found["values"], {*_PROPERTIES, *PARAMETERS})
    values = {name: _checked_value(place, name, value) for name, value in found["values"].items()}
    for part, known in (("groups", VERTEX_GROUP_ROLES), ("collections", _COLLECTIONS)):
        _check_names(place, found[part], set(known))
        for name, value in found[part].items():
            if not _is_name(value):
                _refuse(place, f"'{name}' is no name")
    ordered = {name: values[name] for name in (*_PROPERTIES, *PARAMETERS) if name in values}
    return Setup(ordered, found["groups"], found["collections"], _checked_parts(place, part_list))


def _is_name(value: object) -> bool:
    # Blender's own names may contain line breaks and other control characters.
    if not isinstance(value, str) or _NO_NAME.search(value):
        return False
    return 0 < len(value.encode("utf-8")) < _MAX_NAME_BYTES


def _checked_parts(place: str, found: object) -> tuple[Mapping[str, Value], ...]:
    """Return the parts of a setup. Raises ParameterError if one of them is not complete and valid."""
    if not isinstance(found, list) or len(found) > _MAX_PARTS:
        _refuse(place, f"'parts' is no list of at most {_MAX_PARTS} parts")
    parts = []
    for stored in found:
        part = {**_ADDED_PART_PROPERTIES, **stored} if isinstance(stored, dict) else {}
        if set(part) != set(_PART_PROPERTIES):
            _refuse(place, f"a part does not have exactly {', '.join(_PART_PROPERTIES)}")
        if not all(part[name] == "" or _is_name(part[name]) for name in ("name", "vertex_group")):
            _refuse(place, "'parts' has a name that is none")
        dials = {name: _checked_value(place, name, part[name], DAMPSIM_PG_part) for name in _PART_PROPERTIES[2:]}
        parts.append({"name": part["name"], "vertex_group": part["vertex_group"], **dials})
    if len({part["name"] for part in parts}) < len(parts):
        _refuse(place, "two parts have the same name")
    return tuple(parts)


def _refuse(place: str, problem: str) -> NoReturn:
    raise ParameterError(f"{printable_text(place)}: {problem}; choose a file that Save Setup wrote.")


def _check_names(place: str, found: Mapping[str, Any], known: set[str]) -> None:
    for name in found:
        if name not in known:
            nearest = closest_name(name[:60], known)
            hint = f", did you mean '{nearest}'?" if nearest else ""
            _refuse(place, f"{shown_text(name)} is unknown{hint}")


def _checked_value(
    place: str, name: str, value: Any, owner: type[bpy.types.PropertyGroup] = DAMPSIM_PG_object
) -> Value:
    """Return the value of a property. Raises ParameterError if it has another type or is out of range."""
    prop: Any = owner.bl_rna.properties[name]
    types: dict[str, tuple[type, ...]] = {"BOOLEAN": (bool,), "INT": (int,), "FLOAT": (int, float)}
    if not isinstance(value, types.get(prop.type, (str,))) or (isinstance(value, bool) and prop.type != "BOOLEAN"):
        expected = TYPE_NAMES.get(prop.type, TYPE_NAMES["STRING"])
        _refuse(place, f"'{name}' is {shown_text(value)}, which is not {expected}")
    # A text that is no valid UTF-8 cannot be looked up in enum_items.
    choices = [one.identifier for one in prop.enum_items] if prop.type == "ENUM" else [value]
    if value not in choices:
        _refuse(place, f"'{name}' is {shown_text(value)}, not one of {', '.join(choices)}")
    if prop.type in ("INT", "FLOAT"):
        tolerance = 1e-6 * max(abs(prop.hard_min), abs(prop.hard_max))
        if not prop.hard_min - tolerance <= value <= prop.hard_max + tolerance:
            _refuse(
                place,
                f"'{name}' is {shown_text(value)}, outside of {format_number(prop.hard_min)} to "
                f"{format_number(prop.hard_max)}",
            )
    checked: Value = value
    return checked
