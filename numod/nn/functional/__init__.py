"""Functions of layers: what modules compute, on tensors, with PyTorch's names. No kernels: rows and ops come from below."""

from __future__ import annotations

from .activation import *
from .attention import *
from .convolution import *
from .ctc import *
from .distance import *
from .dropout import *
from .embedding import *
from .linear import *
from .linear_cross_entropy import *
from .loss import *
from .margin import *
from .normalization import *
from .padding import *
from .pooling import *
from .vision import *
