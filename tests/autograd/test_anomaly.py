"""Anomaly detection: the op whose gradient is NaN, and the line of its forward call."""

from __future__ import annotations

import warnings

import pytest

import numod as torch


def test_a_gradient_that_is_no_number_names_its_op() -> None:
    x = torch.tensor([-1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
                x.sqrt().sum().backward()
            assert torch.is_anomaly_enabled()
        assert "x.sqrt()" in str(seen[-1].message)  # the line of the forward call
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            x.sqrt().sum().backward()
    assert not torch.is_anomaly_enabled()
    x.sqrt().sum().backward()  # off again
