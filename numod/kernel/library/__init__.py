"""Functions that kernels call, and kernels that several ops share.

Importing this package registers them with `kernel.scalar`.
"""

from . import random, arithmetic, softmax, halves, windows, rows  # noqa: F401
from . import bessel, complexes, cuda_block, density, direct, divergence, division  # noqa: F401
from . import grid, panels, planes, special, winograd  # noqa: F401
