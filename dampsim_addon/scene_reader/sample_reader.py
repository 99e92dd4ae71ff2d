"""Reading of everything that is animated, at the current frame of the Blender scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import bpy

from ...core import Body, BodySample, ColliderSample, SceneError, SceneSample
from ...core.scene.part import with_part_dials
from ..blender.collider_reader import ColliderReader
from ..blender.fields import is_gravity_animated, read_external_forces
from ..blender.modifiers import has_weight_modifier
from ..blender.sampler import GroupSampler, Sampler
from ..blender.vertex_groups import read_weights
from ..model.colliders import read_collider_dials
from ..model.force_fields import fields_acting_on
from ..model.instances import generating_nodes, note_instances
from ..model.links import anchor_points
from ..model.properties import read_settings
from .contributors import is_evaluated_for_others
from .muscles import read_controller_inputs, sensor_targets
from .parts import animated_part_dials, part_dial_values


def has_evaluated_pins(obj: bpy.types.Object) -> bool:
    """Return whether modifiers change the weights of the object's pin group."""
    return bool(obj.dampsim.pin_group) and has_weight_modifier(obj, obj.dampsim.pin_group)


class SampleReader:
    """Reader of the samples of a group's core scene.

    A new animated input of a body is one field of BodySample and one argument in _read_member().

    colliders: their readers, in the scene's order.
    """

    def __init__(
        self,
        sampler: GroupSampler,
        bodies: Sequence[Body],
        anchors: Mapping[str, tuple[bpy.types.Object, str]],
        colliders: Sequence[ColliderReader],
    ) -> None:
        """bodies: of the sampler's members.  anchors: linked objects and bones outside the group, by name."""
        self._anchors, self.colliders = tuple(anchors.values()), tuple(colliders)
        self._generating = [one.obj for one in self.colliders if generating_nodes(one.obj)]
        # Later samplers of the group may have its members in another order, for example after a renaming.
        self._bodies: dict[int, tuple[Body, Sequence[bpy.types.Object] | None]] = {}
        self._with_keyed_parts = {m.obj.session_uid for m in sampler.members if animated_part_dials(m.obj)}
        for member, body in zip(sampler.members, bodies, strict=True):
            fields = fields_acting_on(member.obj, member.view_layer)
            has_external_forces = fields or is_gravity_animated(member.scene)
            self._bodies[member.obj.session_uid] = body, fields if has_external_forces else None

    def read(self, sampler: GroupSampler, frame: float) -> SceneSample:
        """Return the sample at a frame, which must be the current one. Raises DampSimError.

        sampler: any sampler of the group.
        """
        for obj in self._disabled_inputs(sampler):
            raise SceneError(
                f"{obj.name}: it is disabled in viewports at frame {frame:.5g}, so its motion is unknown. Remove the "
                "animation of its Disable in Viewports."
            )
        layer, samplers = sampler.view_layer, {member.obj.session_uid: member for member in sampler.members}
        if self._generating and frame.is_integer():
            note_instances(self._generating, layer, int(frame))
        return SceneSample(
            frame,
            tuple(self._read_member(samplers[uid]) for uid in self._bodies),
            tuple(anchor_points(layer, obj, bone) for obj, bone in self._anchors),
            tuple(
                ColliderSample(one.world_positions(layer, frame), read_collider_dials(one.obj))
                for one in self.colliders
            ),
        )

    def _disabled_inputs(self, sampler: GroupSampler) -> list[bpy.types.Object]:
        """Return the linked objects and targets of sensors that Blender does not evaluate at the current frame."""
        targets = [target for member in sampler.members for target in sensor_targets(member.obj)]
        others = dict.fromkeys([*(obj for obj, _ in self._anchors), *targets])
        return [one for one in others if one.hide_viewport and not is_evaluated_for_others(one, sampler.view_layer)]

    def _read_member(self, member: Sampler) -> BodySample:
        obj, scene, layer = member.obj, member.scene, member.view_layer
        body, fields = self._bodies[obj.session_uid]
        vertices, settings = member.world_positions(), read_settings(obj) if body.has_animated_settings else None
        if settings is not None and obj.session_uid in self._with_keyed_parts:
            settings = with_part_dials(settings, part_dial_values(obj))
        return BodySample(
            vertices,
            settings,
            None if fields is None else read_external_forces(scene, layer, fields),
            None if body.controller is None else read_controller_inputs(obj, layer),
            read_weights(member.evaluated_object(), [obj.dampsim.pin_group])[0] if has_evaluated_pins(obj) else None,
        )
