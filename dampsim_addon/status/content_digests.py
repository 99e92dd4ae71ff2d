"""Digests of contents that change without an edit: pixels of images, files, and the scripts behind Python drivers.

Live cannot notice such changes, and marks its frames as unverified. A bake reads the contents anew. Here they are
compared with those of the last bake, to report that it is out of date. A timer does that: panels never read the disk.

A file is read again only if its time or its size has changed. Files are told apart by their contents, since a copy of a
project has other times.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...core.base.untrusted_files import open_regular_file
from ..blender.animation import drivers_of
from ..blender.dampsim_names import is_bake_cache_file, is_output_modifier
from ..blender.geometry_nodes import is_file_node, node_effect
from ..blender.movers import has_followed_users, node_inputs
from ..scene_reader.contributors import is_tracked_driver
from ..session import SessionState
from .setup_digests import AddDigest

# Prefix of the entries.
CONTENTS_PREFIX = "contents of "
# Types of datablocks whose contents are digested, apart from nodes, as in bpy.types.ID.id_type.
_CONTENT_TYPES = ("IMAGE", "MOVIECLIP", "CACHEFILE", "VOLUME")
_GEOMETRY_NODES = bpy.types.GeometryNodeTree
# Larger images are told apart by their files. While they are edited, that is all that is known of them.
_MAX_PIXELS = 512 * 512
# Larger files are read in this number of evenly spaced blocks of this size in bytes.
_BLOCK_COUNT, _BLOCK_SIZE = 64, 65536
# Blocks of each file of a sequence, their size, and the largest number of files that are read, evenly spaced.
_SEQUENCE_BLOCKS, _SEQUENCE_BLOCK_SIZE, _MAX_FILES = 16, 4096, 200
# Time between two looks at the disk, s.
_INTERVAL = 2.0
# Sources of images that have one file for each frame, or for each tile.
_MANY_FILES = {"SEQUENCE", "TILED"}
# A name without extension, divided at its last number or at the placeholder of a tile; and numbers of the latter.
_NUMBER = re.compile(r"(.*)(<UVTILE>|<UDIM>|(?<!\d)\d+)(\D*)")
_TILE_NUMBERS = {"<UVTILE>": r"u\d+_v\d+"}

Stamp = tuple[int, int]
"""Time (ns) and size (bytes) of a file."""


class _Contents(SessionState):
    """Contents of the latest digests.

    files: stamp and digest by path and number of blocks.
    pixels: state and digest of images by session uid; the state is None while pixels are edited.
    stamps: of the files and folders.  looked: time.monotonic() of the last look at them, s.
    """

    def __init__(self) -> None:
        self.files: dict[tuple[Path, int], tuple[Stamp, str]] = {}
        self.pixels: dict[int, tuple[object, str]] = {}
        self.stamps: dict[Path, Stamp | None] = {}
        self.looked = 0.0


def may_have_contents() -> bool:
    """Return whether any datablocks of the file may have contents, or Python drivers, for digest_contents().

    It finds this without the references between all datablocks. Images of materials move nothing.
    """
    if has_followed_users(_CONTENT_TYPES, lambda one: not is_bake_cache_file(one)):
        return True
    if any(node_effect(tree).reads_files for tree in bpy.data.node_groups if isinstance(tree, _GEOMETRY_NODES)):
        return True
    modifiers = [modifier for obj in bpy.data.objects if obj.modifiers for modifier in obj.modifiers]
    if any(one.type == "MESH_CACHE" and not is_output_modifier(one) for one in modifiers):
        return True
    return any(not is_tracked_driver(curve.driver) for block in _animated_blocks() for curve in drivers_of(block))


def _animated_blocks() -> list[bpy.types.ID]:
    """Return all datablocks of the file with animation data, also the node trees within others."""
    animated, with_nodes = _lists_of_blocks()
    found = [block for name in animated for block in getattr(bpy.data, name) if block.animation_data]
    trees = [block.node_tree for name in with_nodes for block in getattr(bpy.data, name) if block.node_tree]
    return found + [tree for tree in trees if tree.animation_data]


@functools.cache
def _lists_of_blocks() -> tuple[list[str], list[str]]:
    """Return the names of the lists of datablocks that have animation data, and of those that contain a node tree."""
    lists = [prop for prop in bpy.types.BlendData.bl_rna.properties if prop.type == "COLLECTION"]
    animated, with_nodes = (
        [prop.identifier for prop in lists if name in prop.fixed_type.properties]
        for name in ("animation_data", "node_tree")
    )
    return animated, with_nodes


def digest_contents(blocks: Iterable[bpy.types.ID], add_digest: AddDigest) -> None:
    """Add the digests of the contents of some datablocks, one entry for each. blocks: all that may move an object."""
    blocks, found = list(blocks), defaultdict(list)
    for block in blocks:
        for name, content in _contents(block):
            found[name].append(content)
    for name, contents in found.items():
        # Several datablocks may have one name here, and a rename changes their order.
        add_digest(f"{CONTENTS_PREFIX}{name}", sorted(contents, key=repr))
    if any(not is_tracked_driver(curve.driver) for block in blocks for curve in drivers_of(block)):
        # Their functions may be in any script that runs when the file is opened.
        for text in [text for text in bpy.data.texts if text.use_module]:
            add_digest(f"{CONTENTS_PREFIX}{text.name}", text.as_string())


def have_contents_changed() -> bool:
    """Return whether contents of the latest digests have changed without an edit; looks at most every two seconds."""
    known, now = _Contents.current(), time.monotonic()
    if not (known.stamps or known.pixels) or now - known.looked < _INTERVAL:
        return False
    known.looked = now
    pixels = {
        image.session_uid: (None, _pixel_digest(image))
        for image in bpy.data.images
        if image.session_uid in known.pixels and image.is_dirty
    }
    stamps = {path: _stamp(path) for path in known.stamps}
    is_changed = not pixels.items() <= known.pixels.items() or stamps != known.stamps
    # A change is reported once, also of contents on which only inactive objects depend.
    known.pixels.update(pixels)
    known.stamps.update(stamps)
    return is_changed


def _contents(block: bpy.types.ID) -> Iterator[tuple[str, object]]:
    """Iterate over the names and the contents of a datablock."""
    if isinstance(block, bpy.types.Image):
        yield str(block.name), _image_content(block)
    elif isinstance(block, bpy.types.MovieClip):
        yield str(block.name), _files_digest(_path(block), block.source == "SEQUENCE")
    elif isinstance(block, bpy.types.Volume) or (
        isinstance(block, bpy.types.CacheFile) and not is_bake_cache_file(block)
    ):
        yield str(block.name), _files_digest(_path(block), block.is_sequence)
    elif isinstance(block, bpy.types.GeometryNodeTree):
        sockets = [socket for node in block.nodes if is_file_node(node) for socket in node.inputs]
        texts = [str(socket.default_value) for socket in sockets if socket.type == "STRING" and not socket.is_linked]
        yield from _imported_files(texts, block)
    elif isinstance(block, bpy.types.Object):
        for modifier in [one for one in block.modifiers if not is_output_modifier(one)]:
            if isinstance(modifier, bpy.types.MeshCacheModifier):
                yield str(modifier.name), _files_digest(_path(modifier))
            elif isinstance(modifier, bpy.types.NodesModifier) and node_effect(modifier.node_group).reads_files:
                yield from _imported_files([one for one in node_inputs(modifier) if isinstance(one, str)], block)


def _imported_files(texts: Iterable[str], block: bpy.types.ID) -> Iterator[tuple[str, object]]:
    """Iterate over the names and digests of those texts of a datablock that are paths of files."""
    for path in [Path(bpy.path.abspath(text, library=block.library)) for text in texts if text]:
        digest = _file_digest(path)
        if digest:
            yield path.name, digest


def _path(owner: Any) -> Path | None:
    """Return the absolute path of the file of a datablock or modifier; None without one."""
    block = owner if isinstance(owner, bpy.types.ID) else owner.id_data
    return Path(bpy.path.abspath(owner.filepath, library=block.library)) if owner.filepath else None


# Images.


def _image_content(image: bpy.types.Image) -> object:
    """Return a digest of the pixels of an image, or of the files that hold them."""
    if image.source in (*_MANY_FILES, "MOVIE"):
        return _files_digest(_path(image), image.source in _MANY_FILES)
    path = _path(image) if image.source == "FILE" and image.packed_file is None else None
    size: tuple[int, ...] = tuple(image.size)
    if 0 < math.prod(size) <= _MAX_PIXELS:
        return _known_pixels(image, path)
    if image.is_dirty or image.packed_file is not None:
        return "edited" if image.is_dirty else image.packed_file.size, size
    return _files_digest(path), size


def _known_pixels(image: bpy.types.Image, path: Path | None) -> str:
    """Return the digest of an image's pixels. path: of its file; None without one."""
    known = _Contents.current().pixels
    last_state, last_digest = known.get(image.session_uid, (None, ""))
    state = _pixel_state(image, path)
    if state is None or last_state != state:
        digest = _pixel_digest(image)
        # Blender shows a file that has changed only once it is loaded again.
        known[image.session_uid] = None if digest == last_digest else state, digest
    return known[image.session_uid][1]


