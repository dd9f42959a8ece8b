"""Modules, the building blocks of networks: PyTorch's `torch.nn`, under the same names.

- `module` has the base class; `registry` stores parameters, buffers and children, `hooks` registers hooks and `calling`
  runs them, `state` saves and loads, `conversion` moves and converts, `lazy` waits for the first input.
- Layers are in files by subject (`linear`, `convolution`, ...). A layer has settings and parameters and calls the
  function of its name in `functional`, which has the computation.
- `init` fills parameters, `utils` has helpers for modules, and `modules` has PyTorch's paths to the layers.
"""

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
from .sync_batch_norm import *
from .transformer import *
from .vision import *

from . import early_layers as early_layers
from . import modules  # noqa: F401  imported last: it adds aliases of the files above
