"""Issues of all selected objects above the bake button, and the operators that fix them and select their vertices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bmesh
import bpy
from bpy.props import IntProperty, StringProperty
from bpy.types import Context, Operator, UILayout

from ...model.groups import format_names
from ...model.objects import active_simulated, chosen_simulated
from ...translations import report, translate
from ..common.issue import Check, Issue
from ..common.layout import BOX_MARGIN, draw_wrapped
from ..common.operators import ChosenObjectsOperator, NamedOperator, count_label, is_paintable
from ..export.operators import EXPORT_CHECKS
from .checks import CHECKS, find_issues

# Checks by name: operators know only the name.
_ALL_CHECKS = {**CHECKS, **EXPORT_CHECKS}


def chosen_issues(context: Context, checks: Mapping[str, Check]) -> dict[str, dict[bpy.types.Object, Issue]]:
    """Return the issues of the active and all other selected simulated objects, by check and object."""
    found = {obj: find_issues(obj, context.scene, checks) for obj in chosen_simulated(context)}
    by_check = {name: {obj: issues[name] for obj, issues in found.items() if name in issues} for name in checks}
    return {name: issues for name, issues in by_check.items() if issues}


def _issues_of_check(context: Context, name: str) -> dict[bpy.types.Object, Issue]:
    checks = {name: _ALL_CHECKS[name]} if name in _ALL_CHECKS else {}
    return chosen_issues(context, checks).get(name, {})


def draw_issues(layout: UILayout, context: Context, checks: Mapping[str, Check]) -> None:
    """Draw each issue once, with the names of its objects if it concerns others than the active one."""
    active = active_simulated(context)
    for name, issues in chosen_issues(context, checks).items():
        box = layout.box().column(align=True)
        obj, issue = next(iter(issues.items()))
        prefix = "" if list(issues) == [active] else f"{format_names(issues)}: "
        draw_wrapped(box, f"{prefix}{issue.text}", "ERROR", context, BOX_MARGIN)
        if issue.vertices is not None and obj == active:
            box.operator(DAMPSIM_OT_select_vertices.bl_idname, icon="RESTRICT_SELECT_OFF").check = name
        for number, fix in enumerate(issue.fixes):
            fixable = [one for one, other in issues.items() if _has_fix(other, number, fix.button_label)]
            text = count_label(fix.button_label, fixable)
            button = box.operator(DAMPSIM_OT_mend.bl_idname, text=translate(text), icon="TOOL_SETTINGS")
            button.check, button.way = name, number


def _has_fix(issue: Issue, number: int, label: str) -> bool:
    return number < len(issue.fixes) and issue.fixes[number].button_label == label


class DAMPSIM_OT_mend(ChosenObjectsOperator, Operator):
    """Fix this problem of all selected objects that have it"""

    bl_label = "Fix"

    check: StringProperty(options={"SKIP_SAVE"})
    way: IntProperty(options={"SKIP_SAVE"})

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        issues = _issues_of_check(context, properties.check)
        fixes = next((issue.fixes for issue in issues.values()), [])
        tooltip = fixes[properties.way].tooltip if properties.way < len(fixes) else ""
        return translate(tooltip or str(cls.__doc__))

    def objects(self, context: Context) -> list[bpy.types.Object]:
        issues = _issues_of_check(context, self.check)
        fixes = next((issue.fixes for issue in issues.values()), [])
        if not 0 <= self.way < len(fixes):
            report(self, {"INFO"}, f"{format_names(chosen_simulated(context))}: there is nothing to fix")
            return []
        return [obj for obj, issue in issues.items() if _has_fix(issue, self.way, fixes[self.way].button_label)]

    def check_editable(self, obj: bpy.types.Object) -> None:
        # The fix of a linked object makes it local.
        if self.check != "object":
            super().check_editable(obj)

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        # A fix of another object may have fixed this one as well.
        issue = find_issues(obj, context.scene, _ALL_CHECKS).get(self.check)
        if issue is not None and self.way < len(issue.fixes):
            issue.fixes[self.way].fix(obj, context.scene)


class DAMPSIM_OT_select_vertices(NamedOperator, Operator):
    """Switch to Edit Mode and select the vertices with this problem, including hidden ones"""

    bl_label = "Select"
    bl_options = {"REGISTER", "UNDO"}

    check: StringProperty(options={"SKIP_SAVE"})

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and is_paintable(obj)

    def execute(self, context: Context) -> set[str]:
        obj = active_simulated(context)
        issue = find_issues(obj, context.scene, _ALL_CHECKS).get(self.check)
        if issue is None or issue.vertices is None or len(issue.vertices) != len(obj.data.vertices):
            report(self, {"INFO"}, f"{obj.name}: there is nothing to select")
            return {"CANCELLED"}
        context.tool_settings.mesh_select_mode = (True, False, False)
        if obj.mode != "EDIT":
            bpy.ops.object.mode_set(mode="EDIT")
        mesh = bmesh.from_edit_mesh(obj.data)
        for vertex, is_selected in zip(mesh.verts, issue.vertices.tolist(), strict=True):
            if is_selected:
                vertex.hide_set(False)
            vertex.select_set(is_selected)
        mesh.select_flush_mode()
        bmesh.update_edit_mesh(obj.data)
        return {"FINISHED"}
