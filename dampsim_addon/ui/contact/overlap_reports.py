"""Reports of overlaps right after an object or a collider is added."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
from bpy.types import Context, Operator

from ...live.unkeyed_changes import object_with_unkeyed_change
from ...status.overlaps import find_overlaps, overlap_message
from ...translations import report


def report_with_overlaps(
    operator: Operator, context: Context, message: str, objects: Sequence[bpy.types.Object]
) -> None:
    """Report a message, with a warning if some of the objects overlap with colliders at the first frame.

    At another frame, unkeyed values would be lost. Then overlaps are only reported once that frame is read.
    """
    scene, layer = context.scene, context.view_layer
    layer.update()
    is_first = scene.frame_current_final == scene.frame_start
    can_find = is_first or not object_with_unkeyed_change(scene.objects, scene.frame_current_final)
    overlaps = find_overlaps(scene, layer, objects) if can_find else {}
    # The status bar shows only the last report.
    if overlaps:
        report(operator, {"WARNING"}, f"{message}. {overlap_message(overlaps, scene)}")
    else:
        report(operator, {"INFO"}, message)
