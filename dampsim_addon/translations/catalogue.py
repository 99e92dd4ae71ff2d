"""Catalogues of translations, and the translation of composed sentences by their templates.

A catalogue is a PO file. Its messages are labels, tooltips and templates such as "{name}: frame {frame} is missing.".
A composed sentence is compared with the templates, so that code composes messages without knowledge of languages, and
messages that were stored in files or came from other processes are translated too
(docs/decisions/0068-translate-sentences-where-they-are-displayed.md).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


def _one_form(count: float) -> int:
    return 0


def _singular_of_one(count: float) -> int:
    return int(count != 1)


def _singular_below_two(count: float) -> int:
    return int(count >= 2)


# The form of nouns for a count, by language. The names of the files are those by which Blender finds a language with
# and without its country.
PLURAL_FORMS: dict[str, Callable[[float], int]] = {
    **dict.fromkeys(("de", "es"), _singular_of_one),
    "fr": _singular_below_two,
    **dict.fromkeys(("ja", "ko", "zh_HANS"), _one_form),
}
# Placeholders for names that users chose, for paths and for lists of them. Their values stay as they are.
_DATA = re.compile(
    r"(names?|path|folder|files?|blend|groups?|bones?|target|object|collider|owner|place|closest|nearest|which)\d*$"
)
# Values of such placeholders that are translated all the same: "4 bones", "the bone tail", "tail and 3 other bones" and
# "tail and 3 more".
_NOUN_PHRASE = re.compile(r"(\d+|[Tt]he) [a-z]|.* and \d+ (other|more$)")
# A value that may be missing, else begins like a clause after a word.
_OPTIONAL = r"((?:(?:[,;:]| \(| at ).*?)?)"
# Placeholders for numbers, and their values: "A to Z" in a name is no range, and "the mesh, 3 more" no number.
_NUMBER = re.compile(r"(count|number|first|last|one|min_scale|max_scale)\d*$")
_NUMBER_VALUE = r"(-?(?:inf|[\d.,]+(?:e[+-]\d+)?))"
PLACEHOLDER = re.compile(r"\{(\w+)\}")
# Punctuation before a clause, and a progress such as ", 3 / 24" and space after it.
_CLAUSE = re.compile(r"([\s;,.:…]*)(.*?)((?:,? \d+ / \d+)?\s*)", re.DOTALL)
# Ends of sentences and of clauses.
_SENTENCE_END, _CLAUSE_END = ". ", "; "
# How languages write these ends, where they differ, and the full stop at the end of a text.
_ENDS = {
    "fr": {"; ": "\u00a0; ", ": ": "\u00a0: "},
    "ja": {". ": "。", "; ": "。", ".": "。"},
    "zh_HANS": {". ": "。", "; ": "；", ".": "。", ": ": "：", ", ": "，"},
}
# Korean particles whose form depends on the sound before them, as catalogues write them: after a consonant, and after a
# vowel. Digits and letters that end in a consonant when they are read out.
_PARTICLE = re.compile(r"(\S['\"]?)(이\(가\)|은\(는\)|을\(를\)|와\(과\)|\(으\)로)")
_PARTICLES = {"이(가)": "이가", "은(는)": "은는", "을(를)": "을를", "와(과)": "과와"}
_CONSONANT_DIGITS, _L_DIGITS = "013678", "178"
# Number of translated texts that a catalogue remembers.
_MAX_REMEMBERED = 4096


@dataclass(frozen=True)
class Entry:
    """A message with its translations: one, or one for each form of a counted noun.

    message: English text.  plural: English text for other counts than 1; '' for messages without a count.
    is_fuzzy: marked as uncertain, or not translated yet.
    """

    message: str
    plural: str
    translations: tuple[str, ...]
    is_fuzzy: bool = False


@functools.cache
def languages() -> list[str]:
    """Return the names of the languages that have a catalogue."""
    return sorted(path.stem for path in FOLDER.glob("*.po"))


def read_catalogue(path: Path) -> list[Entry]:
    """Return the entries of a PO file without its header. Raises ValueError if it is damaged."""
    entries = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        texts = dict(_fields(block))
        if texts.get("msgid"):
            translations = tuple(text for field, text in texts.items() if field.startswith("msgstr"))
            is_fuzzy = any(line.startswith("#,") and "fuzzy" in line for line in block.splitlines())
            entries.append(Entry(texts["msgid"], texts.get("msgid_plural", ""), translations, is_fuzzy))
    return entries


def _fields(block: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of an entry, whose texts may continue on further lines."""
    for field, quoted in re.findall(r"^([^#\s\"]+) (.*(?:\n\".*)*)", block, re.MULTILINE):
        yield field, "".join(map(json.loads, quoted.splitlines()))


