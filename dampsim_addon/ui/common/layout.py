"""Base classes and drawing helpers of the panels."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import blf
import bpy
from bpy.types import Context, UILayout

from ....core import PARAMETERS, Parameter, ParameterError, kind_by_name
from ....core.bodies.weave import WeaveKind
from ...model.groups import joined_objects
from ...model.objects import active_simulated, is_job_running
from ...model.properties import effective_value, read_settings
from ...model.registry import reuse_last_scan
from ...translations import translate
from .manual import draw_help


class SidebarPanel:
    bl_idname: ClassVar[str]
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "DampSim"

    def draw_header_preset(self: Any, context: Context) -> None:
        """Draw the help button at the right end of the panel's header."""
        draw_help(self.layout, type(self).__name__)

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Name each panel like its class, and wrap its draw and poll.

        While a panel is drawn, the last scan of simulated objects is reused. Settings that only a newer version knows
        are reported in the panel instead of raising an error.
        """
        super().__init_subclass__(**keywords)
        cls.bl_idname = cls.__name__
        draw = vars(cls).get("draw")
        if draw is not None:
            # Blender checks the number of draw's arguments.
            def draw_guarded(self: Any, context: Context) -> None:
                with reuse_last_scan():
                    try:
                        draw(self, context)
                    except ParameterError as error:
                        _draw_unknown_choices(self.layout, context, str(error))

            cls.draw = functools.wraps(draw)(draw_guarded)  # type: ignore[attr-defined]
        poll = vars(cls).get("poll")
        if poll is not None:

            def poll_guarded(cls: Any, context: Context) -> bool:
                with contextlib.suppress(ParameterError):
                    return bool(poll.__func__(cls, context))
                return False

            cls.poll = classmethod(poll_guarded)  # type: ignore[attr-defined]


def _draw_unknown_choices(layout: UILayout, context: Context, message: str) -> None:
    """Draw the settings whose choice is unknown, because a newer version of DampSim made it."""
    text = f"{message} " + "It may come from a newer version of DampSim. Choose another value"
    draw_wrapped(layout, text, "ERROR", context)
    group = context.object.dampsim
    for parameter in PARAMETERS.values():
        if parameter.choices and not getattr(group, parameter.name):
            layout.prop(group, parameter.name)


class ChildPanel(SidebarPanel):
    bl_parent_id = "DAMPSIM_PT_main"
    bl_options: ClassVar = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return active_simulated(context) is not None


class ItemList:
    """Mixin of lists that draw each of their items in one row."""

    def draw_item(
        self, context: Context, layout: UILayout, data: Any, item: Any, icon: int, active: Any, name: str, index: int
    ) -> None:
        """Draw an item, with the arguments of Blender."""
        self.draw_row(context, layout, item, index)

    def draw_row(self, context: Context, layout: UILayout, item: Any, index: int) -> None:
        """Draw an item, whose index is that in its collection."""
        raise NotImplementedError


# Pixels at scale 1: Blender's interface unit; a panel's margins with the icon before a text; the mean width of a
# letter, used where the font cannot be measured.
UNIT_X, _TEXT_MARGIN, _LETTER_WIDTH = 20.0, 78.0, 6.6
# Interface units that a box's margins take from the width of a text.
BOX_MARGIN = 1.0


def enabled_column(layout: UILayout, context: Context, align: bool = False) -> UILayout:
    """Add a column that is disabled while a job runs, and return it."""
    column = layout.column(align=align)
    column.enabled = not is_job_running(context)
    return column


def labelled_column(column: UILayout, context: Context) -> UILayout:
    """Set up a column for properties with labels, disabled while a job runs, and return it."""
    column.use_property_split = True
    column.use_property_decorate = False
    column.enabled = not is_job_running(context)
    return column


def draw_wrapped(
    layout: UILayout,
    text: str,
    icon: str,
    context: Context,
    reserved_units: float = 0.0,
    *,
    alternatives: Iterable[str] = (),
) -> None:
    """Draw a text, wrapped to the panel's width.

    reserved_units: interface units of the width that other things take.  alternatives: texts that may replace this one
    from frame to frame. Space is reserved for the longest of them, so that the controls below do not move.
    """
    if not text:
        return
    text = translate(text)
    scale = context.preferences.system.ui_scale
    width = context.region.width - scale * (_TEXT_MARGIN + reserved_units * UNIT_X)
    points = scale * context.preferences.ui_styles[0].widget.points
    column = layout.column(align=True)
    column.scale_y = 0.8
    text_lines = wrap_text(text, width, points)
    text_lines += [""] * (
        max((len(wrap_text(translate(other), width, points)) for other in alternatives), default=0) - len(text_lines)
    )
    for number, line in enumerate(text_lines):
        line_icon = icon if number == 0 else ("BLANK1" if icon != "NONE" else "NONE")
        # A line can be the name of an object, which Blender would translate if it were a word of the interface.
        column.label(text=line, icon=line_icon, translate=False)


# Lines may end between Chinese and Japanese letters, but do not begin with punctuation or a small kana.
_LETTERS, _NEVER_FIRST = (
    "\u3001-\u30ff\u3400-\u9fff\uff01-\uff60",
    "、。，；：？！）」』】…ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ",
)
_BREAK = re.compile(
    f"(?<=[{_LETTERS}])(?=[^ {_NEVER_FIRST}])(?<![（「『【])|(?<=[^ （「『【])(?=[{_LETTERS}])(?![{_NEVER_FIRST}])"
)
_UNIT_AFTER = re.compile(r"(\d) (s|m|mm|cm|km|µm|kB|MB|GB|N|mN|kPa)(?![\w²])")


def wrap_text(text: str, width: float, points: float) -> list[str]:
    """Return a text wrapped into lines.

    width: pixels.  points: size of the interface's font.
    """
    wrapped_lines: list[str] = []
    # Keep a number and its unit on one line.
    for word in _UNIT_AFTER.sub("\\1\u00a0\\2", text).split(" "):
        for number, part in enumerate(_BREAK.sub("\u200b", word).split("\u200b")):
            longer = f"{wrapped_lines[-1]}{'' if number else ' '}{part}" if wrapped_lines else part
            if wrapped_lines and _text_width(longer, points) <= width:
                wrapped_lines[-1] = longer
            else:
                wrapped_lines.append(part)
    return [line.replace("\u00a0", " ") for line in wrapped_lines]


def _text_width(text: str, points: float) -> float:
    """Return the width of a text in pixels."""
    blf.size(0, points)
    measured = float(blf.dimensions(0, text)[0])
    return measured or len(text) * _LETTER_WIDTH * points / 11.0


# Fraction of a panel's width for labels; pixels of its margins and tabs, around a label and around a unit; interface
# units of a unit and of a decorator.
_LABEL_FRACTION, _PROPERTY_MARGIN, _LABEL_PADDING, _UNIT_PADDING = 0.44, 46.0, 9.0, 14.0
_UNIT_WIDTH, _DECORATOR_WIDTH = 2.6, 0.9


def draw_property(
    layout: UILayout,
    group: Any,
    name: str,
    text: str,
    context: Context,
    unit: str = "",
    search: tuple[Any, str] | None = None,
) -> None:
    """Draw a property with its unit and label. The label is above the value if there is no room beside it.

    search: data and the name of its collection, of which the property names an item.
    """
    scale = context.preferences.system.ui_scale
    points = scale * context.preferences.ui_styles[0].widget.points
    width = context.region.width - scale * _PROPERTY_MARGIN
    row = layout.row(align=True)
    row.use_property_split = row.use_property_decorate = False
    text = translate(text)
    if isinstance(getattr(group, name, None), bool):
        row.prop(group, name, text=text, translate=False)
        return
    if _text_width(text, points) > _LABEL_FRACTION * width - scale * _LABEL_PADDING:
        column = row.column(align=True)
        column.label(text=text)
        row = column.row(align=True)
    else:
        halves = row.split(factor=_LABEL_FRACTION)
        left = halves.row()
        left.alignment = "RIGHT"
        left.label(text=text)
        row = halves.row(align=True)
    if search is not None:
        row.prop_search(group, name, *search, text="")
    else:
        row.prop(group, name, text="")
    needed = _text_width(translate(unit), points) / scale + _UNIT_PADDING
    _draw_unit(row, unit, max(_UNIT_WIDTH, needed / UNIT_X))


def _draw_unit(row: UILayout, unit: str, width: float = _UNIT_WIDTH) -> None:
    """Draw a unit beside its value. width: interface units, the same for most, so that the values are aligned."""
    if unit not in ("", "%"):
        part = row.row()
        part.ui_units_x = width
        part.label(text=translate(unit), translate=False)


def draw_slider(layout: UILayout, group: bpy.types.PropertyGroup, parameter: Parameter) -> None:
    """Draw a parameter as a slider with its name, unit and keyframe decorator."""
    row = layout.row(align=True)
    row.use_property_split = row.use_property_decorate = False
    row.prop(group, parameter.name, text=translate(parameter.label), translate=False, slider=True)
    _draw_unit(row, parameter.unit)
    decorator = row.row()
    decorator.ui_units_x = _DECORATOR_WIDTH
    if parameter.animatable:
        decorator.prop_decorator(group, parameter.name)
    else:
        decorator.label(text="", icon="BLANK1")


def parameter_sections(group: bpy.types.PropertyGroup) -> tuple[str, ...]:
    """Return the parameter sections that are specific to the object's kind."""
    sections = kind_by_name(group.kind).sections(read_settings(group.id_data))
    # Woven cloth, and all that it is solved with, follows the first-mode law.
    if "waveform papers" in sections and any(
        one.dampsim.kind == WeaveKind.name for one in joined_objects(group.id_data)
    ):
        return tuple(one for one in sections if one != "waveform papers")
    return sections


def active_parameters(group: bpy.types.PropertyGroup, *section_names: str) -> list[Parameter]:
    """Return the parameters of the given sections that have an effect with the current settings."""
    return [
        parameter
        for parameter in PARAMETERS.values()
        if parameter.section in section_names and parameter.has_effect(lambda name: effective_value(group, name))
    ]


def draw_parameters(
    layout: UILayout,
    group: bpy.types.PropertyGroup,
    context: Context,
    *section_names: str,
    excluded: Sequence[str] = (),
) -> None:
    """Draw the active parameters of the given sections, except for some."""
    for parameter in active_parameters(group, *section_names):
        if parameter.name not in excluded:
            draw_property(layout, group, parameter.name, parameter.label, context, parameter.unit)
