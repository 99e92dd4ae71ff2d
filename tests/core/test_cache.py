"""Caches that are older, damaged or no caches at all: a clear message, quickly, with little memory."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from stored_history import history_bytes

from dampsim.core.base import untrusted_files
from dampsim.core.base.errors import CacheError, StaleCacheError
from dampsim.core.contact.contact_history import ContactHistory, Impact, SupportModes
from dampsim.core.frames.arrays_file import _MAGIC
from dampsim.core.frames.cache import FrameCache
from dampsim.core.frames.frame import Frame, history_arrays, history_from_arrays
from dampsim.core.system.state import (
    BlockHistory,
    ContractionLag,
    DeformationHistory,
    History,
    MuscleHistory,
    SleepCounter,
    State,
    SystemContacts,
    YarnHistory,
)

NUMBER = 2
# Bytes before the head: the magic, the head's length and its checksum.
PREAMBLE_SIZE = len(_MAGIC) + 8 + 32
# Limits of each check: time, s, which ends tests that hang, and memory, bytes. The frames have about a kilobyte.
TIME_LIMIT, MEMORY_LIMIT = 120.0, 2_000_000
posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


@pytest.fixture
def cache(tmp_path: Path) -> FrameCache:
    """Return a cache with three frames of two bodies."""
    made = FrameCache(tmp_path / "cache", "Cape")
    made.start({"shared": {}, "bodies": {}})
    rng = np.random.default_rng(0)
    for number in (1, NUMBER, 3):
        arrays = rng.standard_normal((3, 2, 3))
        history = History({"Cape": BlockHistory(terms={"stretched": rng.standard_normal(4)})})
        state = State(number / 24.0, *arrays, history=history)
        shapes = {"Cape": rng.standard_normal((3, 3)), "Tail": rng.standard_normal((2, 3))}
        made.append(Frame(number, state, shapes, {"Cape": "a", "Tail": "b"}, 5, {"RUNAWAY_STEP": 2}))
    return made


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """Fail a test that exceeds the time limit."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def late(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


def assert_refused(ask: Callable[[], object], words: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CacheError, match=words):
            ask()
        assert tracemalloc.get_traced_memory()[1] < MEMORY_LIMIT
    finally:
        tracemalloc.stop()


def assert_frame_refused(cache: FrameCache) -> None:
    assert_refused(lambda: cache.read(NUMBER), f"Cape: frame {NUMBER} of the cache in .* is damaged or gone")


def assert_header_refused(cache: FrameCache) -> None:
    assert_refused(cache.header, r"Cape: the cache in .* cannot be read")


def frame_file(cache: FrameCache) -> Path:
    return cache.folder / f"frame_{NUMBER:06d}.frame"


def with_head(content: bytes, head: bytes) -> bytes:
    """Return a frame's bytes with another head and the checksum of that head."""
    length = int.from_bytes(content[len(_MAGIC) : len(_MAGIC) + 8], "little")
    return (
        _MAGIC
        + len(head).to_bytes(8, "little")
        + hashlib.sha256(head).digest()
        + head
        + content[PREAMBLE_SIZE + length :]
    )


def frame_head(content: bytes) -> Any:
    length = int.from_bytes(content[len(_MAGIC) : len(_MAGIC) + 8], "little")
    return json.loads(content[PREAMBLE_SIZE : PREAMBLE_SIZE + length])


def test_frame_round_trip_is_exact(cache: FrameCache) -> None:
    rng = np.random.default_rng(0)
    assert cache.frame_numbers() == [1, NUMBER, 3]
    for number in cache.frame_numbers():
        frame = cache.read(number)
        state = frame.state
        np.testing.assert_array_equal(
            [state.positions, state.velocities, state.reference], rng.standard_normal((3, 2, 3))
        )
        np.testing.assert_array_equal(state.history.block("Cape").terms["stretched"], rng.standard_normal(4))
        assert (frame.number, state.time, frame.iterations) == (number, number / 24.0, 5)
        assert frame.guards == {"RUNAWAY_STEP": 2}
        assert frame.inputs == {"Cape": "a", "Tail": "b"}
        for name, count in (("Cape", 3), ("Tail", 2)):
            shape = rng.standard_normal((count, 3)).astype(np.float32)
            np.testing.assert_array_equal(frame.shapes[name], shape)
            np.testing.assert_array_equal(cache.read_shape(number, name), shape)


