"""Damaged and hostile frames, headers and texts: one sentence each, and never a silent continuation."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_files import QUICK, SLOW, assert_is_sentence, damaged_bytes, hostile_arrays, hostile_value
from test_bake import swaying_bar
from test_cache import frame_head, full_history, with_head

from builders import DOWN
from dampsim.core import Body, Scene, Settings
from dampsim.core.base import untrusted_files
from dampsim.core.base.errors import CacheError, DampSimError
from dampsim.core.frames.arrays_file import ArraysFile, pack_arrays
from dampsim.core.frames.cache import FrameCache
from dampsim.core.frames.texture_files import decode_exr, decode_png, encode_exr, encode_png
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.fingerprint import cache_inputs, describe_changes
from dampsim.core.simulation.bake import bake
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.simulation.stored_frames import find_fault

counts = pytest.mark.parametrize("count", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
LAST, KEPT = 4, 3


@pytest.fixture(scope="module")
def baked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Simulation, Path, dict[str, bytes]]:
    """Return a simulation of a plastic bar, the folder of its bake and the files in it."""
    simulation = Simulation(swaying_bar(last=LAST, plastic_yield=0.2, resolution=60, settle=6.0))
    folder = tmp_path_factory.mktemp("baked")
    for _ in bake(simulation, FrameCache(folder, "Bar")):
        pass
    return simulation, folder, {path.name: path.read_bytes() for path in folder.iterdir()}


def frame_name(number: int) -> str:
    return f"frame_{number:06d}.frame"


def error_message(run: Callable[[], object]) -> str:
    """Return the sentence of a CacheError; '' without one."""
    try:
        run()
    except CacheError as error:
        assert_is_sentence(str(error))
        return str(error)
    return ""


def read_all(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return facts and arrays of a frame file."""
    path.write_bytes(content)
    with path.open("rb") as file:
        data = ArraysFile(file, len(content))
        return data.facts, {name: data.read(name) for name in data.names}


