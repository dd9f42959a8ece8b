"""`numod.array_api`: the array API standard (2023.12) over numod's functions.

Names, argument names and results are the standard's where PyTorch's differ. `x.__array_namespace__()` gives this
module, so SciPy and scikit-learn accept tensors. The standard: https://data-apis.org/array-api/2023.12
"""

from __future__ import annotations

from math import e, inf, nan, pi

from .. import bool, complex64, complex128, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from . import fft, linalg
from .creation import *
from .dtypes import *
from .elementwise import *
from .info import __array_namespace_info__
from .linalg import matmul, matrix_transpose, tensordot, vecdot
from .manipulation import *
from .searching import *
from .statistics import *

__array_api_version__ = "2023.12"
newaxis = None
