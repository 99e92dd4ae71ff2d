"""Manual in the zip: every panel, property and operator has a page with its anchor, and Blender finds it."""

from __future__ import annotations

import html
import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import bpy
import pytest

pytestmark = [
    pytest.mark.bpy,
    pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="needs the checkout"),
]
ROOT = Path(__file__).parents[2]
RUNNER = runpy.run_path(str(ROOT / "run.py"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a manual that has just been built. Its path contains a space."""
    folder = tmp_path_factory.mktemp("extensions") / "user default" / "manual"
    subprocess.run([RUNNER["environment"]("site"), ROOT / "tools" / "manual.py", folder], check=True)
    return folder


@pytest.fixture
def manual(load: Callable[[str], ModuleType], pages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return the add-on's module, which opens the built manual."""
    module = load("dampsim_addon.ui.common.manual")

    def forget() -> None:
        module.has_manual.cache_clear()
        module.panel_page.cache_clear()

    module.unregister()
    monkeypatch.setattr(module, "FOLDER", pages)
    # No browser of this machine counts.
    monkeypatch.setattr(module, "SNAP_FOLDER", pages / "snap")
    forget()
    module.register()
    yield module
    module.unregister()
    monkeypatch.undo()
    forget()
    module.register()


def names_of_addon(package: str) -> set[str]:
    """Return the names of all panels, operators and visible properties of a package, as the manual map has them."""
    names = set[str]()
    for base in (bpy.types.Panel, bpy.types.Operator, bpy.types.PropertyGroup):
        for cls in base.__subclasses__():
            if not cls.__module__.startswith(f"{package}.") or not cls.is_registered:
                continue
            if base is bpy.types.Operator:
                names.add(f"bpy.ops.{cls.bl_idname}")
            elif base is bpy.types.Panel:
                names.add(f"bpy.types.{cls.__name__}".lower())
            # The progress of a job is drawn as text.
            elif cls.__name__ != "DAMPSIM_PG_progress":
                properties = (one for one in cls.bl_rna.properties if not one.is_hidden)
                own = (one.identifier for one in properties if one.identifier not in {"rna_type", "name"})
                names |= {f"bpy.types.{cls.__name__}.{name}".lower() for name in own}
    return names | {"bpy.types.windowmanager.dampsim_all_selected"}


def opened_anchor(address: str) -> tuple[Path, str]:
    """Return the page that a browser displays at last, and its anchor."""
    path = Path(unquote(urlsplit(address).path))
    forwarded = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', path.read_text(encoding="utf-8"))
    if forwarded is None:
        return path, ""
    target, _, anchor = html.unescape(forwarded[1]).partition("#")
    return (path.parent / target).resolve(), anchor


def test_everything_has_a_page(manual: ModuleType) -> None:
    names = names_of_addon(manual.__name__.partition(".")[0])
    start, rows = manual.manual_map()
    missing = [name for name in sorted(names) if not any(fnmatchcase(name, pattern) for pattern, _ in rows)]
    assert not missing
    assert len(names) > 250
    wrong = []
    for name in names:
        end = next(end for pattern, end in rows if fnmatchcase(name, pattern))
        page, anchor = opened_anchor(start + end)
        text = page.read_text(encoding="utf-8")
        if anchor and f'id="{anchor}"' not in text:
            wrong.append(f"{name}: {page.name}#{anchor}")
        # Pages without an anchor are opened as a whole.
        if not anchor and "/" in end.removesuffix(".html").partition("/")[2]:
            wrong.append(f"{name}: {end} does not forward")
    assert not wrong


def test_table_has_no_stale_rows(manual: ModuleType) -> None:
    names, claimed = names_of_addon(manual.__name__.partition(".")[0]), set[str]()
    stale = []
    parameters = [name for name, page in manual.page_names() if page.startswith("reference/parameters#")]
    for pattern in [*parameters, *(name for patterns in manual.PAGES.values() for name in patterns)]:
        matched = {name for name in names if fnmatchcase(name, f"bpy.{pattern}")}
        if not matched - claimed and pattern not in parameters:
            stale.append(pattern)
        claimed |= matched
    assert not stale


def test_blender_finds_pages_in_map(manual: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    # The names that Blender passes from its context menu.
    for name in ("DAMPSIM_PG_object.sag", "dampsim.retime", "DAMPSIM_OT_retime.scale", "DAMPSIM_PG_collider.plane"):
        assert bpy.ops.wm.doc_view_manual(doc_id=name) == {"FINISHED"}
    places = [opened_anchor(address) for address in opened]
    assert [(page.name, anchor) for page, anchor in places] == [
        ("parameters.html", "parameter-sag"),
        ("retime-a-bake.html", ""),
        ("retime-a-bake.html", ""),
        ("panels.html", "contact-and-collider"),
    ]
    assert all(address.startswith("file:///") and " " not in address for address in opened)


def test_each_panel_has_help(
    manual: ModuleType, load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    panels = load("dampsim_addon.ui").PANELS
    for panel in panels:
        assert bpy.ops.dampsim.help("EXEC_DEFAULT", panel=panel.__name__) == {"FINISHED"}
    assert len(opened) == len(panels)
    assert all(opened_anchor(address)[0].is_file() for address in opened)
    assert all(hasattr(panel, "draw_header_preset") for panel in panels)


@pytest.fixture
def snap_browser(manual: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder whose browser comes from the Snap Store; the manual is in a hidden folder of it."""
    home = tmp_path / "home"
    hidden = home / ".config" / "manual"
    shutil.copytree(manual.FOLDER, hidden)
    browser = tmp_path / "snap" / "firefox"
    browser.parent.mkdir()
    browser.touch()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(manual, "SNAP_FOLDER", browser.parent)
    monkeypatch.setattr(manual, "FOLDER", hidden)
    return home


def test_snap_browser_gets_a_copy(manual: ModuleType, snap_browser: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages that help and Online Manual open are in a visible folder, also after an update of the manual."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    (manual.FOLDER / "index.html").write_text("an older version", encoding="utf-8")
    for content in ("an older version", "a newer version"):
        (manual.FOLDER / "index.html").write_text(content, encoding="utf-8")
        assert bpy.ops.dampsim.help("EXEC_DEFAULT", panel="DAMPSIM_PT_bake") == {"FINISHED"}
        assert (snap_browser / "DampSim Manual" / "index.html").read_text(encoding="utf-8") == content
    assert bpy.ops.wm.doc_view_manual(doc_id="dampsim.retime") == {"FINISHED"}
    places = [opened_anchor(address)[0].relative_to(snap_browser).parts for address in opened]
    assert [(one[0], one[-1]) for one in places] == [
        ("DampSim Manual", "panels.html"), ("DampSim Manual", "panels.html"), ("DampSim Manual", "retime-a-bake.html"),
    ]  # fmt: skip


def test_uncopied_manual_is_reported(manual: ModuleType, snap_browser: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", pytest.fail)
    (snap_browser / "DampSim Manual").write_text("a file", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"Manual: .*/DampSim Manual cannot be written. Make it writable"):
        bpy.ops.dampsim.help("EXEC_DEFAULT", panel="DAMPSIM_PT_bake")


def test_only_hidden_folders_are_copied(
    manual: ModuleType, snap_browser: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser of the Snap Store reads a visible folder of the home, and other browsers read every folder."""
    assert manual.is_out_of_reach()
    monkeypatch.setattr(manual, "FOLDER", snap_browser / "Blender" / ".add-ons" / "manual")
    assert not manual.is_out_of_reach()
    monkeypatch.setattr(manual, "FOLDER", Path("/opt/manual"))
    assert manual.is_out_of_reach()
    monkeypatch.setattr(manual, "SNAP_FOLDER", snap_browser / "no snaps")
    assert not manual.is_out_of_reach()


def test_checkout_without_manual_has_no_help(
    manual: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manual.unregister()
    monkeypatch.setattr(manual, "FOLDER", tmp_path)
    manual.has_manual.cache_clear()
    manual.panel_page.cache_clear()
    count = len(bpy.utils._manual_map)
    manual.register()
    assert len(bpy.utils._manual_map) == count
    assert manual.panel_page("DAMPSIM_PT_main") == ""


def test_published_site_replaces_pages(manual: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "ADDRESS", "https://example.org/")
    manual.panel_page.cache_clear()
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for panel in ("DAMPSIM_PT_bake", "DAMPSIM_PT_setup"):
        assert bpy.ops.dampsim.help("EXEC_DEFAULT", panel=panel) == {"FINISHED"}
    assert opened == ["https://example.org/reference/panels/#bake", "https://example.org/how-to/copy-a-setup/"]


def test_links_lead_to_files(pages: Path) -> None:
    dead = []
    for path in pages.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"]*)"', path.read_text(encoding="utf-8")):
            name, _, anchor = html.unescape(target).partition("#")
            if re.match("https?:", name):
                continue
            aim = (path.parent / name).resolve() if name else path
            if not aim.is_file() or (anchor and f'id="{anchor}"' not in aim.read_text(encoding="utf-8")):
                dead.append(f"{path.relative_to(pages)}: {target}")
    assert not dead
