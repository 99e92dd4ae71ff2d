"""Base classes of operators: single edits, edits of all selected simulated objects, and jobs on the active one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import bpy
from bpy.types import Context

from ....core import DampSimError, SceneError
from ...model.groups import format_names
from ...model.objects import active_simulated, can_start_job, check_editable, chosen_simulated
from ...translations import report, translate
from ...work.operators import ModalJob

# At most this many errors are reported in full.
_MAX_ERRORS = 2


def count_label(label: str, objects: Sequence[bpy.types.Object]) -> str:
    """Return a button's label with the number of objects, if there are several: Apply Scale (4 objects)."""
    return f"{label} ({len(objects)} objects)" if len(objects) > 1 else label


def is_met(cls: Any, condition: object, message: str) -> bool:
    """Return whether a condition of an operator class is met; otherwise set its poll message."""
    if not condition:
        cls.poll_message_set(translate, message)
    return bool(condition)


def is_paintable(obj: bpy.types.Object) -> bool:
    """Return whether vertex groups and attributes of a mesh can be written."""
    return obj.mode in ("OBJECT", "EDIT") and bool(obj.data.is_editable)


def can_paint(cls: Any, *objects: bpy.types.Object) -> bool:
    """Return whether one of some meshes is paintable; otherwise set the poll message of an operator class."""
    message = "Switch to Object or Edit Mode, and make the mesh local"
    return is_met(cls, any(map(is_paintable, objects)), message)


def make_only_selected(context: Context, obj: bpy.types.Object) -> None:
    """Make an object of the view layer the active and only selected one."""
    for other in context.selected_objects:
        other.select_set(False)
    obj.select_set(True)
    context.view_layer.objects.active = obj


def report_problems(operator: Any, problems: Sequence[str], count: int) -> None:
    """Report the problems of some objects of a job. Raises SceneError if all have one. count: of its objects."""
    if problems and len(problems) == count:
        raise SceneError(_summary(problems))
    if problems:
        report(operator, {"WARNING"}, _summary(problems))


def _summary(problems: Sequence[str]) -> str:
    more = [f"{len(problems) - _MAX_ERRORS} more errors."] if len(problems) > _MAX_ERRORS else []
    return " ".join([*problems[:_MAX_ERRORS], *more])


class NamedOperator:
    """Mixin of operators whose identifier is that of their class, such as dampsim.add of DAMPSIM_OT_add."""

    bl_idname: ClassVar[str]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # Base classes have none.
        if cls.__name__.startswith("DAMPSIM_OT_"):
            cls.bl_idname = f"dampsim.{cls.__name__.removeprefix('DAMPSIM_OT_')}"


class EditOperator(NamedOperator):
    """Mixin of operators that change the file in one step, see edit()."""

    bl_options: ClassVar = {"REGISTER", "UNDO"}

    def edit(self, context: Context) -> None:
        """Change the file. Raises DampSimError, whose text is reported."""
        raise NotImplementedError

    def execute(self, context: Context) -> set[str]:
        try:
            self.edit(context)
        except DampSimError as error:
            report(self, {"ERROR"}, str(error))  # type: ignore[arg-type]
            return {"CANCELLED"}
        return {"FINISHED"}


class ChosenObjectsOperator(NamedOperator):
    """Mixin of operators that apply to the active and all other selected simulated objects, see apply().

    An object that an operator cannot be applied to does not stop the others.
    """

    bl_options: ClassVar = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        message = "Select an object that DampSim simulates"
        return is_met(cls, chosen_simulated(context), message) and can_start_job(cls, context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        """Return the objects that the operator applies to."""
        return chosen_simulated(context)

    def apply(self, context: Context, obj: bpy.types.Object) -> str | None:
        """Apply the operator to an object. Return a note for the status bar, or None. Raises DampSimError."""
        raise NotImplementedError

    def check_editable(self, obj: bpy.types.Object) -> None:
        """Raise SceneError if Blender would lose the changes of an object."""
        check_editable(obj)

    def execute(self, context: Context) -> set[str]:
        objects_by_note: dict[str | None, list[bpy.types.Object]] = {}
        problems = []
        for obj in self.objects(context):
            try:
                self.check_editable(obj)
                objects_by_note.setdefault(self.apply(context, obj), []).append(obj)
            except DampSimError as error:
                problems.append(str(error))
        notes = [f"{format_names(those)}: {note}" for note, those in objects_by_note.items() if note]
        if notes:
            report(self, {"INFO"}, ". ".join(notes))  # type: ignore[arg-type]
        if problems:
            kind = "WARNING" if objects_by_note else "ERROR"
            report(self, {kind}, _summary(problems))  # type: ignore[arg-type]
        return {"FINISHED"} if objects_by_note else {"CANCELLED"}


class ActiveObjectJob(NamedOperator, ModalJob):
    """Mixin for modal operators on the active simulated object."""

    bl_options: ClassVar = {"UNDO"}

    def subject(self, context: Context) -> str:
        return str(active_simulated(context).name)

    @classmethod
    def poll(cls, context: Context) -> bool:
        message = "Select an object that DampSim simulates"
        return is_met(cls, active_simulated(context), message) and can_start_job(cls, context)
