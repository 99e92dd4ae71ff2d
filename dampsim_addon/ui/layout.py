"""What the panels have in common."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import blf
import bpy
from bpy.types import Context, UILayout

from ...core.bodies.registry import kind
from ...core.errors import ParameterError
from ...core.scene.parameters import PARAMETERS
from ..scene.objects import chosen, working
from ..scene.properties import read_settings
from ..scene.registry import trusting


class Sidebar:
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "DampSim"

    def __init_subclass__(cls, **given: Any) -> None:
        """What panels have in common, beside what they show.

        What they say of groups costs no look through the file's objects; what of a newer version they cannot show, they
        say.
        """
        super().__init_subclass__(**given)
        draw = vars(cls).get("draw")
        if draw is not None:
            # Blender counts what a panel's draw takes.
            def draw_at_rest(self: Any, context: Context) -> None:
                with trusting():
                    try:
                        draw(self, context)
                    except ParameterError as error:
                        _newer(self.layout, context, str(error))

            cls.draw = functools.wraps(draw)(draw_at_rest)  # type: ignore[attr-defined]
        poll = vars(cls).get("poll")
        if poll is not None:

            def poll_known(cls: Any, context: Context) -> bool:
                with contextlib.suppress(ParameterError):
                    return bool(poll.__func__(cls, context))
                return False

            cls.poll = classmethod(poll_known)  # type: ignore[attr-defined]


def _newer(layout: UILayout, context: Context, said: str) -> None:
    """What to choose anew, where a newer DampSim's choices are none of ours."""
    wrapped(layout, f"{said} A newer DampSim may have chosen it; choose another one", "ERROR", context)
    group = context.object.dampsim
    for parameter in PARAMETERS.values():
        if parameter.choices and not getattr(group, parameter.name):
            layout.prop(group, parameter.name)


class Child(Sidebar):
    bl_parent_id = "DAMPSIM_PT_main"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None


# Pixels of Blender's interface unit, of a panel's edges with the icon before a text, and of a letter on the mean where
# the font is not known, at scale 1.
UNIT_X, _EDGES, _LETTER = 20.0, 60.0, 6.6


def split(column: UILayout, context: Context) -> UILayout:
    """A column of labelled properties that cannot be touched while a job runs."""
    column.use_property_split = True
    column.use_property_decorate = False
    column.enabled = not working(context)
    return column


def wrapped(layout: UILayout, text: str, icon: str, context: Context, beside: float = 0.0) -> None:
    """A text in as many lines as the panel's width asks for. beside: interface units that are taken by other things."""
    if not text:
        return
    scale = context.preferences.system.ui_scale
    # A box around it has edges of its own.
    width = context.region.width - scale * (_EDGES + beside * UNIT_X)
    column = layout.column(align=True)
    column.scale_y = 0.8
    for number, line in enumerate(lines(text, width, scale * context.preferences.ui_styles[0].widget.points)):
        column.label(text=line, icon=icon if number == 0 else ("BLANK1" if icon != "NONE" else "NONE"))


def lines(text: str, width: float, points: float) -> list[str]:
    """A text cut between words, each line as long as the width in pixels takes with the interface's font."""
    found: list[str] = []
    for word in text.split():
        longer = f"{found[-1]} {word}" if found else word
        if found and _width(longer, points) <= width:
            found[-1] = longer
        else:
            found.append(word)
    return found


def _width(text: str, points: float) -> float:
    """In pixels."""
    blf.size(0, points)
    measured = float(blf.dimensions(0, text)[0])
    return measured or len(text) * _LETTER * points / 11.0


def sections(group: bpy.types.PropertyGroup) -> tuple[str, ...]:
    """Of the parameters that the object's kind reads, beside those that all do."""
    return kind(group.kind).sections(read_settings(group.id_data))


def dials(layout: UILayout, group: bpy.types.PropertyGroup, *shown: str, without: str = "") -> None:
    """Of sections, all that have a meaning with what is chosen; but for one."""
    for parameter in PARAMETERS.values():
        meant = parameter.has_meaning(lambda name: getattr(group, name))
        if parameter.section in shown and parameter.name != without and meant:
            unit = f" ({parameter.unit})" if parameter.unit not in ("", "%") else ""
            layout.prop(group, parameter.name, text=parameter.label + unit)
