"""Sample scenes in the zip, which tools/package.py and the panel read here. Does not import Blender."""

from __future__ import annotations

from pathlib import Path

# Titles by the names of the files. Each kind of bodies, contact and each effect has a sample.
SAMPLES = {
    "troll": "Troll with a Cape",
    "creature": "Hopping Creature",
    "jelly": "Jelly on a Plate",
    "ears": "Hound with Long Ears",
    "runner": "Runner with a Belly",
    "throw": "Water Balloon",
    "membrane": "Balls on a Membrane",
    "skirt": "Skirt",
    "shirt": "T-Shirt",
    "cape": "Cape",
    "flag": "Flag in the Wind",
    "parachute": "Parachute",
    "sackcloth": "Woven Sackcloth",
    "bridge": "Rope Bridge",
    "shag": "Hair",
    "dent": "Lump of Clay",
    "chain": "Chain of Rings",
    "tentacle": "Tentacle with Fibres",
    "walker": "Walker with Muscles",
}
_FOLDER = Path(__file__).parents[2] / "sample_blends"


def sample_path(name: str) -> Path:
    """Return the path of a sample, in a checkout and in an installed zip."""
    return _FOLDER / f"{name}.blend"
