"""Numbers, counts and unknown names as people write them. All messages, panels and reports use these functions."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable

from .errors import MAX_SHOWN, shown_text

# Similarity, from 0 to 1, from which a name is suggested instead of an unknown one.
_MIN_SIMILARITY = 0.6
# Unknown names are answered with the list of all names only if it has at most this many entries.
_MAX_LISTED = 20
# Number of names that are given as examples instead of a longer list.
_MAX_EXAMPLES = 3
# Smaller lengths (mm) and percentages are not written out. Larger numbers keep their exponent.
MIN_WRITTEN, MAX_WRITTEN = 1e-3, 1e15
# Larger lengths are shown as this number of kilometres.
_MAX_KILOMETRES = 1e6
_EXPONENT_NUMBER = re.compile(r"-?\b\d+(\.\d+)?e[+-]\d+\b")
# Plurals of the counted nouns that do not just end in s.
_PLURALS = {"vertex": "vertices", "mesh": "meshes"}


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: '1 vertex', '2 vertices', '0 shape keys'. noun: in the singular."""
    return f"{count} {plural(count, noun)}"


def plural(count: int, noun: str) -> str:
    """Return a noun in the number that its count asks for."""
    if count == 1:
        return noun
    *before, last = noun.rsplit(" ", 1)
    return " ".join([*before, _PLURALS.get(last, f"{last}s")])


def format_number(value: float, digits: int = 3) -> str:
    """Return a number with at least these significant digits, without exponent and trailing zeros."""
    if value == 0.0:
        return "0"
    if not abs(value) < MAX_WRITTEN:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def without_exponents(text: str) -> str:
    """Return a text whose numbers with an exponent are written out."""
    return _EXPONENT_NUMBER.sub(lambda match: format_number(float(match[0]), 6), text)


def format_small(value: float, digits: int = 2) -> str:
    """Return a length in mm or a percentage; all values below MIN_WRITTEN are shown as such."""
    is_small = 0.0 < abs(value) < MIN_WRITTEN
    return f"less than {MIN_WRITTEN:g}" if is_small else format_number(value, digits)


def format_percent(fraction: float, digits: int = 2) -> str:
    """Return a fraction as percentage: '280%' for 2.8."""
    return f"{format_small(100.0 * fraction, digits)}%"


def format_metres(metres: float, digits: int = 2) -> str:
    """Return a length in mm, m or km: '8.2 m'. metres: m."""
    size = abs(metres)
    if not size < 1e3 * _MAX_KILOMETRES:
        return "over a million km"
    if size >= 1e3:
        return f"{format_number(1e-3 * metres, digits)} km"
    return f"{format_number(metres, digits)} m" if size >= 1.0 else f"{format_small(1e3 * metres, digits)} mm"


def format_bytes(count: float) -> str:
    """Return a size in kB, MB or GB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if count >= scale:
            return f"{format_number(count / scale)} {unit}"
    return f"{format_number(count / 1e3)} kB"


def closest_name(name: str, names: Iterable[str]) -> str:
    """Return the most similar of some names, regardless of case; '' if none is similar."""
    # The dashes of options make all of them similar.
    known = {one.lower().lstrip("-"): one for one in names}
    found = difflib.get_close_matches(name.lower().lstrip("-"), known, n=1, cutoff=_MIN_SIMILARITY)
    return known[found[0]] if found else ""


def unknown_name(kind: str, name: str, names: Iterable[str]) -> str:
    """Return a clause for an unknown name, with the closest known one, or with all of them if they are few.

    kind: of the name, with its article, such as 'a parameter'.
    """
    known, shown = list(names), shown_text(name)
    closest = closest_name(name[:MAX_SHOWN], known)
    if closest:
        return f"{shown} is not {kind}; did you mean '{closest}'?"
    if known and len(known) <= _MAX_LISTED:
        return f"{shown} is not {kind}; choose one of {', '.join(known)}."
    if known:
        return f"{shown} is not {kind}; choose another one, such as {', '.join(known[:_MAX_EXAMPLES])}."
    return f"{shown} is not {kind}; there is none."


def match_name(name: str, names: Iterable[str]) -> str:
    """Return the one of some names that equals a name regardless of case; '' if there is none."""
    return next((one for one in names if one.lower() == name.lower()), "")


def shorten_name(name: str, max_bytes: int) -> str:
    """Return a name of at most so many bytes in UTF-8, cut between characters. It must not contain surrogates."""
    return name.encode("utf-8")[:max_bytes].decode("utf-8", errors="ignore")