def plain_texts(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the translations of messages without placeholders, as far as they are translated."""
    return {
        entry.message: entry.translations[0]
        for entry in entries
        if entry.translations[0] and not PLACEHOLDER.search(entry.message)
    }


def write_catalogue(path: Path, language: str, entries: Iterable[Entry]) -> None:
    """Write a PO file, sorted by message."""
    rule = {_one_form: "nplurals=1; plural=0;", _singular_of_one: "nplurals=2; plural=(n != 1);"}
    forms = rule.get(PLURAL_FORMS[language], "nplurals=2; plural=(n > 1);")
    header = (f"Language: {language}\n", "Content-Type: text/plain; charset=UTF-8\n", f"Plural-Forms: {forms}\n")
    blocks = ['msgid ""\nmsgstr ""\n' + "\n".join(map(_quoted, header))]
    for entry in sorted(entries, key=lambda entry: (entry.message, entry.plural)):
        lines = ["#, fuzzy"] if entry.is_fuzzy else []
        lines.append(f"msgid {_quoted(entry.message)}")
        if entry.plural:
            lines.append(f"msgid_plural {_quoted(entry.plural)}")
            lines += [f"msgstr[{form}] {_quoted(text)}" for form, text in enumerate(entry.translations)]
        else:
            lines.append(f"msgstr {_quoted(entry.translations[0])}")
        blocks.append("\n".join(lines))
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _partition(text: str, separator: str) -> tuple[str, str, str]:
    """Return the texts around the first separator that is outside of parentheses, like str.partition()."""
    place = text.find(separator)
    while place >= 0 and text.count("(", 0, place) > text.count(")", 0, place) and ")" in text[place:]:
        place = text.find(separator, place + 1)
    return (text, "", "") if place < 0 else (text[:place], separator, text[place + len(separator) :])


def _with_particles(text: str) -> str:
    """Return a Korean text with the particles that fit the words before them. After Latin letters both forms stay."""

    def fitting_particle(match: re.Match[str]) -> str:
        last, forms = match[1][0], _PARTICLES.get(match[2])
        if "가" <= last <= "힣":
            final = (ord(last) - ord("가")) % 28
            has_consonant, is_l = final != 0, final == 8
        elif last.isdecimal():
            has_consonant, is_l = last in _CONSONANT_DIGITS, last in _L_DIGITS
        elif last == "%":
            has_consonant = is_l = False
        else:
            return match[0]
        particle = forms[not has_consonant] if forms else "으로" if has_consonant and not is_l else "로"
        return match[1] + particle

    return _PARTICLE.sub(fitting_particle, text)


class _Template:
    """A message with placeholders."""

    def __init__(self, message: str, translations: tuple[str, ...]) -> None:
        self.translations = translations
        literals = PLACEHOLDER.split(message)[::2]
        self.names = PLACEHOLDER.findall(message)
        # Names in quotation marks, and others that users chose.
        quoted = re.findall(r"'\{(\w+)\}'", message)
        self.data = {name for name in self.names if name in quoted or _DATA.match(name)}
        self.anchor = max(literals, key=len)
        self.weight = sum(map(len, literals))
        pattern = before = ""
        for literal, name in zip(literals, [*self.names, ""], strict=True):
            # A clause that follows a word directly, as in "below {collider}{pinned}", may be missing.
            is_optional = bool(pattern or literal) and (not literal or literal[-1].isalpha())
            # A unit follows its number directly.
            is_unit = not literal and bool(_NUMBER.match(before))
            any_text = "(.*?)" if literal.endswith("'") or is_unit else "(.+?)"
            part = _NUMBER_VALUE if _NUMBER.match(name) else _OPTIONAL if is_optional and not is_unit else any_text
            pattern += re.escape(literal) + (part if name else "")
            before = name
        self.pattern = re.compile(pattern, re.DOTALL)


class Catalogue:
    """The translations of one language."""

    def __init__(self, language: str, entries: Iterable[Entry]) -> None:
        """Compile the templates. language: one of PLURAL_FORMS."""
        self._form, self._ends = PLURAL_FORMS[language], _ENDS.get(language, {})
        self._has_capital_nouns, self._has_particles = language == "de", language == "ko"
        known = list(entries)
        self.texts = plain_texts(known)
        self._templates = [
            _Template(message, entry.translations)
            for entry in known
            for message in (entry.message, entry.plural)
            if all(entry.translations) and PLACEHOLDER.search(message)
        ]
        # A template with more fixed characters is more specific, and is tried first.
        self._templates.sort(key=lambda template: -template.weight)
        self._remembered: dict[str, str] = {}

    def translate(self, text: str) -> str:
        """Return a label, tooltip or composed sentence in the language. Unknown parts of it stay as they are."""
        if text not in self._remembered:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[text] = self._translated(text)[1]
        return self._remembered[text]

    def _translated(self, text: str) -> tuple[int, str]:
        """Return a translation, and the number of characters that catalogue entries account for."""
        if text in self.texts:
            return len(text), self.texts[text]
        match = _CLAUSE.fullmatch(text)
        assert match is not None
        before, clause, after = match.groups()
        known, found = self._sentences(clause)
        return known, before + found + after

    def _sentences(self, text: str) -> tuple[int, str]:
        if text in self.texts:
            return len(text), self.texts[text]
        for end in (_SENTENCE_END, _CLAUSE_END):
            head, separator, tail = _partition(text, end)
            if separator:
                (known, head), (also_known, tail) = self._translated(head), self._translated(tail)
                return known + also_known, head + (self._ends.get(end, end) if known else end) + tail
        if text.endswith(".") and text not in self.texts:
            known, found = self._sentences(text[:-1])
            return known, found + (self._ends.get(".", ".") if known else ".")
        return max(self._readings(text), key=lambda reading: reading[0])

    def _readings(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the translations of a clause after the name of an object, as a whole, and as a list.

        If several account for equally many characters, the first one is taken: commas may be part of a value.
        """
        yield 0, text
        yield from self._parts(text, ": ")
        yield self._whole(text)
        yield from self._parts(text, ", ")
        if text[:1].isupper():
            known, found = self._whole(text[0].lower() + text[1:])
            yield known, re.sub(r"^\W?\w", lambda first: first[0].upper(), found)
        elif text.title() in self.texts:
            label = self.texts[text.title()]
            yield len(text), label if self._has_capital_nouns else label[:1].lower() + label[1:]

    def _parts(self, text: str, separator: str) -> Iterator[tuple[int, str]]:
        """Yield the translation of the texts before and after the first separator."""
        head, found, tail = _partition(text, separator)
        if found:
            known, tail = self._translated(tail)
            # Before a colon is a name.
            also_known, head = (0, head) if separator == ": " else self._translated(head)
            joint = self._ends.get(separator, separator) if known or also_known else separator
            yield known + also_known, head + joint + tail

    def _whole(self, text: str) -> tuple[int, str]:
        if text in self.texts:
            return len(text), self.texts[text]
        matches = (
            (template, template.pattern.fullmatch(text)) for template in self._templates if template.anchor in text
        )
        filled = (self._filled(template, match.groups()) for template, match in matches if match is not None)
        return max(filled, key=lambda reading: reading[0], default=(0, text))

    def _filled(self, template: _Template, values: tuple[str, ...]) -> tuple[int, str]:
        """Return the translation of a template with its values, and the number of characters known of both."""
        known, form, filled = template.weight, 0, dict[str, str]()
        for name, value in zip(template.names, values, strict=True):
            if name == "count" and len(template.translations) > 1:
                form = self._form(float(value.replace(",", "")))
            is_name = name in template.data and not _NOUN_PHRASE.match(value)
            if is_name or not value.strip(".,0123456789"):
                filled[name] = value
            else:
                also_known, filled[name] = self._translated(value)
                known += also_known
        text = PLACEHOLDER.sub(lambda place: filled.get(place[1], place[0]), template.translations[form])
        return known, _with_particles(text) if self._has_particles else text
