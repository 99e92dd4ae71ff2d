"""One relative shape key for each frame with linear values 0-1-0: exact on frames, interpolated between them."""

from __future__ import annotations

from ...core.base.arrays import SinglePrecisionArray
from ..blender.dampsim_names import frame_name
from . import keys
from .bake_tracks import animate_keys
from .target import Cost, Shot


class FrameKeys(keys.KeyTarget):
    name = "FRAME_KEYS"
    number = 1
    label = "Key per Frame"
    description = "Create a shape key for each frame. Exact but large; exports to glTF and FBX"
    can_export_to_gltf = True

    def write(self, shot: Shot, compressed: SinglePrecisionArray) -> Cost:
        obj = shot.sampler.obj
        basis = keys.prepare_basis(obj)
        first, last = shot.numbers[0], shot.key_numbers[-1]
        curves = {}
        for number, move in zip(shot.numbers, compressed, strict=True):
            key = keys.add_key(obj, frame_name(number), basis + move)
            points = [(number - 1.0, 0.0), (float(number), 1.0), (number + 1.0, 0.0)]
            # The first and last shape hold outside the frame range.
            curves[keys.value_path(key)] = points[int(number == first) : 3 - int(number == last)]
            if number == first and last > shot.numbers[-1]:
                # A loop ends with its first shape.
                curves[keys.value_path(key)] += [(last - 1.0, 0.0), (float(last), 1.0)]
        animate_keys(obj, curves, shot.cycle_end is not None)
        return keys.key_cost(len(basis), len(shot.numbers))