def full_history() -> History:
    """Return a history of two blocks and their system with all parts."""
    rng = np.random.default_rng(0)
    places = rng.standard_normal((4, 5))
    force, velocity = (
        DeformationHistory(*rng.standard_normal((3, 4, 3))),
        DeformationHistory(rng.standard_normal((2, 3)), None, None),
    )
    cape = BlockHistory(
        force,
        {"flow": rng.standard_normal((2, 3, 3)), "flow of folds": rng.standard_normal(6)},
        {"flow of folds": rng.standard_normal(6)},
        MuscleHistory(np.array([True, False]), np.array([0.0, 3.0])),
        rng.standard_normal(3),
        ContractionLag(0.1, -0.2, 0.3),
        YarnHistory(*places),
        SleepCounter(2.0, rng.standard_normal(5), rng.standard_normal((4, 3))),
        violence=np.array([3.0, 2.0]),
        impact=rng.standard_normal(4),
        pressed_steps=np.array([7.0]),
    )
    # A contact of a point, and one of a pair of edges of a large sheet.
    keys = np.array([[0, 0, 7, 1], [0, 1, 90_000 * 90_000, 0]])
    contacts = ContactHistory(keys, rng.standard_normal((2, 3)), *rng.standard_normal((2, 2)))
    impacts = (Impact(0, -1, 3, 0.5, -1.0, *rng.standard_normal((2, 3))), Impact(0, 1, 1))
    modes = SupportModes(4, 2, rng.standard_normal(6), *rng.standard_normal((2, 6, 6)))
    system = SystemContacts(contacts, impacts, (None, modes), rng.standard_normal(4))
    return History(
        {"Cape": cape, "Tail": BlockHistory(velocity, sleep=SleepCounter(3.0, np.array([2.5]), None))}, {"Cape": system}
    )


def with_history(history: History) -> Frame:
    return Frame(NUMBER, State.at_rest(np.zeros((6, 3)), history=history), {}, {}, 1)


def test_history_round_trip_is_exact(cache: FrameCache) -> None:
    """All parts of a history are read as they were written, and rounding cannot depend on the memory layout."""
    history = full_history()
    cache.append(with_history(history))
    found = cache.read(NUMBER).state.history
    assert history_bytes(found) == history_bytes(history)
    cape, expected = found.block("Cape"), history.block("Cape")
    for field in fields(BlockHistory):
        np.testing.assert_equal(
            flat_fields(getattr(cape, field.name)), flat_fields(getattr(expected, field.name)), field.name
        )
    assert found.block("Tail").deformation.elastic_gradient is None
    np.testing.assert_equal(
        [flat_fields(one) for one in found.contacts["Cape"].impacts],
        [flat_fields(one) for one in history.contacts["Cape"].impacts],
    )
    assert found.contacts["Cape"].contacts.keys.dtype == np.int64
    assert found.contacts["Cape"].support_modes[0] is None
    modes = found.contacts["Cape"].support_modes[1]
    np.testing.assert_equal(flat_fields(modes), flat_fields(history.contacts["Cape"].support_modes[1]))
    assert modes.shapes.flags.c_contiguous
    assert modes.contact_stiffness.flags.c_contiguous


def test_former_names_of_sleep_arrays() -> None:
    """Older frames of woven cloth have other names for the arrays of its sleep counter."""
    arrays = history_arrays(full_history())
    for former, name in (("yarns still", "still"), ("pull on yarns", "pull from outside")):
        arrays["Cape"][former] = arrays["Cape"].pop(name)
    found, expected = history_from_arrays(arrays).block("Cape").sleep, full_history().block("Cape").sleep
    np.testing.assert_equal(flat_fields(found), flat_fields(expected))


