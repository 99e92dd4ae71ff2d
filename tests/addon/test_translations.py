"""Catalogues of all languages against the texts of the add-on, and their display in Blender."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).parents[2]
# The names of the languages in Blender's preferences, and their catalogues.
LANGUAGES = {"de_DE": "de", "es": "es", "fr_FR": "fr", "ja_JP": "ja", "ko_KR": "ko", "zh_HANS": "zh_HANS"}
CATALOGUES = sorted(path.stem for path in (ROOT / "dampsim_addon" / "translations").glob("*.po"))
has_languages = pytest.mark.skipif(len(bpy.app.translations.locales) < 2, reason="Blender as a module has no languages")


MODULE = "dampsim_addon.translations.catalogue"
# Messages, plurals and French translations.
ENTRIES = [
    ("{count} vertex", "{count} vertices", ("{count} sommet", "{count} sommets")),
    ("Cloth", "", ("Tissu",)),
    ("Settle", "", ("Repos",)),
    ("Apply {name}, or choose Springs", "", ("Appliquer {name} ou choisir Ressorts",)),
    ("{vertex} at frame {frame}, but {expected} at rest", "", ("{expected} au repos, mais {vertex} à {frame}",)),
    ("bake again", "", ("précalculer à nouveau",)),
    ("vertex group '{group}' is missing", "", ("il manque le groupe '{group}'",)),
    ("Out of date: {changes}", "", ("Périmé : {changes}",)),
    ("{names} and {number} others", "", ("{names} et {number} autres",)),
    ("{subject} are inside {collider}{pinned}", "", ("{subject} sont dans {collider}{pinned}",)),
    ("choose one of {known}", "", ("choisir parmi {known}",)),
    ("{count} bone", "{count} bones", ("{count} os", "{count} os")),
    ("this frees {bones}", "", ("libère {bones}",)),
    ("the bone {name}", "", ("l’os {name}",)),
    ("{name} has a driver", "", ("{name} a un contrôleur",)),
]
# Composed messages, whose names are capitalised or in quotation marks.
SENTENCES = """
Tail: too many pairs of edges and triangles overlap, and the search for contacts would fill the memory; move these \
objects and their colliders apart, check their scale, or lower Resolution.
Tail: the file of its bake, /A/B, is gone; bake again before exporting.
Tail: the file of its bake, /A/B, is damaged; bake again before exporting.
Tail: baked
Tail: blended
Tail: calibrated
Tail: 40 m/s, hurricane
particles that are not baked
fluid that are not baked
Out of date: the frame rate, the last frame, gravity, the links, the kind, the seams, the painted Settle
'Tweed' is not a fabric; choose one of Silk, Satin, Cotton.
Setup: 'settle' is '', which is not a number; choose a file that Save Setup wrote.
Wobbler: KIND: '' is not a choice; choose one of SOLID, ROPE. It may come from a newer version of DampSim.
Material 'wild': its file is damaged (BOUNCE: 7 frames is outside of its range, 0 to 3 frames); choose another one.
Material 'wild': its file is damaged (it has no values); choose another one.
4 bones with up to 8 influences
Snake: pins are proposed from 4 bones (this frees A, B, C): check them in Weight Paint Mode
Snake: pins are proposed from 9 bones (this frees A and 3 other bones; weak pins keep its pose, because of keys on \
T1): check them in Weight Paint Mode
Snake: no pins are proposed, because bone B would hold every vertex: select the bones to free in Pose Mode and press \
Bones under Pins, or press Gradient
Wobbler: frame 7 cannot be continued, because it has other nodes or vertices. Re-bake all frames instead.
Wobbler: the cache folder /A is a link to another folder; delete the link, or choose another folder.
Tail: the bone T1 has a driver, which wins over the bake; remove it, or choose other bones.
Tail: the bone T1 is connected to its parent and cannot move; disconnect it, or choose Rotation.
Ball: pinned in group 'Pin', fading from the -Y side
Box: linked to Rig: Low, Empty
In use: inertia time τ 0.1 s, velocity kept κ 0.5, removed γ 0.5, 1 substep
In use: inertia time τ 1.4 s, velocity kept κ 0.679, implicit force θ 4, force memory σ 2.72, 3 substeps
Steps were halved on frames 10 to 12, cut short to keep surfaces apart on frame 14.
Out of date: the muscles, keyframed Bounce, weights of 'Pin', drivers of Rig, pose of Hip, the movement of collider Hand
Out of date: the mesh, shape keys of Ball, 3 more
The scale is negative, because of its driver
The scale differs between axes, because of its constraint Hip
The scale differs between axes, and the mesh is linked
Files hold no shear by an uneven scale of the parents of 'Hip'; make it the same on all axes and bake again.
The last bake stopped: the chosen bones carry none of its vertices
Loop needs the pose of frame 1 again at frame 24 or 25, but the drivers of Rig and 2 more do not return to it
Snake: frees A; B moves none of its vertices; more vertices were freed
Ball: part 'Pin' has 1 vertex
Also 3 other objects
Out of date: the mesh, modifiers and constraints of Rig, shape keys of Ball, keyframes of Rig, NLA tracks of Rig
Wobbler: keyframed Follow-through changed since the last bake, so it cannot be resumed.
Source: playback
The bake target '' is unknown; choose another target, or update DampSim
The material file '' is missing. Choose another material.
"""


def entries_of(load: Load) -> list[Any]:
    return [load(MODULE).Entry(*row) for row in ENTRIES]


def load_tool() -> Any:
    spec = importlib.util.spec_from_file_location("dampsim_translations", ROOT / "tools" / "translations.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def language() -> Iterator[Callable[[str], None]]:
    """Return a function that switches the language of the interface, which is English again afterwards."""
    view = bpy.context.preferences.view
    before = view.language

    def switch(name: str) -> None:
        view.language = name
        view.use_translate_interface = view.use_translate_tooltips = view.use_translate_reports = True

    yield switch
    view.language = before


def test_labels_have_context_of_addon(load: Load) -> None:
    """Blender's own translations of labels such as Clear differ from those by which messages name the buttons."""
    module = load("dampsim_addon.translations")
    found = 0
    for base in (bpy.types.Operator, bpy.types.Panel, bpy.types.Menu):
        for cls in base.__subclasses__():
            if cls.__module__.startswith(f"{module.PACKAGE}.") and cls.is_registered:
                assert cls.bl_rna.translation_context == module.CONTEXT, cls
                found += 1
    assert found > 80


@pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="the tool reads the checkout")
def test_catalogues_match_texts(load: Load) -> None:
    tool = load_tool()
    messages = tool.all_messages()
    assert {("Settle", ""), ("{count} vertex", "{count} vertices"), ("bake again", "")} <= messages
    # Placeholders are named after what is cut to size, and lists of words are no messages.
    assert ("The last bake stopped: {error}", "") in messages
    assert not [message for message, _ in messages if "forearm" in message or "ponytail" in message]
    assert set(tool.catalogue.languages()) <= set(LANGUAGES.values())
    for name in tool.catalogue.languages():
        assert tool.faults(name, messages) == []
    # Both directions, placeholders, forms and full stops.
    path = tool.catalogue.FOLDER / "de.po"
    entries = {entry.message: entry for entry in tool.catalogue.read_catalogue(path)}
    wrong = [
        tool.catalogue.Entry("No text of the add-on", "", ("x",)),
        tool.catalogue.Entry("Collides with {name}{note}", "", ("Kollidiert",)),
        tool.catalogue.Entry("{count} vertex", "{count} vertices", ("{count} Punkt",)),
        tool.catalogue.Entry("Choose the direction of the fibres", "", ("Die Richtung wählen.",)),
    ]
    replaced = {**entries, **{entry.message: entry for entry in wrong}}
    del replaced["Settle"]
    tool.catalogue.read_catalogue = lambda _: list(replaced.values())
    found = sorted(fault.partition(":")[0] for fault in tool.faults("de", messages))
    assert found == ["a full stop at its end", "incomplete", "no entry", "no text", "other placeholders"]
    # New texts have no translation at first. A few of them are displayed in English.
    replaced = {message: entry for message, entry in entries.items() if message != "Settle"}
    replaced["Settle"] = tool.catalogue.Entry("Settle", "", ("",), is_fuzzy=True)
    assert tool.faults("de", messages) == []
    assert "Settle" not in tool.catalogue.Catalogue("de", replaced.values()).texts
    for message in list(entries)[:99]:
        replaced[message] = tool.catalogue.Entry(message, entries[message].plural, entries[message].translations, True)
    assert [fault.partition(" ")[2] for fault in tool.faults("de", messages)][-1].endswith("are marked as fuzzy")


