"""Languages of the interface. Texts are English everywhere in the code and in files, and translated for display."""

from __future__ import annotations

import functools

import bpy

from ...core.base.errors import printable_text
from .catalogue import FOLDER, Catalogue, languages, plain_texts, read_catalogue

# Context of properties whose labels Blender itself uses with other meanings, such as Hold, Solid and Green.
CONTEXT = "DampSim"
PACKAGE = __name__.rpartition(".")[0]
# Contexts in which Blender looks up a text: dialogs of operators, labels of this add-on, and all others.
_CONTEXTS = ("*", "Operator", CONTEXT)


@functools.cache
def load_catalogue(language: str) -> Catalogue:
    """Return the catalogue of a language. Its file is read only once."""
    return Catalogue(language, read_catalogue(FOLDER / f"{language}.po"))


def translate(text: str) -> str:
    """Return a text in the language of the interface. It may be composed of several messages."""
    locale = bpy.app.translations.locale
    language = next((one for one in (locale, locale.partition("_")[0]) if one in languages()), "")
    if not text or not language or not bpy.context.preferences.view.use_translate_interface:
        return text
    return load_catalogue(language).translate(text)


def report(operator: bpy.types.Operator, kind: set[str], message: str) -> None:
    """Report a message of an operator in the language of the interface. kind: such as {"INFO"}."""
    # Names of the user may contain line breaks, which would look like several messages.
    message = printable_text(message)
    is_translated = bpy.context.preferences.view.use_translate_reports
    operator.report(kind, translate(message) if is_translated else message)


def register() -> None:
    # Blender's own translation of a label in the usual contexts would win, but messages name the buttons by ours.
    for base in (bpy.types.Operator, bpy.types.Panel, bpy.types.Menu):
        for cls in base.__subclasses__():
            if cls.__module__.startswith(f"{PACKAGE}."):
                cls.bl_translation_context = CONTEXT
    # The templates are compiled when a text of their language is composed first.
    texts = {
        language: {
            (context, message): translation
            for message, translation in plain_texts(read_catalogue(FOLDER / f"{language}.po")).items()
            for context in _CONTEXTS
        }
        for language in languages()
    }
    bpy.app.translations.register(__name__, texts)


def unregister() -> None:
    bpy.app.translations.unregister(__name__)
