"""Plans are cached by layout: arguments that compare equal but have different types are kept apart."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.ops.pointwise import rows


@pytest.mark.parametrize("call", [
    lambda x, n: x.view(n, 3), lambda x, n: x.view((n, 3)), lambda x, n: x.reshape(n, 3), lambda x, n: numod.zeros(n, 3), lambda x, n: numod.zeros((n, 3)),
])  # fmt: skip
def test_a_float_is_no_size_though_the_equal_int_was_one(call):
    x = numod.arange(6)
    assert call(x, 2).shape == (2, 3)
    with pytest.raises(TypeError, match="must be int"):
        call(x, 2.0)


def test_a_tensor_of_another_value_is_another_size():
    x, n = numod.arange(6), numod.tensor(2)
    assert x.view(n, -1).shape == (2, 3)
    n.fill_(3)
    assert x.view(n, -1).shape == (3, 2) and x[:n].tolist() == [0, 1, 2]
    n.fill_(1)
    assert x[:n].tolist() == [0]


def test_errors_are_raised_each_time():
    x = numod.zeros(2, 3)
    for _ in range(2):
        for call, error in (
            (lambda: x.view(4), RuntimeError),
            (lambda: x.transpose(0, 5), IndexError),
            (lambda: x.permute(0), RuntimeError),
            (lambda: x[0, 7], IndexError),
            (lambda: numod.cat([x, numod.tensor(1.0)]), RuntimeError),
            (lambda: numod.zeros(-1), RuntimeError),
        ):
            with pytest.raises(error):
                call()


def test_lists_and_tuples_mean_the_same():
    x = numod.arange(24).view([2, 3, 4])
    assert (x.permute([2, 0, 1]) == x.permute(2, 0, 1)).all() and (x.reshape([6, 4]) == x.reshape((6, 4))).all()


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_stack_and_its_gradient(dim):
    parts = [np.arange(6.0).reshape(2, 3) + 10 * k for k in range(4)]
    tensors = [numod.tensor(part.T.copy(), requires_grad=True) for part in parts]
    weight = np.random.default_rng(0).normal(size=np.stack(parts, dim).shape)
    result = numod.stack([tensor.T for tensor in tensors], dim)  # of strides that are not dense
    np.testing.assert_array_equal(result.detach().numpy(), np.stack(parts, dim))
    (result * numod.tensor(weight)).sum().backward()
    for k, tensor in enumerate(tensors):
        np.testing.assert_allclose(tensor.grad.numpy(), np.take(weight, k, dim).T)


def test_plans_are_dropped_when_the_default_dtype_changes(monkeypatch):
    op, usual = rows["floor"], rows["floor"].prepare

    def prepare(*arguments):
        plan = usual(*arguments)
        numod.set_default_dtype(numod.float64)  # another thread does so
        return plan

    x = numod.ones(2, 41)
    monkeypatch.setattr(op, "prepare", prepare)
    try:
        x.floor()
        assert not any(x._layout in key for key in op.tables.plain)
    finally:
        numod.set_default_dtype(numod.float32)
