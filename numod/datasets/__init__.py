"""Datasets in the package or generated, readers of files, and transforms of images.

Nothing is downloaded; `ATTRIBUTION.md` has the source of the digits.
"""

from __future__ import annotations

from . import transforms
from .digits import Digits, load_digits
from .files import CSV, ImageFolder, read_image
from .shapes import make_moons, make_spirals
from .text import Characters, load_docstrings

__all__ = [
    "CSV", "Characters", "Digits", "ImageFolder", "load_digits", "load_docstrings", "make_moons", "make_spirals",
    "read_image", "transforms",
]  # fmt: skip
