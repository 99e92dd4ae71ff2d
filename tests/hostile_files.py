"""Damaged and hostile variants of files, the same for each seed: truncated, flipped bits, other values and types."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from typing import Any

import numpy as np

# Head of a file of core/frames/arrays_file.py: mark, length of the head, and its checksum.
_MARK, _PREAMBLE = b"DampSim frame 2\n", 56
_NUMBERS = [float("nan"), float("inf"), -0.0, 5e-324, 1e18, 1e29, 1e31, 3e38, -1.0, 0.5]
_ENTRIES: dict[str, list[Any]] = {
    "kind": [">f8", "<i8", "O", "|O", "<c16", "f8", None, 8, ["<f8"], "<M8[s]", "<U4", "V8", "<f4", "<f8"],
    "shape": [
        [2**40, 0], [2**62, 2**62], [0] * 70, [1] * 33, [], [-1, -3], [True, 3], ["3", 3], [3.7, 3], None, 3, {"0": 3},
        [[3]], [10**30, 0], [None],
    ],
    "offset": [0, -8, 2**63, True, "0", 1.5, None, 4, 10**30],
    "sum": ["", None, 0, "0" * 64, ["x"]],
}  # fmt: skip

NESTED = json.loads("[" * 200 + "]" * 200)
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, 1e-320, 1e300, -1e300, float("nan"), float("inf"), "",
    "x", "x" * 5000, "../../etc", "/etc/passwd", "a\nb", "\0", "\ud800", "\u202e", "<script>", "=1+1", "-x", [], [[]],
    [None], [1, "a"], {}, {"": {}}, {"a": [1]}, NESTED, -0.0, 5e-324, 1.7e308, 2**53 + 1, "nan", "-inf", "1e999",
    "a\r\nb", "\x1b[31m", "{0.__class__}", "%s%n", "CON", "C:\\x", "\ufeff", "ä" * 200, "\uff1d1", [[1], [2]],
]  # fmt: skip
QUICK, SLOW = 50, 1000


def damaged_bytes(content: bytes, dice: random.Random) -> bytes:
    """Return a content that is truncated, or has flipped bits, or missing, repeated, random or inserted parts."""
    start = dice.randrange(len(content) + 1)
    end = min(start + dice.choice([1, 2, 8, 64, 1000]), len(content))
    noise = dice.randbytes(dice.choice([1, 4, 100]))
    deep = dice.choice([b"[", b'{"a":', b"\xff", b"\0", b"9"]) * dice.choice([1, 10, 100_000])
    kinds = {
        "truncated": lambda: content[:start],
        "flipped": lambda: content[:start] + bytes(byte ^ (1 << dice.randrange(8)) for byte in content[start:end])
        + content[end:],
        "missing": lambda: content[:start] + content[end:],
        "repeated": lambda: content[:end] + content[start:],
        "random": lambda: content[:start] + noise + content[start + len(noise) :],
        "inserted": lambda: content[:start] + noise + content[start:],
        "deep": lambda: content[:start] + deep + content[start:],
        "empty": lambda: b"",
        "twice": lambda: content + content,
        "exchanged": lambda: content[end:] + content[start:end] + content[:start],
        "byte order mark": lambda: b"\xef\xbb\xbf" + content,
        "UTF-16": lambda: content.decode("latin-1").encode("utf-16"),
        "mixed line ends": lambda: content.replace(b"\n", b"\r").replace(b",", b",\n\r"),
        "repeated keys": lambda: content.replace(b"{", b'{"name": 1, "name": 2, ', 1),
        "escaped": lambda: content.replace(b"e", b"\\ud800"),
    }  # fmt: skip
    return kinds[dice.choice(list(kinds))]()


def hostile_value(value: Any, dice: random.Random) -> Any:
    """Return a copy of a JSON value in which one to three values are replaced, removed, added or renamed."""
    found = {"": copy.deepcopy(value)}
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        places = list(_places(found))
        parent, key = dice.choice(places)
        change = dice.choice(["replaced", "replaced", "replaced", "removed", "added", "scaled"])
        if change == "removed" and parent is not found:
            del parent[key]
        elif change == "added" and isinstance(parent[key], dict):
            parent[key][dice.choice(["x", "", "\0", "name", "a" * 300])] = dice.choice(VALUES)
        elif change == "scaled" and type(parent[key]) in (int, float) and abs(parent[key]) < 1e300:
            parent[key] = parent[key] * dice.choice([-1, 2, 10**6, 0.5]) + dice.choice([0, 1])
        else:
            parent[key] = copy.deepcopy(dice.choice(VALUES))
    return found[""]


def hostile_arrays(content: bytes, dice: random.Random) -> bytes:
    """Return a file of named arrays with right checksums and a wrong head, entry, array or length."""
    length = int.from_bytes(content[len(_MARK) : len(_MARK) + 8], "little")
    head, data = json.loads(content[_PREAMBLE : _PREAMBLE + length]), content[_PREAMBLE + length :]
    table = head["arrays"]
    name, other = dice.choice(list(table)), dice.choice(list(table))
    change = dice.choice(["head", "facts", "entry", "entry", "numbers", "numbers", "exchanged", "renamed", "length"])
    if change == "head":
        head = hostile_value(head, dice)
    elif change == "facts":
        head["facts"] = hostile_value(head["facts"], dice)
    elif change == "entry":
        key = dice.choice(list(_ENTRIES))
        table[name][key] = copy.deepcopy(dice.choice(_ENTRIES[key]))
    elif change == "numbers":
        entry = table[name]
        start, kind = entry["offset"], np.dtype(entry["kind"])
        numbers = np.frombuffer(data, dtype=kind, count=int(np.prod(entry["shape"])), offset=start).copy()
        places = slice(None) if dice.random() < 0.5 else dice.randrange(max(numbers.size, 1))
        if numbers.size:
            numbers[places] = kind.type(dice.choice(_NUMBERS))
        data = data[:start] + numbers.tobytes() + data[start + numbers.nbytes :]
        entry["sum"] = hashlib.sha256(numbers.tobytes()).hexdigest()
    elif change == "exchanged":
        table[name], table[other] = table[other], table[name]
    elif change == "renamed":
        new_name = dice.choice(["memory/", "memory/\x1f", "memory/x\x1fcatch", "__class__", "../x", other])
        table[new_name] = table.pop(name)
    text = json.dumps(head).encode()
    size = dice.choice([0, 1, 2**32, 2**64 - 1, len(text) - 1, len(text) + 8]) if change == "length" else len(text)
    return _MARK + size.to_bytes(8, "little") + hashlib.sha256(text).digest() + text + data


def _places(value: Any) -> Any:
    """Yield the container and the key of each value below a container, at most 20 levels deep."""
    stack = [(value, 0)]
    while stack:
        parent, depth = stack.pop()
        keys = list(parent) if isinstance(parent, dict) else range(len(parent))
        for key in keys:
            yield parent, key
            if isinstance(parent[key], dict | list) and depth < 20:
                stack.append((parent[key], depth + 1))


def assert_is_sentence(message: str) -> None:
    """Assert that a message is one paragraph of printable text, ends like a sentence and is no traceback."""
    assert message == message.strip()
    assert message
    assert len(message) < 1200, message
    assert "\n" not in message
    assert "Traceback" not in message
    assert message[-1] in ".?", message
