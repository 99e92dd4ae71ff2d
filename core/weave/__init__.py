"""Woven cloth, yarn by yarn: crossings with sliding coordinates (docs/weave.md)."""
