"""Manual: the page of each panel, property and operator, for help buttons and *Online Manual* in context menus.

The zip contains the manual (tools/manual.py), whose pages are opened as local files. A checkout has it only after
`python tools/package.py`; without it, there are no help buttons.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import bpy
from bpy.props import StringProperty
from bpy.types import Context, Event, Operator, UILayout

from ....core import COLLIDER_PARAMETERS, PARAMETERS
from ...translations import report, translate
from .operators import NamedOperator

# Address of the published site, with a slash at its end. While it is empty, the pages in the zip are opened.
ADDRESS = ""
FOLDER = Path(__file__).parents[3] / "manual"
# Browsers from Ubuntu's Snap Store, and the folder that contains those that are installed.
SNAP_BROWSERS = ("brave", "chromium", "firefox", "opera", "vivaldi")
SNAP_FOLDER = Path("/snap/bin")
# Pages with their anchors, and patterns of the names of panels, operators and properties, as in Blender's manual map,
# but without "bpy.". The first match counts. Parameters are not listed: they lead to the page of parameters.
PAGES = {
    "reference/panels": ("ops.dampsim.help",),
    "reference/panels#several-selected-objects": ("types.windowmanager.dampsim_all_selected",),
    "reference/panels#simulated-objects": (
        "ops.dampsim.preset*",
        "ops.dampsim.fabric",
        "ops.dampsim.remove",
        "ops.dampsim.go_on",
        "types.dampsim_pg_object.live",
        "types.dampsim_pg_object.draft*",
        "types.dampsim_pg_object.unpinned_pieces",
    ),
    "reference/panels#main-panel": (
        "types.dampsim_pt_main",
        "types.dampsim_pg_object.enabled",
        "ops.dampsim.add",
        "ops.dampsim.convert_add",
        "ops.dampsim.local_add",
        "ops.dampsim.open_sample",
    ),
    "how-to/curves-and-hair#curves": ("ops.dampsim.curve_rope", "types.dampsim_pg_object.curve"),
    "how-to/curves-and-hair#hair-curves": ("ops.dampsim.hair",),
    "explanation/woven-cloth#weave-a-mesh": (
        "ops.dampsim.weave",
        "ops.dampsim.drop_yarns",
        "ops.dampsim.select_woven",
    ),
    "how-to/pin-with-bones#other-ways-to-pin": (
        "ops.dampsim.pin",
        "ops.dampsim.pin_gradient",
        "ops.dampsim.free",
        "ops.dampsim.let_fall",
        "types.dampsim_pg_object.pin_group",
        "types.dampsim_pg_object.let_fall",
    ),
    "how-to/pin-with-bones": ("ops.dampsim.pin_*", "ops.dampsim.free_bones"),
    "how-to/simulate-together#make-a-group": (
        "ops.dampsim.together",
        "ops.dampsim.alone",
        "ops.dampsim.select_group",
    ),
    "how-to/simulate-together#links": (
        "types.dampsim_pt_links",
        "ops.dampsim.link",
        "ops.dampsim.unlink",
        "ops.dampsim.weld",
        "types.dampsim_pg_link.*",
        "types.dampsim_pg_point.*",
        "types.dampsim_pg_object.links",
    ),
    "how-to/rebake-a-range": (
        "ops.dampsim.rebake_range",
        "ops.dampsim.use_preview_range",
        "types.dampsim_pg_object.range_blend",
    ),
    "how-to/retime-a-bake": ("ops.dampsim.retime",),
    "how-to/use-maps-in-materials": ("ops.dampsim.maps",),
    "how-to/export-to-a-game-engine": ("ops.dampsim.export",),
    "reference/bake-targets#influence-and-nla-strips": (
        "ops.dampsim.blend",
        "ops.dampsim.key_influence",
        "ops.dampsim.remove_blends",
        "types.dampsim_pg_object.influence",
    ),
    "reference/bake-targets#bones": (
        "types.dampsim_pg_object.max_bones",
        "types.dampsim_pg_object.bone_*",
        "types.dampsim_pg_object.keeps_rig_posable",
    ),
    "reference/bake-targets#existing-bones": (
        "ops.dampsim.use_selected_bones",
        "types.dampsim_pg_object.chain_*",
    ),
    "reference/bake-targets#the-cache": ("types.dampsim_pg_object.cache_folder",),
    "reference/bake-targets": (
        "types.dampsim_pg_object.target",
        "types.dampsim_pg_object.bound_*",
        "types.dampsim_pg_object.max_keys",
    ),
    "reference/messages#above-bake": ("ops.dampsim.mend", "ops.dampsim.select_vertices"),
    "reference/panels#bake": (
        "types.dampsim_pt_bake",
        "ops.dampsim.bake",
        "ops.dampsim.clear",
        "ops.dampsim.rest_by_frame",
    ),
    "how-to/sew-a-garment#with-loose-edges": ("types.dampsim_pg_object.sew_loose_edges",),
    "explanation/solids-cloth-ropes": ("types.dampsim_pg_object.kind",),
    "reference/panels#kind-and-stiffness": ("types.dampsim_pt_material", "ops.dampsim.measure"),
    "how-to/give-parts-their-own-dials#paint-the-damping": ("types.dampsim_pg_object.damping_group",),
    "how-to/give-parts-their-own-dials": (
        "types.dampsim_pt_parts",
        "ops.dampsim.part_*",
        "types.dampsim_pg_part.*",
        "types.dampsim_pg_object.parts",
    ),
    "explanation/plasticity": ("types.dampsim_pt_plastic", "ops.dampsim.plastic_reset"),
    "explanation/muscles#fibres-in-solids": (
        "types.dampsim_pt_fibres",
        "ops.dampsim.fibres",
        "types.dampsim_pg_object.fibre_group",
        "types.dampsim_pg_object.direction_group",
    ),
    "explanation/muscles#find-a-walk": (
        "ops.dampsim.*walk*",
        "types.dampsim_pg_walk.*",
        "types.dampsim_pg_object.walk*",
    ),
    "explanation/muscles#muscles": (
        "types.dampsim_pt_muscles",
        "ops.dampsim.muscle_*",
        "types.dampsim_pg_muscle.*",
        "types.dampsim_pg_sensor.*",
        "types.dampsim_pg_weight.*",
        "types.dampsim_pg_object.muscles",
        "types.dampsim_pg_object.sensors",
    ),
    "reference/panels#contact-and-collider": (
        "types.dampsim_pt_contact",
        "types.dampsim_pt_collider",
        "types.dampsim_pg_collider.*",
    ),
    "how-to/collide-with-a-character#add-a-floor": ("ops.dampsim.floor",),
    "how-to/collide-with-a-character#adjust-the-contact": (
        "types.dampsim_pg_object.friction_group",
        "types.dampsim_pg_object.front_group",
    ),
    "how-to/collide-with-a-character": ("ops.dampsim.*collider", "types.dampsim_pg_object.collider_collection"),
    "how-to/compare-settings#measure-the-settle-time": (
        "types.dampsim_pt_curve",
        "ops.dampsim.calibrate",
        "types.dampsim_pg_object.swing",
    ),
    "how-to/compare-settings": (
        "types.dampsim_pt_compare",
        "ops.dampsim.compare",
        "ops.dampsim.ghost_*",
        "types.dampsim_pg_object.variants",
    ),
    "reference/panels#show-in-viewport": ("types.dampsim_pt_show", "types.dampsim_pg_object.show_*"),
    "reference/panels#start-and-loop": ("types.dampsim_pt_shot",),
    "reference/force-fields": ("types.dampsim_pt_fields", "types.dampsim_pg_object.field_collection"),
    "reference/panels#advanced": (
        "types.dampsim_pt_advanced",
        "types.dampsim_pg_object.*_group",
        "types.dampsim_pg_object.damper_attribute",
    ),
    "how-to/copy-a-setup": ("types.dampsim_pt_setup", "ops.dampsim.setup_*"),
}


def page_names() -> Iterator[tuple[str, str]]:
    """Yield the patterns of names, as in PAGES, and their pages. The first match of a name counts."""
    for name in PARAMETERS:
        # Variants, which are shown as ghosts, have some of the dials.
        yield f"types.dampsim_pg_object.{name}", f"reference/parameters#parameter-{name}"
        yield f"types.dampsim_pg_variant.{name}", f"reference/parameters#parameter-{name}"
    for name in COLLIDER_PARAMETERS:
        yield f"types.dampsim_pg_collider.{name}", f"reference/parameters#collider-{name}"
    for page, names in PAGES.items():
        for name in names:
            yield name, page


@functools.cache
def has_manual() -> bool:
    """Return whether there are pages to open. The files of an add-on do not change while it is enabled."""
    return bool(ADDRESS) or (FOLDER / "index.html").is_file()


def page_address(page: str) -> str:
    """Return the address of a page, without the common part of all addresses. page: as in PAGES."""
    name, _, anchor = page.partition("#")
    if ADDRESS:
        return f"{name}/{anchor and '#'}{anchor}"
    # Programs that open local files may drop an anchor, so each anchor has a file of its own.
    return f"{name}{anchor and '/'}{anchor}.html"


def copied_folder() -> Path:
    """Return the visible folder for a copy of the manual."""
    return Path.home() / "DampSim Manual"


def is_out_of_reach() -> bool:
    """Return whether the browser may not read FOLDER: those of the Snap Store read visible folders of the home only."""
    if ADDRESS or not any((SNAP_FOLDER / name).exists() for name in SNAP_BROWSERS):
        return False
    home = Path.home()
    return not FOLDER.is_relative_to(home) or FOLDER.relative_to(home).parts[0].startswith(".")


def manual_map() -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the common part of the addresses, and the rest by the name of a property or operator, for Blender."""
    folder = copied_folder() if is_out_of_reach() and copied_folder().is_dir() else FOLDER
    return ADDRESS or f"{folder.as_uri()}/", tuple((f"bpy.{name}", page_address(page)) for name, page in page_names())


