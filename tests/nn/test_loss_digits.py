"""Losses and their gradients against mpmath at difficult points, within the bars of `shared/losses`. about 3 s with
kernels in the cache.
"""

from __future__ import annotations

import numpy as np
import pytest

from cases import check
from losses import LOSSES


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", LOSSES)
def test_loss(name, dtype):
    check(LOSSES[name], dtype)
