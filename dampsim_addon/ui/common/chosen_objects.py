"""Base classes of operators on all selected simulated objects, with their labels, and of jobs on the active one."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
from bpy.types import Context

from ....core import DampSimError
from ...model.groups import format_names
from ...model.objects import active_simulated, can_start_job, check_editable, chosen_simulated
from ...translations import report, translate
from ...work.modal import ModalJob

# At most this many errors are reported in full.
_MAX_ERRORS = 2


def count_label(label: str, objects: Sequence[bpy.types.Object]) -> str:
    """Return a button's label with the number of objects, if there are several: Apply Scale (4 objects)."""
    return f"{label} ({len(objects)} objects)" if len(objects) > 1 else label


class ChosenObjectsOperator:
    """Mixin of operators that apply to the active and all other selected simulated objects, see apply().

    An object that an operator cannot be applied to does not stop the others.
    """

    @classmethod
    def poll(cls, context: Context) -> bool:
        if not chosen_simulated(context):
            cls.poll_message_set(translate, "Select an object that DampSim simulates")  # type: ignore[attr-defined]
            return False
        return can_start_job(cls, context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        """Return the objects that the operator applies to."""
        return chosen_simulated(context)

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        """Apply the operator to an object. Return a note for the status bar, or ''. Raises DampSimError."""
        raise NotImplementedError

    def execute(self, context: Context) -> set[str]:
        objects_by_note: dict[str, list[bpy.types.Object]] = {}
        problems = []
        for obj in self.objects(context):
            try:
                check_editable(obj)
                objects_by_note.setdefault(self.apply(context, obj), []).append(obj)
            except DampSimError as error:
                problems.append(str(error))
        notes = [f"{format_names(those)}: {note}" for note, those in objects_by_note.items() if note]
        if notes:
            report(self, {"INFO"}, ". ".join(notes))  # type: ignore[arg-type]
        if problems:
            more = [f"{len(problems) - _MAX_ERRORS} more errors."] if len(problems) > _MAX_ERRORS else []
            kind = "WARNING" if objects_by_note else "ERROR"
            report(self, {kind}, " ".join([*problems[:_MAX_ERRORS], *more]))  # type: ignore[arg-type]
        return {"FINISHED"} if objects_by_note else {"CANCELLED"}


class ActiveObjectJob(ModalJob):
    """Mixin for modal operators on the active simulated object."""

    def subject(self, context: Context) -> str:
        return str(active_simulated(context).name)

    @classmethod
    def poll(cls, context: Context) -> bool:
        if active_simulated(context) is None:
            cls.poll_message_set(translate, "Select an object that DampSim simulates")
            return False
        return can_start_job(cls, context)
