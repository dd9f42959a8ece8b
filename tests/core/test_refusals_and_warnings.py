"""Errors and warnings that people's code (and tests written for PyTorch) rely on, by type."""

from __future__ import annotations

import pytest

import numod as torch


def test_types_of_errors() -> None:
    for call, error in (
        (lambda: int(torch.ones(2)), ValueError), (lambda: float(torch.ones(2)), ValueError), (lambda: bool(torch.ones(2)), RuntimeError), (lambda: ~torch.ones(1), TypeError),
        (lambda: -torch.tensor([True]), RuntimeError), (lambda: torch.tensor([5]).add(1, alpha=1.5), RuntimeError), (lambda: torch.tensor([5]).sub(1, alpha=1.5), RuntimeError),
        (lambda: torch.ones(2).masked_fill(torch.tensor([True, False]), torch.ones(2)), RuntimeError), (lambda: torch.ones(2).type("nope"), ValueError),
        (lambda: torch.ones(2).masked_fill_(torch.tensor([True, False]), torch.ones(2)), RuntimeError),
    ):  # fmt: skip
        with pytest.raises(error):
            call()


def test_warnings() -> None:
    x = torch.ones(2, requires_grad=True)
    for call in (
        lambda: torch.meshgrid(torch.arange(2), torch.arange(3)), lambda: torch.tensor(torch.ones(2)), lambda: (2 * x).grad,
        lambda: torch.arange(2)[torch.tensor([0, 1], dtype=torch.uint8)], lambda: torch.optim.SGD([x, x], lr=0.1),
    ):  # fmt: skip
        with pytest.warns(UserWarning):
            call()
    assert x.grad is None


def test_small_meanings() -> None:
    assert (torch.tensor([True]) ** 2).dtype is torch.int64 and (torch.tensor([3]) ** 2).tolist() == [9]
    assert torch.ones(2).type("torch.DoubleTensor").dtype is torch.float64
    assert torch.arange(4).split(split_size=[1, 3])[1].tolist() == [1, 2, 3]
    assert str(torch.iinfo(torch.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    torch._assert(True, "no")
    with pytest.raises(AssertionError, match="this"):
        torch._assert(False, "this")


def test_random_numbers_inside_a_fork_do_not_count() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with torch.random.fork_rng():
        torch.rand(5)
    assert torch.equal(torch.rand(2), expected)


def test_paths_and_bases_of_layers() -> None:
    modules = torch.nn.modules
    assert modules.conv.Conv2d is torch.nn.Conv2d and modules.batchnorm._BatchNorm is not None and modules.rnn.LSTM is torch.nn.LSTM
    assert isinstance(torch.nn.Conv1d(1, 1, 1), modules.conv._ConvNd) and isinstance(torch.nn.Dropout(), modules.dropout._DropoutNd)
    assert isinstance(torch.nn.BatchNorm2d(2), modules.batchnorm._NormBase) and repr(torch.nn.Hardswish(inplace=True)) == "Hardswish()"
    with pytest.raises(TypeError):
        torch.nn.Tanh(inplace=True)


def test_hooks_of_both_kinds_are_refused() -> None:
    layer = torch.nn.Linear(1, 1)
    layer.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="both"):
        layer.register_backward_hook(lambda *_: None)


def test_a_backward_that_may_not_be_differentiated() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

    x = torch.ones(2, requires_grad=True)
    (first,) = torch.autograd.grad(Double.apply(x).pow(2).sum(), x, create_graph=True)
    assert first.tolist() == [8, 8]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
