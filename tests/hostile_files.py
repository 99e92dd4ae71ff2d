"""Damaged and hostile variants of files, the same for each seed: truncated, flipped bits, other values and types."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

NESTED = json.loads("[" * 200 + "]" * 200)
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, 1e-320, 1e300, -1e300, float("nan"), float("inf"), "",
    "x", "x" * 5000, "../../etc", "/etc/passwd", "a\nb", "\0", "\ud800", "\u202e", "<script>", "=1+1", "-x", [], [[]],
    [None], [1, "a"], {}, {"": {}}, {"a": [1]}, NESTED,
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