def variants(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, Any], Any, bool]]:
    """Yield the name, facts and arrays of crafted frames, and whether a bake may continue from them."""
    for name, array in arrays.items():
        changed = {
            "nan": np.full_like(array, np.nan), "huge": np.full_like(array, 1e38), "short": array[: len(array) // 2],
            **({"singular": np.full_like(array, 1.0), "tiny": 1e-300 * array} if name.endswith("flow") else {}),
            "empty": array[:0], "long": np.concatenate([array, array]), "flat": array[..., None],
        }  # fmt: skip
        for what, value in changed.items():
            if value.shape != array.shape or what in ("nan", "huge", "singular", "tiny"):
                yield f"{name} {what}", facts, {**arrays, name: value}, False
        # The next step computes the elastic force again.
        is_optional = "elastic force" in name or "still" in name or "pull" in name
        yield f"{name} gone", facts, {k: v for k, v in arrays.items() if k != name}, is_optional
    yield "all gone", facts, {k: v for k, v in arrays.items() if not k.startswith("memory/")}, False
    half = {k: v[: len(v) // 2] if k in ("positions", "velocities", "reference") else v for k, v in arrays.items()}
    yield "half the nodes", facts, half, False
    yield "other object", facts, {**arrays, "memory/zz\x1fflow": np.zeros(3), "memory/": np.zeros(3)}, False
    yield "other shape", facts, {**arrays, "shape/zz": np.zeros((3, 3))}, False
    wrong: dict[str, list[Any]] = {
        "time": [None, "x", float("nan"), 1e308, -5.0, [], 5, True, facts["time"] + 0.1],
        "iterations": [None, "x", -1, 10**400, 10**15, 4.5, True],
        "guards": ["x", None, [], *({"RUNAWAY_STEP": count} for count in ("x", None, 10**30, -1, False))],
        "inputs": [None, [], {"Bar": 5}, {"Bar": ["x"]}],
        "number": ["3", 3.0, True, 4],
    }
    for key, values in wrong.items():
        for value in values:
            yield f"{key} {value!r:.20}", {**facts, key: value}, arrays, False


def test_crafted_frames_are_never_continued(baked: tuple[Simulation, Path, dict[str, bytes]], tmp_path: Path) -> None:
    """Frames with right checksums and wrong content are refused, in the last kept frame too."""
    simulation, _, files = baked
    cache = FrameCache(tmp_path / "cache", "Bar")
    cache.folder.mkdir()
    facts, arrays = read_all(files[frame_name(KEPT)], tmp_path / "x")
    assert any("flow" in name for name in arrays)
    for name, content in files.items():
        if name != frame_name(LAST):
            (cache.folder / name).write_bytes(content)
    for what, wrong_facts, wrong_arrays, may_continue in variants(facts, arrays):
        (cache.folder / frame_name(KEPT)).write_bytes(pack_arrays(wrong_facts, wrong_arrays))
        message = error_message(lambda: [*bake(simulation, cache)])
        assert f"re-bake from frame {KEPT}" in message or (may_continue and not message), what
        assert message or np.isfinite(cache.read(LAST).surface).all()
        cache.drop_from(LAST)
    (cache.folder / frame_name(KEPT)).write_bytes(files[frame_name(KEPT)])
    for _ in bake(simulation, cache):
        pass
    assert (cache.folder / frame_name(LAST)).read_bytes() == files[frame_name(LAST)]


@pytest.mark.parametrize("size", [20.0, 1e300])
def test_impossible_folds_are_never_continued(tmp_path: Path, size: float) -> None:
    """Rest angles of more than a whole turn are no folds, and the kernel refuses them."""
    axis = np.linspace(0.0, 0.3, 5)
    x, y = (one.ravel() for one in np.meshgrid(axis, axis, indexing="ij"))
    corners = np.array([i * 5 + j for i in range(4) for j in range(4)])
    halves = ([0, 5, 1], [1, 5, 6])
    triangles = np.concatenate([corners[:, None] + np.array(half) for half in halves])
    surface = Surface("Sheet", np.stack([x, y, 0.02 * np.sin(20.0 * x)], axis=1), triangles)
    body = Body(surface, (x < 1e-9).astype(float), Settings(plastic_yield=0.5, plastic_creep=100.0), "CLOTH")
    simulation, cache = Simulation(Scene((body,), 24.0, DOWN, 1, 3)), FrameCache(tmp_path, "Sheet")
    for _ in bake(simulation, cache):
        pass
    frame = cache.read(3)
    block = frame.state.history.block("Sheet")
    name = next(name for name, flow in block.terms.items() if flow.ndim == 1)
    crafted = replace(block, terms={**block.terms, name: np.full_like(block.terms[name], size)})
    history = frame.state.history.with_block("Sheet", crafted)
    assert find_fault(frame, None, simulation) == ""
    assert find_fault(replace(frame, state=replace(frame.state, history=history)), None, simulation)


def test_stored_contacts_fit_the_system(baked: tuple[Simulation, Path, dict[str, bytes]]) -> None:
    """Impacts and supports of regions that the system does not have are a fault."""
    simulation, folder, _ = baked
    frame = FrameCache(folder, "Bar").read(KEPT)
    name = simulation.islands[0].system.name
    contacts = full_history().contacts["Cape"]
    state = copy.copy(frame.state)
    object.__setattr__(state, "history", copy.copy(state.history))
    object.__setattr__(state.history, "contacts", {name: contacts})
    broken = copy.copy(frame)
    object.__setattr__(broken, "state", state)
    assert find_fault(frame, None, simulation) == ""
    assert "the contacts of" in find_fault(broken, None, simulation)
    # A frame that had contacts is not followed by one without.
    assert "it lacks a part of the history" in find_fault(frame, broken, simulation)


@counts
def test_damaged_frames_are_refused(
    baked: tuple[Simulation, Path, dict[str, bytes]], tmp_path: Path, count: int
) -> None:
    simulation, _, files = baked
    cache, content, dice = FrameCache(tmp_path / "cache", "Bar"), files[frame_name(KEPT)], random.Random(1)
    cache.folder.mkdir()
    for name, known in files.items():
        (cache.folder / name).write_bytes(known)
    for _ in range(count):
        (cache.folder / frame_name(LAST)).unlink(missing_ok=True)
        if dice.random() < 0.6:
            wrong = dice.choice([damaged_bytes, hostile_arrays])(content, dice)
        else:
            wrong = with_head(content, json.dumps(hostile_value(frame_head(content), dice)).encode())
        (cache.folder / frame_name(KEPT)).write_bytes(wrong)
        try:
            for _ in bake(simulation, cache):
                pass
        except DampSimError as error:
            assert_is_sentence(str(error))
        else:
            # A harmless change, such as that of an object's digest.
            assert np.isfinite(cache.read(LAST).state.positions).all()


@counts
def test_damaged_headers_are_refused(
    baked: tuple[Simulation, Path, dict[str, bytes]], tmp_path: Path, count: int
) -> None:
    simulation, _, files = baked
    cache, content, dice = FrameCache(tmp_path / "cache", "Bar"), files["header.json"], random.Random(2)
    cache.folder.mkdir()
    known, inputs = json.loads(content)["header"], cache_inputs(simulation.scene)
    for _ in range(count):
        if dice.random() < 0.5:
            written = damaged_bytes(content, dice)
        else:
            header = hostile_value(known, dice)
            check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
            written = json.dumps({"header": header, "sha256": check}).encode()
        (cache.folder / "header.json").write_bytes(written)
        try:
            found = cache.header()
        except CacheError as error:
            assert_is_sentence(str(error))
        else:
            assert found is not None
            assert_is_sentence(f"Bar: {' and '.join(describe_changes(found.inputs, inputs))} changed.")


def test_messages_limit_foreign_words(baked: tuple[Simulation, Path, dict[str, bytes]]) -> None:
    """Names and values of a header are shown on one line, shortened, and not all of them."""
    inputs = cache_inputs(baked[0].scene)
    wild, shared = {f"wild\n{number}{'x' * 5000}": number for number in range(1000)}, inputs["shared"]
    for part in (
        {"shared": {**shared, **wild}},
        {"shared": {**shared, "the frame rate": "a\nb" * 999}},
        {"bodies": {**inputs["bodies"], **{key: {} for key in wild}}},
    ):
        text = " and ".join(describe_changes({**inputs, **part}, inputs))
        assert text
        assert len(text) < 4000
        assert "\n" not in text


def png_chunks(*chunks: tuple[bytes, bytes]) -> bytes:
    """Return a PNG file with right checksums."""
    packed = (struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
              for name, data in chunks)  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


IMAGES = {
    "png": (encode_png(np.linspace(0.0, 1.0, 189).reshape(9, 7, 3)), decode_png),
    "exr": (encode_exr(np.linspace(0.0, 1.0, 189).reshape(9, 7, 3).astype(np.float16)), decode_exr),
}


@counts
@pytest.mark.parametrize("kind", IMAGES)
def test_damaged_images_are_refused(kind: str, count: int) -> None:
    content, decode = IMAGES[kind]
    dice, known = random.Random(4), decode(content)
    for _ in range(count):
        with contextlib.suppress(ValueError):
            found = decode(damaged_bytes(content, dice))
            assert found.shape == (9, 7, 3)
            assert np.isfinite(found).all()
            # OpenEXR has no checksums of the pixels.
            assert kind == "exr" or (found == known).all()


def test_damaged_lines_are_refused() -> None:
    """The head, the places and the numbers of lines of an OpenEXR file, and pixels that are not finite, are checked."""
    content, decode = IMAGES["exr"]
    pixels = len(content) - 9 * (8 + 3 * 7 * 2)
    for place in (*range(4, pixels + 8), pixels + 8 + 3 * 7 * 2):
        with pytest.raises(ValueError, match=r"OpenEXR|subsection"):
            decode(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(ValueError, match="OpenEXR"):
        decode(content[:-2] + np.float16(np.nan).tobytes())


def test_images_need_little_memory() -> None:
    """A file that unpacks to 200 MB, and sizes that no file has, are refused within ten times the size of the file."""
    bomb = zlib.compress(bytes(200_000_000), 9)
    heads = [(7, 9), (40_000, 40_000), (2**31 - 1, 2**31 - 1), (1, 2**32 - 1)]
    for width, height in heads:
        head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
        file = png_chunks((b"IHDR", head), (b"IDAT", bomb), (b"IEND", b""))
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="another size"):
                decode_png(file)
            assert tracemalloc.get_traced_memory()[1] < 10 * len(file)
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("length", [-28, -2, 2**31 - 1])
def test_attribute_lengths_stay_in_file(length: int) -> None:
    """An attribute of an OpenEXR file whose length leads back to its start does not repeat for ever."""
    content, decode = IMAGES["exr"]
    place = content.index(b"compression\0compression\0") + len(b"compression\0compression\0")
    with pytest.raises(ValueError, match="is damaged"):
        decode(content[:place] + struct.pack("<i", length) + content[place + 4 :])


def test_attribute_number_is_limited() -> None:
    content, decode = IMAGES["exr"]
    more = b"".join(b"a%d\0int\0\4\0\0\0\0\0\0\0" % number for number in range(60))
    with pytest.raises(ValueError, match="too many attributes"):
        decode(content[:8] + more + content[8:])


TEXTS = {
    "json": (b'{"a": [1, 2.5, {"b": "text", "c": null}], "d": {"e": true}}', untrusted_files.parse_json),
    "toml": (b'a = [1, 2.5]\n[b]\nc = "text"\nd.e = { f = true }\n[[g]]\nh = 2020-01-01\n', untrusted_files.parse_toml),
}


@counts
@pytest.mark.parametrize("kind", TEXTS)
def test_damaged_texts_raise_value_error(kind: str, count: int) -> None:
    content, parse = TEXTS[kind]
    dice = random.Random(3)
    for _ in range(count):
        with contextlib.suppress(ValueError):
            parse(damaged_bytes(content, dice))


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("json", "[" * 35 + "]" * 35, "nested too deeply"), ("json", "[" * 10**6, "nested too deeply"),
        ("json", "[1e400]", "too large or not a number"), ("json", "[ NaN ]", "too large or not a number"),
        ("json", f"[{2**63}]", "too large or not a number"), ("json", '{"a": 1, "a": 2}', "is repeated"),
        ("json", " " * 4_000_001, "too large"), ("json", b"\xff", "not UTF-8"),
        ("toml", "a = " + "[" * 35 + "]" * 35, "nested too deeply"),
        ("toml", "a = " + "[" * 10**5, "nested too deeply"),
        ("toml", "a." * 10**6 + "b = 1", "nested too deeply"), ("toml", "a = inf", "too large or not a number"),
        ("toml", "a = 0x" + "f" * 5000, "too large or not a number"), ("toml", "a = 1\na = 2", "Cannot overwrite"),
    ],
    ids=range(14),
)  # fmt: skip
def test_strict_parsing_states_fault(kind: str, text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TEXTS[kind][1](text)
    # 32 levels are accepted.
    assert untrusted_files.parse_json("[" * 32 + "]" * 32)