@functools.cache
def panel_page(panel: str) -> str:
    """Return the address of the page of a panel, without the common part; "" if there is no manual.

    panel: name of its class.
    """
    if not has_manual():
        return ""
    return next((end for name, end in manual_map()[1] if fnmatchcase(f"bpy.types.{panel.lower()}", name)), "")


class DAMPSIM_OT_help(NamedOperator, Operator):
    """Open the page of this panel in the manual"""

    bl_label = "Help"
    bl_options = {"INTERNAL"}

    panel: StringProperty(options={"HIDDEN", "SKIP_SAVE"})

    def invoke(self, context: Context, event: Event) -> set[str]:
        if not is_out_of_reach() or copied_folder().is_dir():
            return self.execute(context)
        message = f"Your browser cannot read the add-on's folder. Copy the manual to {copied_folder()}?"
        asked = context.window_manager.invoke_confirm(
            self, event, title="Copy Manual", message=translate(message), confirm_text="Copy"
        )
        return set(asked)

    def execute(self, context: Context) -> set[str]:
        if is_out_of_reach():
            # A new version replaces the pages of an older one.
            try:
                shutil.copytree(FOLDER, copied_folder(), dirs_exist_ok=True)
            except OSError:
                message = f"Manual: {copied_folder()} cannot be written. Make it writable, or free some space"
                report(self, {"ERROR"}, message)
                return {"CANCELLED"}
        bpy.ops.wm.url_open(url=manual_map()[0] + panel_page(self.panel))
        return {"FINISHED"}


def draw_help(layout: UILayout, panel: str) -> None:
    """Draw the button that opens the page of a panel. panel: name of its class."""
    if panel_page(panel):
        layout.operator(DAMPSIM_OT_help.bl_idname, text="", icon="HELP", emboss=False).panel = panel


def register() -> None:
    if has_manual():
        bpy.utils.register_manual_map(manual_map)


def unregister() -> None:
    if has_manual():
        bpy.utils.unregister_manual_map(manual_map)
