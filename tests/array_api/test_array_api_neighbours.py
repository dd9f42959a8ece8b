"""Functions of SciPy and scikit-learn take tensors and return tensors, by the array API standard."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import numod

SCIPY = """
import numod
from scipy.cluster.vq import vq, whiten
from scipy.special import logsumexp
x = numod.tensor([[1.0, 2.0], [3.0, 5.0], [9.0, 1.0]], dtype=numod.float64)
result = logsumexp(x, axis=1)
assert isinstance(result, numod.Tensor) and numod.allclose(result, numod.logsumexp(x, 1)), result
scaled = whiten(x)
assert isinstance(scaled, numod.Tensor) and numod.allclose(scaled, x / x.std(0, correction=0)), scaled
"""
SKLEARN = """
import numod, sklearn
from sklearn.metrics import mean_squared_error
from sklearn.preprocessing import MinMaxScaler
x = numod.tensor([[1.0, 2.0], [3.0, 5.0], [9.0, 1.0]])
with sklearn.config_context(array_api_dispatch=True):
    scaled = MinMaxScaler().fit_transform(x)
    error = mean_squared_error(x[:, 0], x[:, 1])
assert isinstance(scaled, numod.Tensor) and scaled.max().item() == 1 and scaled.min().item() == 0, scaled
assert abs(float(error) - 23) < 1e-3, error
"""


@pytest.mark.parametrize("package, script", [("scipy", SCIPY), ("sklearn", SKLEARN)])
def test_functions_take_tensors(package: str, script: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"needs {package}")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    finished = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert numod.tensor(1.0).__array_namespace__().__array_api_version__ == "2023.12"