def labels_of_names(source: str) -> list[str]:
    """Return the labels of names that Blender would translate if they were words of its interface."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = []
    for call in calls:
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        is_name = re.search(r"\.name\b|_name\(", keywords.get("text", "")) and "translate(" not in keywords["text"]
        if ast.unparse(call.func).endswith(".label") and is_name and keywords.get("translate") != "False":
            found.append(ast.unparse(call))
    return found


def test_names_are_not_translated() -> None:
    found = [
        label
        for path in sorted((ROOT / "dampsim_addon").rglob("*.py"))
        for label in labels_of_names(path.read_text(encoding="utf-8"))
    ]
    assert found == []
    assert labels_of_names("row.label(text=obj.name, icon='NONE')") != []
    assert labels_of_names("row.label(text=obj.name, translate=False)") == []


@pytest.mark.versions
@has_languages
@pytest.mark.parametrize(("locale", "name"), LANGUAGES.items())
def test_labels_in_the_chosen_language(load: Load, language: Callable[[str], None], locale: str, name: str) -> None:
    translations = load("dampsim_addon.translations")
    texts = translations.load_catalogue(name).texts
    label, tooltip = "Follow-through", "Show the distance walked"
    translate = bpy.app.translations
    assert (translate.pgettext_iface(label), translations.translate(label)) == (label, label)
    language(locale)
    assert translate.pgettext_iface(label) == translations.translate(label) == texts[label] != label
    assert translate.pgettext_tip(tooltip) == texts[tooltip]
    assert translate.pgettext_iface("Find a Walk", "Operator") == texts["Find a Walk"]
    assert "2" in translations.translate("2 vertices") != "2 vertices"
    bpy.context.preferences.view.use_translate_interface = False
    assert translations.translate(label) == label


@pytest.mark.versions
@has_languages
def test_unregister_leaves_no_texts(load: Load, language: Callable[[str], None]) -> None:
    translations = load("dampsim_addon.translations")
    language("de_DE")
    translations.unregister()
    try:
        assert bpy.app.translations.pgettext_iface("Follow-through") == "Follow-through"
    finally:
        translations.register()
    assert bpy.app.translations.pgettext_iface("Follow-through") != "Follow-through"


@pytest.mark.parametrize(
    "text", ["模拟选中的网格：封闭的作为实体，开放或薄的作为布料", "選択したメッシュをシミュレートします。閉じたもの"]
)
def test_wrapped_lines_of_chinese_and_japanese(load: Load, text: str) -> None:
    layout = load("dampsim_addon.ui.common.layout")
    lines = layout.wrap_text(text, 100.0, 11.0)
    assert len(lines) > 1
    assert "".join(lines) == text
    assert not any(line[0] in "，。：、" for line in lines)


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("Cloth", "Tissu"),
        # Plural forms: in French, 0 is singular.
        ("0 vertices", "0 sommet"),
        ("1 vertex", "1 sommet"),
        ("2 vertices", "2 sommets"),
        # Values are translated too, and can change places.
        ("3 vertices at frame 2, but 1 vertex at rest", "1 sommet au repos, mais 3 sommets à 2"),
        # Names of users stay, even if they are words of the interface.
        ("Cloth: vertex group 'Settle' is missing; bake again.", "Cloth\u00a0: il manque le groupe 'Settle'\u00a0; précalculer à nouveau."),  # noqa: E501
        ("Apply Cloth, or choose Springs", "Appliquer Cloth ou choisir Ressorts"),
        # Clauses at the begin of a sentence, in lists and after an unknown sentence.
        ("x is y. Bake again", "x is y. Précalculer à nouveau"),
        ("Out of date: Settle, Cloth", "Périmé : Repos, Tissu"),
        ("A, B and 3 others: bake again", "A, B and 3 others\u00a0: précalculer à nouveau"),
        # Lists of names, counted bones, and bones that are described.
        ("choose one of Cloth, Settle, X", "choisir parmi Tissu, Repos, X"),
        ("this frees A, B, C", "libère A, B, C"),
        ("this frees 4 bones", "libère 4 os"),
        ("Rig: the bone tail has a driver", "Rig\u00a0: l’os tail a un contrôleur"),
        ("vertex group '' is missing", "il manque le groupe ''"),
        # Parts that may be missing.
        ("2 vertices are inside Floor", "2 sommets sont dans Floor"),
        ("Unknown", "Unknown"),
        ("", ""),
    ],
)  # fmt: skip
def test_composed_sentences(load: Load, text: str, translated: str) -> None:
    module = load(MODULE)
    assert module.Catalogue("fr", entries_of(load)).translate(text) == translated


@pytest.mark.parametrize("sentence", SENTENCES.strip().splitlines())
@pytest.mark.parametrize("language", ["ja", "ko", "zh_HANS"])
def test_no_english_words_remain(load: Load, language: str, sentence: str) -> None:
    translated = load("dampsim_addon.translations").load_catalogue(language).translate(sentence)
    words = re.findall(r"[A-Za-z]*[a-z]{2}[A-Za-z]*|[A-Z][a-z]\b", re.sub(r"'\w*'", "", translated))
    names = ("DampSim", "Wobbler", "Setup", "Snake", "Tail", "Ball", "Box", "Rig", "Low", "Empty", "Hip", "Hand")
    assert set(words) <= set(names)


@pytest.mark.parametrize("name", CATALOGUES)
def test_values_stay_in_place(load: Load, name: str) -> None:
    catalogue = load("dampsim_addon.translations").load_catalogue(name)
    # Names that are words of the interface, and numbers after a list.
    assert "Bounce" in catalogue.translate("The scale is negative, because of its constraint Bounce")
    assert catalogue.translate("the mesh, 3 more").startswith(catalogue.translate("the mesh"))


def test_specific_templates_win(load: Load) -> None:
    module = load(MODULE)
    rows = [
        ("a whole number", "", ("eine ganze Zahl",)),
        ("{shown} is not {kind}", "", ("{shown} ist nicht {kind}",)),
        ("{value} is not a whole number", "", ("{value} ist keine ganze Zahl",)),
        ("{number}{unit} is too large", "", ("{number}{unit} ist zu groß",)),
    ]
    catalogue = module.Catalogue("de", [module.Entry(*row) for row in rows])
    assert catalogue.translate("2.5 is not a whole number") == "2.5 ist keine ganze Zahl"
    assert catalogue.translate("-1e+20 mm is too large") == "-1e+20 mm ist zu groß"
    assert catalogue.translate("Ball, 2 is too large") == "Ball, 2 ist zu groß"


def test_full_stops_of_chinese(load: Load) -> None:
    module = load(MODULE)
    rows = [("bake again", "", ("重新烘焙",)), ("the file is gone", "", ("文件丢失",))]
    catalogue = module.Catalogue("zh_HANS", [module.Entry(*row) for row in rows])
    assert catalogue.translate("A: the file is gone; bake again.") == "A：文件丢失；重新烘焙。"


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("Move 3 pieces", "조각 3개를 옮김"),
        ("Move 머리", "머리를 옮김"),
        ("Move 눈", "눈을 옮김"),
        ("Move Ball", "Ball을(를) 옮김"),
        ("To frame 12", "12로"),
        ("To frame 13", "13으로"),
        ("To frame 17", "17로"),
    ],
)
def test_particles_of_korean(load: Load, text: str, translated: str) -> None:
    module = load(MODULE)
    rows = [
        ("{count} piece", "{count} pieces", ("조각 {count}개",)),
        ("Move {part}", "", ("{part}을(를) 옮김",)),
        ("To frame {number}", "", ("{number}(으)로",)),
    ]
    assert module.Catalogue("ko", [module.Entry(*row) for row in rows]).translate(text) == translated


def test_catalogue_file_round_trip(load: Load, tmp_path: Path) -> None:
    module = load(MODULE)
    entries = [
        *entries_of(load),
        module.Entry('Quoted "text"\n    of two lines', "", ("Texte « cité »\n",), is_fuzzy=True),
    ]
    path = tmp_path / "fr.po"
    module.write_catalogue(path, "fr", entries)
    assert sorted(module.read_catalogue(path), key=repr) == sorted(entries, key=repr)
    # Editors of such files break long texts into several lines.
    path.write_text(path.read_text(encoding="utf-8").replace('"Tissu"', '""\n"Tis"\n"su"'), encoding="utf-8")
    assert module.Entry("Cloth", "", ("Tissu",)) in module.read_catalogue(path)


@pytest.mark.parametrize("name", CATALOGUES)
def test_sentences_of_each_language(load: Load, name: str) -> None:
    catalogue = load("dampsim_addon.translations").load_catalogue(name)
    sentences = [
        "Tail: vertex group 'Pin' is missing. Did you mean 'Pins'?",
        "3 pieces are not pinned and will fall",
        "100 of its vertices are inside Floor, up to 3 cm deep; 4 of them cannot move, because pins hold them",
        "Hit too hard on frames 3 to 5: shape and speed limited. If the result looks wrong there, slow down the motion "
        "that drives or hits the object, or raise Substeps",
        "Cube: the cache in X was made by a newer DampSim; update DampSim to use it, or clear it or bake again.",
        "Shape keys cannot move the vertices that Mirror generates. Bake to a file, or apply Mirror: the other half "
        "becomes real vertices. The look does not change",
        # The values of these placeholders are words that the code takes from elsewhere, or nothing.
        "At rest 12 frames after the stop",
        "tail.abc is gone; bake again",
        "Cube: its scale is zero along an axis",
    ]
    # Words that stay: names of objects, and words that other languages have too.
    names = ("Tail", "Pin", "Pins", "Floor", "Cube", "X", "Mirror", "DampSim", "cm", "tail.abc")
    for sentence in sentences:
        words = {word.strip(".,:;?'") for word in catalogue.translate(sentence).split()}
        english = {word for word in words if word in sentence.split() and word.isalpha() and word not in names}
        assert english <= {"die", "in", "a", "no", "de", "frames", "cache", "change"}, catalogue.translate(sentence)
