"""Bulk reading of vertex group weights."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def weights_by_loop(obj: bpy.types.Object, name: str) -> np.ndarray:
    found = np.zeros(len(obj.data.vertices))
    index = obj.vertex_groups[name].index
    for vertex in obj.data.vertices:
        for element in vertex.groups:
            if element.group == index:
                found[vertex.index] = element.weight
    return np.round(found, 6)


def test_bulk_weights_equal_vertex_loop(load: Load) -> None:
    new_scene()
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=250, y_subdivisions=200)
    obj, random = bpy.context.object, np.random.default_rng(3)
    read = load("dampsim_addon.blender.vertex_groups").read_weights
    names = ["Pin", "Other", "Settle", "Empty", "Stiffness"]
    for name in names:
        obj.vertex_groups.new(name=name)
    assert [one.any() for one in read(obj, names)] == [False] * 5
    for name in ("Pin", "Other", "Settle", "Stiffness"):
        for vertex in np.flatnonzero(random.random(len(obj.data.vertices)) < 0.5):
            obj.vertex_groups[name].add([int(vertex)], float(random.random()), "REPLACE")
    wanted = ["Pin", "Settle", "Stiffness", "Empty"]
    began = time.perf_counter()
    expected = [weights_by_loop(obj, name) for name in wanted]
    between = time.perf_counter()
    found = read(obj, wanted)
    took = time.perf_counter() - between
    print(
        f"{len(obj.data.vertices)} vertices: {1e3 * (between - began):.0f} ms one by one, {1e3 * took:.0f} ms at once"
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not found[3].any()
    # No groups give no weights.
    assert read(obj, []) == []


@pytest.mark.parametrize(("stored", "factor", "expected"), [(0.25, 1.0, 0.25), (3.0, 1.0, 1.0), (1e30, 1e30, np.inf)])
def test_weights_from_nodes_are_limited(stored: float, factor: float, expected: float, load: Load) -> None:
    """Weights above 1 count as 1; infinite ones stay, so that the core refuses them."""
    new_scene()
    bpy.ops.mesh.primitive_cube_add()
    obj = bpy.context.object
    obj.vertex_groups.new(name="Pin")
    tree = bpy.data.node_groups.new("Weights", "GeometryNodeTree")
    for way in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=way, socket_type="NodeSocketGeometry")
    start, store, end = (
        tree.nodes.new(kind) for kind in ("NodeGroupInput", "GeometryNodeStoreNamedAttribute", "NodeGroupOutput")
    )
    store.inputs["Name"].default_value, product = "Pin", tree.nodes.new("ShaderNodeMath")
    product.operation = "MULTIPLY"
    product.inputs[0].default_value, product.inputs[1].default_value = stored, factor
    tree.links.new(product.outputs[0], store.inputs["Value"])
    tree.links.new(start.outputs[0], store.inputs["Geometry"])
    tree.links.new(store.outputs[0], end.inputs[0])
    obj.modifiers.new("Weights", "NODES").node_group = tree
    evaluated = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    (found,) = load("dampsim_addon.blender.vertex_groups").read_weights(evaluated, ["Pin"])
    assert found.tolist() == [expected] * 8
