"""Issues of all selected objects above the bake button, and the operators that fix them and select their vertices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bmesh
import bpy
from bpy.props import IntProperty, StringProperty
from bpy.types import Context, Operator, UILayout

from ....core.base.wording import format_count
from ...model.groups import format_names
from ...model.objects import active_simulated, chosen_simulated
from ...translations import report, translate
from ..common.issue import Check, Issue
from ..common.layout import BOX_MARGIN, draw_wrapped
from ..common.operators import ChosenObjectsOperator, NamedOperator, count_label, is_paintable
from ..export.operators import EXPORT_CHECKS
from .checks import CHECKS, find_issues

# Lines of different texts in a box, at most.
_MAX_LINES = 4
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
    """Draw the issues of each check, those with the same fixes in one box, where each says which objects it is of."""
    active = active_simulated(context)
    for name, found in chosen_issues(context, checks).items():
        for issues in _with_same_fixes(found):
            box = layout.box().column(align=True)
            objects_by_text: dict[str, list[bpy.types.Object]] = {}
            for obj, issue in issues.items():
                objects_by_text.setdefault(issue.text, []).append(obj)
            listed = dict(list(objects_by_text.items())[:_MAX_LINES])
            for line, (text, objects) in enumerate(listed.items()):
                prefix = "" if list(issues) == [active] else f"{format_names(objects)}: "
                draw_wrapped(box, f"{prefix}{text}", "BLANK1" if line else "ERROR", context, BOX_MARGIN)
            rest = sum(map(len, objects_by_text.values())) - sum(map(len, listed.values()))
            if rest:
                draw_wrapped(box, f"Also {format_count(rest, 'other object')}", "BLANK1", context, BOX_MARGIN)
            first = issues.get(active) or next(iter(issues.values()))
            if first.vertices is not None and active in issues:
                box.operator(DAMPSIM_OT_select_vertices.bl_idname, icon="RESTRICT_SELECT_OFF").check = name
            for number, fix in enumerate(first.fixes):
                text = count_label(fix.button_label, list(issues))
                button = box.operator(DAMPSIM_OT_mend.bl_idname, text=translate(text), icon="TOOL_SETTINGS")
                button.check, button.way, button.label = name, number, fix.button_label


def _with_same_fixes(issues: Mapping[bpy.types.Object, Issue]) -> list[dict[bpy.types.Object, Issue]]:
    """Return the issues of a check by object, in groups with the same buttons."""
    found: dict[tuple[str, ...], dict[bpy.types.Object, Issue]] = {}
    for obj, issue in issues.items():
        found.setdefault(tuple(fix.button_label for fix in issue.fixes), {})[obj] = issue
    return list(found.values())


def _fix_of(issue: Issue, number: int, label: str) -> Issue | None:
    """Return the fix with a number of an issue; None if there is none, or it has another label. '' for any label."""
    fix = issue.fixes[number] if 0 <= number < len(issue.fixes) else None
    return fix if fix is not None and label in ("", fix.button_label) else None


class DAMPSIM_OT_mend(ChosenObjectsOperator, Operator):
    """Fix this problem of all selected objects that have it"""

    bl_label = "Fix"

    check: StringProperty(options={"SKIP_SAVE"})
    way: IntProperty(options={"SKIP_SAVE"})
    label: StringProperty(options={"SKIP_SAVE"})

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        issues = _issues_of_check(context, properties.check)
        fixes = [_fix_of(issue, properties.way, properties.label) for issue in issues.values()]
        tooltip = next((fix.tooltip for fix in fixes if fix is not None), "")
        return translate(tooltip or str(cls.__doc__))

    def objects(self, context: Context) -> list[bpy.types.Object]:
        fixes = {obj: _fix_of(one, self.way, self.label) for obj, one in _issues_of_check(context, self.check).items()}
        # A script may leave out the label. Other objects may need another fix.
        self.label = next((fix.button_label for fix in fixes.values() if fix is not None), "")
        found = [obj for obj, fix in fixes.items() if fix is not None and fix.button_label == self.label]
        if not found:
            report(self, {"INFO"}, f"{format_names(chosen_simulated(context))}: there is nothing to fix")
        return found

    def check_editable(self, obj: bpy.types.Object) -> None:
        # The fix of a linked object makes it local.
        if self.check != "object":
            super().check_editable(obj)

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        # A fix of another object may have fixed this one as well.
        issue = find_issues(obj, context.scene, _ALL_CHECKS).get(self.check)
        fix = _fix_of(issue, self.way, self.label) if issue is not None else None
        if fix is not None and fix.fix is not None:
            fix.fix(obj, context.scene)


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
