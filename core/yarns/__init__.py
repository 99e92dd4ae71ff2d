"""Yarn-level model of woven cloth: crossings with sliding coordinates (docs/explanation/woven-cloth.md)."""
