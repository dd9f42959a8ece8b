"""The functions that modules compute, with PyTorch's names. They are composed of ops and have no kernels."""

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
