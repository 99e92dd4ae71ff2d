"""Interface of the compiled kernel: its files and their digest, its functions and structures.

Uses only the standard library, because the build loads this file without numpy.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import sys
from pathlib import Path

KERNEL_FOLDER = Path(__file__).parent
# The headers come first; the other files are compiled.
KERNEL_FILES = (
    *("kernel.h", "boxes.h"),
    *("kernel.c", "boxes.c", "contacts.c", "crossings.c", "noise.c", "pieces.c", "ropes.c", "sheets.c", "steps.c"),
    *("surfaces.c", "weights.c"),
)
# The package that the wheel in the add-on's zip installs.
KERNEL_MODULE = "dampsim_kernel"
# Environment variable: 0 disables the kernel, and a path replaces the installed library, as in a checkout.
KERNEL_VARIABLE = "DAMPSIM_KERNEL"
_SUFFIXES = {"win32": ".dll", "darwin": ".dylib"}
# Pointers of the structure in pieces.c, in order.
PIECE_POINTERS = (
    "rows", "starts", "columns", "first", "offsets", "base", "nodes", "slots", "inertia", "predicted", "load", "start",
    "spring_starts", "edges", "spring_places", "lengths", "spring_weights", "rod_starts", "rods", "rod_places",
    "rod_weights", "rest", "smoothing", "contact_starts", "weight_starts", "weight_nodes", "weights", "contact_base",
    "normal", "distance", "target", "stiffness", "anchor", "friction", "limit", "lagged", "force", "gap", "slip",
    "offset", "states", "v", "before", "positions", "pulls", "gradient", "direction", "blocks", "factors", "values",
    "updates", "evaluations",
)  # fmt: skip
# Types by their letters in the module struct.
C_TYPES = {"q": ctypes.c_int64, "Q": ctypes.c_uint64, "d": ctypes.c_double, "P": ctypes.c_void_p, "": None}
# Types of the result and of the parameters of each function.
SIGNATURES = {
    "neo_hookean": ("d", "qPPPPPP"),
    "solve": ("", "qqPPPPPPPP"),
    "blocks": ("", "qPPPPP"),
    "membrane": ("d", "qPPPPP"),
    "membrane_blocks": ("", "qPPPdPPP"),
    "shell": ("d", "qPPPPPdPPPPP"),
    "shell_blocks": ("", "qPPPddPPPqPqPPPPP"),
    "block_pairs": ("q", "qPPPPPP"),
    "block_factorise": ("d", "qPPPPPPPPPP"),
    "block_solve": ("", "qPPPPdPPP"),
    "block_cg": ("q", "qPPPPPdqqPPPPdqPPPP"),
    "tree_build": ("", "qqPPPPP"),
    "tree_overlaps": ("q", "qqPPPqPPPPPqPP"),
    "near_triangles": ("q", "qqPPPPPqPPPPqPP"),
    "nearest_triangles": ("", "qqPPPPPPqPPPdPPPPP"),
    "swept_boxes": ("", "qPPPPP"),
    "crossings": ("", "qqPPPPPPPdqPPPPPP"),
    "triangle_normals": ("", "qPPdPPPPP"),
    "sheet_heights": ("", "PPPPPPPPdqPPP"),
    "near_edges": ("q", "qqPPPPPqPPPddqPP"),
    "meeting_edges": ("q", "qqPPPPPPddqPP"),
    "contacts": ("d", "qPPPPPPPPPPPPPPPPP"),
    "contact_blocks": ("q", "qPPPPPPPPdPPPP"),
    "step_terms": ("d", "qPdPPPPqPPPPPPPP"),
    "springs": ("d", "qPPPPP"),
    "spring_blocks": ("", "qPPPqdPPP"),
    "rods": ("d", "qPPPPPP"),
    "rod_blocks": ("", "qPPPPqdPPP"),
    "envelope_factorise": ("q", "qPPPPPPPP"),
    "envelope_solve": ("", "qPPPP"),
    "piece_steps": ("", "qPPP"),
    "noise": ("", "qqQdPP"),
    "skin_weights": ("", "qqPPPqqddPPP"),
}


class PiecesStructure(ctypes.Structure):
    """The structure of pieces.c, with addresses of arrays that the caller must keep alive."""

    _fields_ = [
        ("max_friction_updates", ctypes.c_int64), ("h", ctypes.c_double), ("noise", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in PIECE_POINTERS),
    ]  # fmt: skip


def source_digest() -> str:
    """Return the digest of the sources, independent of line endings."""
    sources = [(KERNEL_FOLDER / name).read_bytes().replace(b"\r\n", b"\n") for name in KERNEL_FILES]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


def library_file_name(system: str = sys.platform) -> str:
    """Return the file name of the library in its package for a system, as named by sys.platform."""
    return "kernel" + _SUFFIXES.get(system, ".so")


def chosen_library() -> Path | None:
    """Return the library that the environment names, or None."""
    value = os.environ.get(KERNEL_VARIABLE) or "1"
    return None if value in ("0", "1") else Path(value)


def installed_library() -> Path | None:
    """Return the library compiled from this source, or None if it is disabled, missing or of another source."""
    if (chosen := chosen_library()) is not None:
        return chosen
    if os.environ.get(KERNEL_VARIABLE) == "0":
        return None
    try:
        package = importlib.import_module(KERNEL_MODULE)
    except ImportError:
        return None
    # Blender installs the newest of all extensions' wheels, so another version of DampSim may have brought this one.
    return Path(str(package.__file__)).with_name(library_file_name()) if source_digest() == package.SOURCE else None
