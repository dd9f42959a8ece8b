"""Arguments for every row of the pointwise table that takes tensors. Not tests themselves."""

from __future__ import annotations

import numod
from numod.ops import pointwise

NAMES = sorted(
    set(pointwise.rows)
    - {
        "fill",
        "arange",
        "linspace",
        "index",
        "uniform",
        "normal",
        "randint",
        "random_uniform",
        "random_normal",
        "random_below",
    }
)


def arguments(row: pointwise.Pointwise, rows: int, columns: int) -> list:
    """Tensors every row is defined for:

    (rows, columns) and some (columns) that broadcast, conditions as bool, integers as numbers.
    """
    numod.manual_seed(0)
    kind = numod.float32 if "f" in row.accepts else numod.int64
    values = []
    for position, name in enumerate(row.inputs):
        value = numod.rand(rows, columns) * 0.8 + 0.1 if position == 0 else numod.rand(columns) * 0.8 + 0.1
        value = (value * 8).to(kind) + 1 if kind is numod.int64 else value + 1 if row.name == "acosh" else value
        values.append(value > 0.5 if name in row.conditions else 3 if name in row.integers else value)
    return values