def test_former_counts_of_violence() -> None:
    """Older frames have a third count in the middle."""
    arrays = history_arrays(full_history())
    arrays["Cape"]["violence"] = np.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(history_from_arrays(arrays).block("Cape").violence, [3.0, 2.0])
    for damaged in ([3.0, 1.0, 2.5], [3.0, 1.0, 2.0, 0.0], [3.0]):
        arrays["Cape"]["violence"] = np.array(damaged)
        with pytest.raises(ValueError, match="violence"):
            history_from_arrays(arrays)


def flat_fields(part: object) -> object:
    """Return the fields of a part of a history, for comparison."""
    return {one.name: getattr(part, one.name) for one in fields(part)} if is_dataclass(part) else part


NAMES = ["contacts", "impacts", "held", "elastic force", "still", "muscles", "contraction lag", "yarn anchors"]


@pytest.mark.parametrize("name", [*NAMES, "sensors", "no impacts", "no held", "no still", "no yarn anchors"])
def test_history_of_wrong_shape_refused(cache: FrameCache, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An array of another shape is an error, as is one that is missing beside others of its part."""
    arrays = history_arrays(full_history())
    value = arrays["Cape"].pop(name.removeprefix("no "))
    if not name.startswith("no "):
        arrays["Cape"][name] = value[..., None]
    monkeypatch.setattr("dampsim.core.frames.cache.history_arrays", lambda history: arrays)
    cache.append(with_history(History()))
    assert_frame_refused(cache)


def test_shape_of_missing_body_raises(cache: FrameCache) -> None:
    with pytest.raises(CacheError, match="Cape: frame 2 of the cache"):
        cache.read_shape(NUMBER, "Ear")


def link_to_endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@posix
@pytest.mark.parametrize("name", ["header.json", f"frame_{NUMBER:06d}.frame"])
@pytest.mark.parametrize(
    "made", [getattr(os, "mkfifo", None), os.mkdir, link_to_endless_device], ids=["pipe", "folder", "endless"]
)
def test_special_files_refused_immediately(cache: FrameCache, made: Callable[[Path], None], name: str) -> None:
    """Named pipes, folders and endless devices in place of files neither block nor fill the memory."""
    (cache.folder / name).unlink()
    made(cache.folder / name)
    if name == "header.json":
        assert_header_refused(cache)
        assert_refused(cache.take_ownership, "Cape: the cache in")
    else:
        assert_frame_refused(cache)
        assert_refused(lambda: cache.read_shape(NUMBER, "Tail"), "Cape: frame 2 of the cache")
        copy = FrameCache(cache.folder.parent / "copy", "Cape")
        assert_refused(lambda: list(copy.copy_from(cache)), "Cape: ")


@posix
def test_symlinks_do_not_redirect_writes(cache: FrameCache, tmp_path: Path) -> None:
    names = ("header.json", f"frame_{NUMBER:06d}.frame", "lock")
    victims = {name: tmp_path / f"victim of {name}" for name in (*names, "nothing")}
    for name in names:
        victims[name].write_text("precious")
        part = cache.folder / (name if name == "lock" else f"{name}.part")
        part.symlink_to(victims[name])
    copy = FrameCache(tmp_path / "copy", "Cape")
    copy.folder.mkdir()
    (copy.folder / f"frame_{NUMBER:06d}.frame.part").symlink_to(victims["nothing"])
    frame = cache.read(NUMBER)
    with pytest.raises(CacheError, match=r"Cape: the lock .* is a link; delete it\."), cache.write_lock():
        pass
    (cache.folder / "lock").unlink()
    with cache.write_lock():
        cache.take_ownership()
        cache.append(frame)
        FrameCache(cache.folder, "Cape", "another owner").take_ownership()
    list(copy.copy_from(cache))
    assert not victims["nothing"].exists()
    assert [victims[name].read_text() for name in names] == ["precious"] * 3
    assert cache.frame_numbers() == copy.frame_numbers() == [1, NUMBER, 3]
    cache.clear()
    assert [victims[name].read_text() for name in names] == ["precious"] * 3


# Each access to a cache, as a function of the cache and one of its frames.
ACCESSES: dict[str, Callable[[FrameCache, Frame], object]] = {
    "header": lambda cache, frame: cache.header(),
    "numbers": lambda cache, frame: cache.frame_numbers(),
    "read": lambda cache, frame: cache.read(NUMBER),
    "shape": lambda cache, frame: cache.read_shape(NUMBER, "Cape"),
    "append": lambda cache, frame: cache.append(frame),
    "drop": lambda cache, frame: cache.drop_from(1),
    "clear": lambda cache, frame: cache.clear(),
    "start": lambda cache, frame: cache.start({}),
    "own": lambda cache, frame: FrameCache(cache.folder, "Cape", "another owner").take_ownership(),
    "lock": lambda cache, frame: cache.write_lock().__enter__(),
    "copy to": lambda cache, frame: list(cache.copy_from(FrameCache(cache.folder.parent / "real", "Cape"))),
    "copy from": lambda cache, frame: list(FrameCache(cache.folder.parent / "new", "Cape").copy_from(cache)),
}


@posix
@pytest.mark.parametrize("name", ACCESSES)
def test_linked_cache_folder_is_refused(cache: FrameCache, name: str) -> None:
    """A cache folder that is a link is neither read nor changed: its files may be anyone's."""
    frame, real = cache.read(NUMBER), cache.folder.parent / "real"
    cache.folder.rename(real)
    for foreign in ("film.mkv.part", "lock", "frame_000001.npz", "bake.pc2"):
        (real / foreign).write_text("precious")
    cache.folder.symlink_to(real)
    before = contents(real)
    fix = r"Cape: the cache folder .* is a link to another folder; delete the link, or choose another folder\.$"
    with pytest.raises(CacheError, match=fix):
        ACCESSES[name](cache, frame)
    assert contents(real) == before
    assert not (cache.folder.parent / "new").exists()


@posix
@pytest.mark.parametrize("name", ["header.json", f"frame_{NUMBER:06d}.frame"])
def test_linked_cache_file_is_refused(cache: FrameCache, name: str) -> None:
    """A file that is a link is not read, although it leads to an intact one."""
    path, real = cache.folder / name, cache.folder.parent / "real"
    path.rename(real)
    path.symlink_to(real)
    if name == "header.json":
        assert_refused(cache.header, r"Cape: the cache in .* cannot be read \(it is a link to another file\)")
    else:
        assert_frame_refused(cache)
    before = real.read_bytes()
    cache.clear()
    assert real.read_bytes() == before
    assert not cache.folder.exists()


@pytest.mark.parametrize(("tag", "linked"), [(0xA0000003, True), (0xA000000C, True), (0x9000001A, False), (0, False)])
def test_junction_is_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: int, linked: bool) -> None:
    """Junctions of Windows are links, but files of cloud storage, which have reparse points too, are not."""
    monkeypatch.setattr(untrusted_files, "_LINK_TAGS", {0xA0000003, 0xA000000C})
    status = SimpleNamespace(st_mode=tmp_path.stat().st_mode, st_reparse_tag=tag)
    monkeypatch.setattr(Path, "lstat", lambda path: status)
    assert untrusted_files.is_link(tmp_path) is linked


