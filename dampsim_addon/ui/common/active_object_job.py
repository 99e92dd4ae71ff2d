"""Base class of operators that do long work on the active object."""

from __future__ import annotations

from bpy.types import Context

from ...model.objects import active_simulated, can_start_job
from ...translations import translate
from ...work.modal import ModalJob


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
