"""All functions on tensors, gathered from the files that hold them. Nothing is defined here."""

from __future__ import annotations

from . import elementwise, products, reductions, selection, shapes

for _home in (elementwise, shapes, selection, reductions, products):
    globals().update({name: value for name, value in vars(_home).items() if getattr(value, "__module__", None) == _home.__name__})
