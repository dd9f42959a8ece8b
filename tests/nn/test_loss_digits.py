"""Losses and their gradients against mpmath at difficult points, within the bars of `shared/losses`."""

from __future__ import annotations

import numpy as np
import pytest
from selection import every

from cases import check
from losses import LOSSES


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", every(2, LOSSES, others=pytest.mark.fuzz))
def test_loss(name, dtype):
    check(LOSSES[name], dtype)