def _pixel_state(image: bpy.types.Image, path: Path | None) -> object:
    """Return a state without which pixels do not change; None if they were painted or set by a script."""
    if image.is_dirty:
        return None
    size: tuple[int, ...] = tuple(image.size)
    if path is not None:
        return _watched_stamp(path), size
    if image.packed_file is not None:
        return hashlib.blake2b(image.packed_file.data, digest_size=16).hexdigest(), size
    return str(image.generated_type), tuple(image.generated_color), size


def _pixel_digest(image: bpy.types.Image) -> str:
    pixels = np.empty(len(image.pixels), dtype=np.float32)
    image.pixels.foreach_get(pixels)  # type: ignore[arg-type]
    return hashlib.blake2b(pixels.data, digest_size=16).hexdigest()


# Files.


def _stamp(path: Path) -> Stamp | None:
    """Return the stamp of a file or folder; None if there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def _watched_stamp(path: Path) -> Stamp | None:
    stamp = _Contents.current().stamps[path] = _stamp(path)
    return stamp


def _files_digest(path: Path | None, are_many: bool = False) -> object:
    """Return a digest of a file. path: of the file; None without one.

    are_many: whether it is one of a sequence, or the path has a placeholder for the number of a tile: return the names
    and digests of all.
    """
    if path is None:
        return ""
    parts = _NUMBER.fullmatch(path.stem) if are_many else None
    if parts is None:
        return _file_digest(path)
    head, number, tail = parts.groups()
    numbers = _TILE_NUMBERS.get(number, r"\d+")
    pattern = re.compile(f"{re.escape(head)}{numbers}{re.escape(tail + path.suffix)}")
    _watched_stamp(path.parent)
    try:
        found = sorted(one for one in path.parent.iterdir() if pattern.fullmatch(one.name))
    except OSError:
        return ""
    places = np.unique(np.linspace(0, len(found) - 1, _MAX_FILES).astype(np.int64)) if found else ()
    digests = [_file_digest(found[place], _SEQUENCE_BLOCKS, _SEQUENCE_BLOCK_SIZE) for place in places]
    return [one.name for one in found], digests


def _file_digest(path: Path, count: int = _BLOCK_COUNT, size: int = _BLOCK_SIZE) -> str:
    """Return a digest of a file, of all its bytes if it is small; '' if it cannot be read.

    count, size: number and size (bytes) of the blocks of a larger file.
    """
    stamp, known = _watched_stamp(path), _Contents.current().files
    if stamp is None:
        return ""
    if known.get((path, count), (None, ""))[0] != stamp:
        known[path, count] = stamp, _read_digest(path, stamp[1], count, size)
    return known[path, count][1]


def _read_digest(path: Path, length: int, count: int, size: int) -> str:
    digest = hashlib.blake2b(str(length).encode(), digest_size=16)
    try:
        file, _ = open_regular_file(path, follow_link=True)
        with file:
            for start in np.unique(np.linspace(0, max(length - size, 0), count).astype(np.int64)):
                file.seek(int(start))
                digest.update(file.read(size))
    except (OSError, ValueError):
        return ""
    return digest.hexdigest()