def test_flipped_byte_in_frame_detected(cache: FrameCache) -> None:
    content = frame_file(cache).read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        frame_file(cache).write_bytes(damaged)
        with pytest.raises(CacheError, match="Cape: frame 2 of the cache"):
            cache.read(NUMBER)


def test_truncated_frame_detected(cache: FrameCache) -> None:
    content = frame_file(cache).read_bytes()
    for length in range(len(content)):
        frame_file(cache).write_bytes(content[:length])
        with pytest.raises(CacheError, match="Cape: frame 2 of the cache"):
            cache.read(NUMBER)


def test_corrupt_or_truncated_header_detected(cache: FrameCache) -> None:
    path = cache.folder / "header.json"
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        for wrong in (damaged, content[:place]):
            path.write_bytes(wrong)
            with pytest.raises(CacheError, match=r"Cape: the cache in .* cannot be read"):
                cache.header()


@pytest.mark.parametrize(
    ("length", "size"), [*((length, 0) for length in (2**20, 2**33, 2**63, 2**64 - 1)), (2**33, 2**34)]
)
def test_huge_frame_head_is_not_read(cache: FrameCache, length: int, size: int) -> None:
    """size: of the file in bytes; 0 leaves it unchanged."""
    content = frame_file(cache).read_bytes()
    frame_file(cache).write_bytes(content[: len(_MAGIC)] + length.to_bytes(8, "little") + content[len(_MAGIC) + 8 :])
    if size:
        # A sparse file takes no disk space.
        os.truncate(frame_file(cache), size)
    assert_frame_refused(cache)


