"""Text -> typed, normalised filters. `docs/LANGUAGE.md` is the specification."""

from penstock.language.schema import Schema, SchemaLike
from penstock.language.shapes import Group, Shape, Shapes

__all__ = ["Group", "Schema", "SchemaLike", "Shape", "Shapes"]
