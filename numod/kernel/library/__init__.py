"""The functions that kernels call, by subject.

Importing this package registers them with `kernel.scalar`; a kernel's text lists them in this order.
"""

from . import random, arithmetic, softmax, halves, windows, rows  # noqa: F401
from . import bessel, division, complexes, density, direct, divergence  # noqa: F401
from . import grid, panels, planes, special, cuda_block, winograd  # noqa: F401