def test_huge_header_is_not_read(cache: FrameCache) -> None:
    os.truncate(cache.folder / "header.json", 2**34)
    assert_header_refused(cache)


def test_older_frame_without_guards(cache: FrameCache) -> None:
    content = frame_file(cache).read_bytes()
    head = frame_head(content)
    del head["facts"]["guards"]
    frame_file(cache).write_bytes(with_head(content, json.dumps(head).encode()))
    assert cache.read(NUMBER).guards == {}


HUGE, ENDLESS, NAN = 10**18, float("inf"), float("nan")
# Wrong values of an array's entry, of the head and of its facts.
ENTRY: dict[str, tuple[Any, ...]] = {
    "offset": (8, -8, 10**6, HUGE, 10**400, "far", None, [], ENDLESS),
    "shape": (
        [2], [2, 4], [-2, 3], [-2, -3], [HUGE, 3], [HUGE, HUGE], [0, 10**30], [10**400, 3], 6, "wide", None, {},
        [None], [[2, 3]], [ENDLESS, 3], [NAN, 3],
    ),
    "kind": ("<f2", "|O", "<f4", "", None, ["<f8"]),
    "sum": ("", None, 5, []),
}  # fmt: skip
HEAD: dict[str, tuple[Any, ...]] = {
    "arrays": ({}, [], ["positions"], None, 5, "positions", {"positions": 5}),
    "facts": ({}, [], None, 5, "number"),
}
FACTS: dict[str, tuple[Any, ...]] = {
    "number": (NUMBER + 1, None, "two", []),
    "time": (None, "late", [], {}, 10**400),
    "inputs": (None, 5, [5], "ab"),
    "iterations": (None, "many", [], ENDLESS, NAN),
    "guards": (None, "many", [], {"RUNAWAY_STEP": "many"}, {"RUNAWAY_STEP": NAN}),
}


def set_value(where: Callable[..., Any], key: str, value: Any) -> Callable[..., Any]:
    def change(head: Any) -> Any:
        where(head)[key] = value
        return head

    return change


WRONG_HEADS: dict[str, Callable[..., Any]] = {
    f"{key} {value!s:.24}": set_value(where, key, value)
    for where, values in (
        (lambda head: head["arrays"]["positions"], ENTRY),
        (lambda head: head, HEAD),
        (lambda head: head["facts"], FACTS),
    )
    for key, several in values.items()
    for value in several
} | {"a list": lambda head: [head], "a number": lambda head: 5, "nothing": lambda head: None}


@pytest.mark.parametrize("name", WRONG_HEADS)
def test_malicious_frame_head_is_refused(cache: FrameCache, name: str) -> None:
    """A frame head with wrong values is refused although its checksum is right."""
    content = frame_file(cache).read_bytes()
    frame_file(cache).write_bytes(with_head(content, json.dumps(WRONG_HEADS[name](frame_head(content))).encode()))
    assert_frame_refused(cache)


@pytest.mark.parametrize("head", [b"", b"{", b"\xff", b"[" * 10**4, b'{"facts":' * 10**4, b"9" * 5000], ids=range(6))
def test_invalid_json_frame_head_is_refused(cache: FrameCache, head: bytes) -> None:
    frame_file(cache).write_bytes(with_head(frame_file(cache).read_bytes(), head))
    assert_frame_refused(cache)


