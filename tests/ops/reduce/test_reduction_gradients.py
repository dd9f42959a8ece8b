"""Gradients of reductions, to second order."""

from __future__ import annotations

import math

import pytest
from selection import second_orders

import numod
from numod.autograd import gradcheck, gradgradcheck

from reductions import data


pytestmark = pytest.mark.on_cuda

NAN, INF = math.nan, math.inf


GRADIENTS = {
    "sum": lambda x: x.sum(1), "sum_all": lambda x: x.sum(), "mean": lambda x: x.mean((0, 1)),
    "prod": lambda x: x.prod(1), "prod_all": lambda x: x.prod(),
    "amax": lambda x: x.amax(0), "amin": lambda x: x.amin(1, keepdim=True), "max": lambda x: x.max(1).values,
    "min": lambda x: x.min(0).values,
    "var": lambda x: x.var(1), "std": lambda x: x.std(), "logsumexp": lambda x: x.logsumexp(1),
    "norm": lambda x: x.norm(2, 1), "norm_1": lambda x: x.norm(1, 0),
    "norm_3": lambda x: x.norm(3, 0), "norm_inf": lambda x: x.norm(INF, 1), "cumsum": lambda x: x.cumsum(1),
    "sum_to_size": lambda x: x.sum_to_size(1, 3),
}  # fmt: skip


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name, twice", second_orders(3, GRADIENTS, others=pytest.mark.fuzz))
def test_gradients_to_second_order(name, twice):
    x = numod.tensor([[0.7, -1.2, 2.3], [1.9, 0.4, -0.6]], dtype=numod.float64, requires_grad=True)
    assert gradcheck(GRADIENTS[name], (x,))
    assert not twice or gradgradcheck(GRADIENTS[name], (x,))


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_a_strided_input():
    x = numod.tensor(data((4, 6)), requires_grad=True)
    assert gradcheck(lambda x: x.t()[::2].sum(0), (x,))


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("zeros", [1, 2])
def test_gradient_of_prod_with_zeros(zeros):
    x = numod.tensor([[2.0, 0.0, 3.0], [4.0, 5.0, 6.0]], dtype=numod.float64)
    if zeros == 2:
        x[0, 2] = 0.0
    x.requires_grad_()
    assert gradcheck(lambda x: x.prod(1), (x,))
    x.prod(1).sum().backward()
    assert x.grad.tolist()[0] == ([0.0, 6.0, 0.0] if zeros == 1 else [0.0, 0.0, 0.0])


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_prod_over_two_dims_with_a_zero():
    x = numod.tensor(data((2, 3, 2)), requires_grad=True)
    with numod.no_grad():
        x[0, 1, 1] = 0.0
    assert gradcheck(lambda x: x.prod(), (x,))


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_equal_extrema():
    x = numod.tensor([1.0, 3.0, 3.0], requires_grad=True)
    x.amax().backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5]
    y = numod.tensor([1.0, 3.0, 3.0], requires_grad=True)
    y.max(0).values.backward()
    assert y.grad.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_norm_at_zero():
    x = numod.zeros(3, requires_grad=True)
    x.norm().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("p", [0.5, -0.5, 1.5])
def test_gradients_of_norms_of_elements_that_are_zero(p):
    x = numod.tensor([[0.0, 0.0], [0.0, -4.0]], requires_grad=True)
    numod.linalg.vector_norm(x, p, 1).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, -1.0 if p > 0 else 0.0]]


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_a_scalar():
    x = numod.tensor(2.0, requires_grad=True)
    (x.sum() + x.mean() + x.amax() + x.prod()).backward()
    assert x.grad.item() == 4.0


@pytest.mark.on_cuda(simulator=False)
def test_gradient_with_a_dtype():
    x = numod.tensor([1.0, 2.0], requires_grad=True)
    x.sum(dtype=numod.float64).backward()
    assert x.grad.dtype is numod.float32
