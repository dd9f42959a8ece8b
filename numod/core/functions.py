"""All functions on tensors, gathered from the files that hold them. Nothing is defined here.

Each home says which of its functions users see: BOTH names functions of the namespace that are methods too, FUNCTIONS
and METHODS those that are one alone, IN_PLACE those with a form `name_` that computes and copies, COPYING methods
`name_` with a form `name` that copies first. "mm=mm_" gives a function another name in public. OUT names those whose
function takes `out` by copying its results there.
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
    reductions,
    special,
    statistics,
)
from .shape import arrangement, reshaping, shapes, triangles
from . import attributes, queries
from .linalg import contractions, decompositions, linear_algebra, low_rank, products
from .convert import conversions
from .create import sampling, windows
from .index import scattering, selection
from .search import searching, sorting, uniqueness
from .signal import spectrograms

HOMES = (
    elementwise, in_place, conversions, shapes, selection, reductions, products, queries, special, arithmetic,
    arrangement, reshaping, scattering, cumulative, sorting, searching, uniqueness, statistics, attributes, distances,
    triangles, contractions, decompositions, linear_algebra, norms, low_rank, sampling, windows, complexes,
    spectrograms,
)  # fmt: skip
for _home in HOMES[::-1]:  # where two files share a name, as `norm`, that of the first file is public
    globals().update(
        {name: value for name, value in vars(_home).items() if getattr(value, "__module__", None) == _home.__name__}
    )