@pytest.mark.parametrize(
    "header",
    [
        None,
        5,
        [],
        "header",
        {},
        {"inputs": {}},
        {"owner": ""},
        {"inputs": [], "owner": ""},
        {"inputs": {}, "owner": 5},
        {"inputs": {"shared": 5}, "owner": ""},
        {"inputs": {"names": ["a"]}, "owner": ""},
        {"inputs": {"names": {"a": 5}}, "owner": ""},
        {"inputs": {"bodies": "Cape"}, "owner": ""},
        {"inputs": {"bodies": {"Cape": [1]}}, "owner": ""},
    ],
    ids=str,
)
def test_malformed_header_is_refused(cache: FrameCache, header: object) -> None:
    """A header with wrong values is refused although its checksum is right."""
    check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    (cache.folder / "header.json").write_text(json.dumps({"header": header, "sha256": check}), encoding="utf-8")
    assert_header_refused(cache)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "null", '"header"', "[" * 10**4, '{"header":' * 10**4, "9" * 5000], ids=range(9)
)
def test_invalid_json_header_is_refused(cache: FrameCache, text: str) -> None:
    (cache.folder / "header.json").write_text(text, encoding="utf-8")
    assert_header_refused(cache)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["header.json", f"frame_{NUMBER:06d}.frame"])
def test_largest_parsed_json_memory_is_bounded(cache: FrameCache, name: str) -> None:
    """The largest JSON text that is parsed, of the values that need most memory per character."""
    text = b"[" + b"{}," * 1_333_000 + b"{}]"
    path = cache.folder / name
    path.write_bytes(text if name == "header.json" else with_head(path.read_bytes(), text))
    tracemalloc.start()
    try:
        with pytest.raises(CacheError, match="Cape: "):
            cache.header() if name == "header.json" else cache.read(NUMBER)
        # Half of the memory that a small computer can spare.
        assert 50e6 < tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


OLDER = r"Cape: the cache in .* was made by an older DampSim; clear it or bake again\.$"
NEWER = r"Cape: the cache in .* was made by a newer DampSim; update DampSim to use it, or clear it or bake again\.$"
# Headers of other DampSim versions, without their checksums.
OTHER_VERSIONS: dict[str, tuple[dict[str, object], str]] = {
    "first": ({"inputs": {}, "owner": ""}, OLDER),
    "older": ({"format": 1, "inputs": {}, "owner": ""}, OLDER),
    "newer": ({"format": 3, "inputs": {}, "owner": ""}, NEWER),
    "newer with another header": ({"format": 99, "inputs": "frames.sqlite", "owners": 5}, NEWER),
}


def write_other_version(cache: FrameCache, name: str) -> str:
    """Make the cache one of another DampSim version; return the expected message."""
    header, words = OTHER_VERSIONS[name]
    check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    (cache.folder / "header.json").write_text(json.dumps({"header": header, "sha256": check}), encoding="utf-8")
    return words


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", OTHER_VERSIONS)
def test_other_version_cache_claim_and_copy(cache: FrameCache, name: str, tmp_path: Path) -> None:
    """A cache of another DampSim version is neither claimed nor copied, and stays recognisable."""
    words = write_other_version(cache, name)
    before = contents(cache.folder)
    for one in (cache, FrameCache(cache.folder, "Cape", "/shots/cape.blend")):
        with pytest.raises(StaleCacheError, match=words):
            one.take_ownership()
    there = FrameCache(tmp_path / "there", "Cape")
    there.start({"shared": {"Settle": 12.0}})
    kept = contents(there.folder)
    for to in (there, FrameCache(tmp_path / "fresh", "Cape")):
        with pytest.raises(StaleCacheError, match=words):
            list(to.copy_from(cache))
    assert contents(cache.folder) == before
    assert contents(there.folder) == kept
    assert not (tmp_path / "fresh").exists()
    header = cache.header()
    assert header is not None
    assert (header.is_older, header.is_newer) == (words is OLDER, words is NEWER)


@pytest.mark.parametrize("version", ["2", 2.0, True, None, [2]], ids=str)
def test_non_integer_cache_format_is_damage(cache: FrameCache, version: object) -> None:
    """A format that is not an integer means a damaged header, not another version."""
    header = {"format": version, "inputs": {}, "owner": ""}
    check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    (cache.folder / "header.json").write_text(json.dumps({"header": header, "sha256": check}), encoding="utf-8")
    assert_header_refused(cache)


