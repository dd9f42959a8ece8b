"""Modules, the building blocks of networks: PyTorch's `torch.nn`, under the same names."""

from __future__ import annotations

from . import functional, grad, init, utils  # noqa: F401  public namespaces
from .activation import *
from .adaptive import *
from .attention import *
from .container import *
from .convolution import *
from .distance import *
from .dropout import *
from .embedding import *
from .hooks import *
from .lazy import *
from .linear import *
from .linear_cross_entropy import *
from .loss import *
from .module import *
from .normalization import *
from .padding import *
from .parallel import DataParallel as DataParallel
from .parameter import *
from .pooling import *
from .recurrent import *
from .transformer import *
from .vision import *

from . import modules  # noqa: F401  last: it gives the files above other names
