"""All functions on tensors, collected from the files that define them.

Each file lists its public functions: in BOTH those that are functions and methods, in FUNCTIONS and METHODS those that
are only one, in IN_PLACE those with an in-place form `name_` that computes and copies, in COPYING in-place methods
`name_` with a form `name` that copies first. "mm=mm_" is a function `mm_` with the public name `mm`. OUT lists
functions with an argument `out` to which results are copied.
"""

from __future__ import annotations

from .math import (
    arithmetic,
    complexes,
    cumulative,
    distances,
    elementwise,
    in_place,
    norms,
    outputs,
    reductions,
    special,
    statistics,
)
from .shape import arrangement, joining, parts, reshaping, shapes, triangles
from . import attributes, queries
from .linalg import contractions, decompositions, linear_algebra, low_rank, products
from .convert import conversions, copies
from .create import sampling, windows
from .index import scattering, selection
from .search import searching, sorting, uniqueness
from .signal import spectrograms

HOMES = (
    elementwise, outputs, in_place, copies, conversions, shapes, parts, joining, selection, reductions, products,
    queries, special, arithmetic, arrangement, reshaping, scattering, cumulative, sorting, searching, uniqueness,
    statistics, attributes, distances, triangles, contractions, decompositions, linear_algebra, norms, low_rank,
    sampling, windows, complexes, spectrograms,
)  # fmt: skip
for _home in HOMES[::-1]:  # if two files define a name, such as `norm`, that of the first file is public
    globals().update(
        {name: value for name, value in vars(_home).items() if getattr(value, "__module__", None) == _home.__name__}
    )