# Wrong shapes of arrays, with as many numbers as the file has.
WRONG_SHAPES = {
    "positions": ([6], [1, 6], [6, 1], [1, 2, 3], [3, 2], [2, 3, 1], [1, 3], []),
    "velocities": ([6], [1, 3]),
    "reference": ([6], [1, 3]),
    "shape/Cape": ([9], [1, 9], [9, 1], [1, 3, 3], [3, 3, 1], []),
}


@pytest.mark.parametrize(
    ("name", "shape"), [(name, shape) for name, shapes in WRONG_SHAPES.items() for shape in shapes]
)
def test_wrong_array_shape_is_refused(cache: FrameCache, name: str, shape: list[int]) -> None:
    """An array of a wrong shape is refused although its checksum is right."""
    content = frame_file(cache).read_bytes()
    head = frame_head(content)
    entry = head["arrays"][name]
    wide = 8 if entry["kind"] == "<f8" else 4
    start = (
        len(content)
        - sum(int(np.prod(one["shape"])) * int(one["kind"][-1]) for one in head["arrays"].values())
        + entry["offset"]
    )
    part = content[start : start + int(np.prod(shape)) * wide]
    entry |= {"shape": shape, "sum": hashlib.sha256(part).hexdigest()}
    frame_file(cache).write_bytes(with_head(content, json.dumps(head).encode()))
    before = contents(cache.folder)
    assert_frame_refused(cache)
    if name.startswith("shape/"):
        assert_refused(
            lambda: cache.read_shape(NUMBER, "Cape"), "Cape: frame 2 of the cache in .* re-bake from frame 2"
        )
    assert contents(cache.folder) == before


def test_clear_keeps_foreign_files(cache: FrameCache) -> None:
    """Clearing removes damaged cache files and keeps other files of the folder."""
    (cache.folder / "header.json").write_bytes(b"")
    frame_file(cache).write_bytes(b"")
    (cache.folder / "frame_000004.frame.part").write_bytes(b"")
    foreign = {"film.mkv.part", "frame_1.frame", "frame_\u0661\u0661\u0661\u0661\u0661.frame", "notes.txt", ".part"}
    for name in foreign:
        (cache.folder / name).write_text("mine", encoding="utf-8")
    cache.clear()
    assert {path.name for path in cache.folder.iterdir()} == foreign


def test_frame_with_another_spelling_is_ignored(cache: FrameCache) -> None:
    frame_file(cache).rename(cache.folder / f"frame_0{NUMBER:06d}.frame")
    assert cache.frame_numbers() == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="an open folder cannot be renamed there")
def test_link_in_place_of_folder(tmp_path: Path) -> None:
    """A link that replaces the folder during a bake costs no file in the folder to which it leads."""
    victim, cache = tmp_path / "victim", FrameCache(tmp_path / "cache", "Ball")
    victim.mkdir()
    for name in ("lock", "header.json", "frame_000001.frame"):
        (victim / name).write_text("my own")
    cache.start({})
    with cache.write_lock():
        cache.folder.rename(tmp_path / "moved")
        cache.folder.symlink_to(victim)
        # The background thread writes a frame that was handed over before.
        with pytest.raises(CacheError, match="is a link to another folder"):
            cache._append("frame_000001.frame", {}, {})
    assert {path.read_text() for path in victim.iterdir()} == {"my own"}
    assert len(list(victim.iterdir())) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no open file")
@pytest.mark.parametrize("removed", ["folder", "lock"])
def test_lock_outlives_removal_by_holder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, removed: str) -> None:
    """The previous holder removes its lock, and an empty folder, while another process takes the lock."""
    cache, opened = FrameCache(tmp_path / "cache", "Cape"), os.open
    removals = 2

    def remove_once(path: Path, *arguments: int) -> int:
        nonlocal removals
        removals -= 1
        if removals >= 0 and removed == "folder":
            cache.folder.rmdir()
        file = opened(path, *arguments)
        if removals >= 0:
            path.unlink()
        return file

    monkeypatch.setattr(os, "open", remove_once)
    with cache.write_lock():
        monkeypatch.undo()
        with pytest.raises(CacheError, match="another Blender is writing"), cache.write_lock():
            pass
    assert not cache.folder.exists()
