"""Base class of operators that do long work on the active object."""

from __future__ import annotations

from bpy.types import Context

from ..scene.objects import chosen, free
from ..work.modal import ModalJob


class ChosenJob(ModalJob):
    """Mixin for modal operators on the active simulated object."""

    def subject(self, context: Context) -> str:
        return str(chosen(context).name)

    @classmethod
    def poll(cls, context: Context) -> bool:
        if chosen(context) is None:
            cls.poll_message_set("Select an object that DampSim simulates")
            return False
        return free(cls, context)
