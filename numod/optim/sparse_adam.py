"""Adam for tables with few updated rows per step: moments and weights of other rows do not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any

from ..autograd import enable_grad, no_grad
from ..core import functions as f
from ..core.tensor import Tensor
from .optimizer import Optimizer, to_update
from .steps import check_betas, non_negative


class SparseAdam(Optimizer):
    """Adam on the rows (dimension 0) whose gradient is not all zeros.

    Gradients are dense, including those of `nn.Embedding(sparse=True)`. Raises ValueError for hyper-parameters that are
    not positive or betas outside [0, 1).

    Example:

        >>> table = nn.Embedding(5, 2, sparse=True)
        >>> optimizer = optim.SparseAdam(table.parameters(), lr=0.01)
        >>> table(torch.tensor([1, 3])).sum().backward()
        >>> optimizer.step()
    """

    rereads_scalars = False

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        non_negative(lr=lr)
        for name, value in (("learning rate", lr), ("epsilon value", eps)):
            if not 0.0 < value:
                raise ValueError(f"Invalid {name}: {value}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        if any(parameter.is_complex() for group in self.param_groups for parameter in group["params"]):
            raise ValueError("SparseAdam does not support complex parameters")

    @no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Update the rows that have a gradient.

        A closure is called first to compute the loss and gradients; its value is returned.
        """
        loss = None if closure is None else enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in to_update(group):
                self._step(parameter, group)
        return loss

    def _step(self, parameter: Tensor, group: dict[str, Any]) -> None:
        """Update the rows of a parameter whose gradient is not zero."""
        state = self.state[parameter]
        if not state:
            state.update(
                step=0, exp_avg=parameter.new_zeros(parameter.shape), exp_avg_sq=parameter.new_zeros(parameter.shape)
            )
        beta1, beta2 = group["betas"]
        state["step"] += 1
        weights, gradient, mean, square = (
            _rows_of(tensor) for tensor in (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"])
        )
        touched = f.reshape(f.nonzero((gradient != 0).any(1)), -1)
        g, m, v = (f.index_select(tensor, 0, touched) for tensor in (gradient, mean, square))
        g = -g if group["maximize"] else g
        m, v = m.lerp(g, 1.0 - beta1), v.lerp(g * g, 1.0 - beta2)
        mean.index_copy_(0, touched, m)
        square.index_copy_(0, touched, v)
        size = float(group["lr"]) * sqrt(1.0 - beta2 ** state["step"]) / (1.0 - beta1 ** state["step"])
        weights.index_add_(0, touched, m / (v.sqrt() + group["eps"]), alpha=-size)


def _rows_of(tensor: Tensor) -> Tensor:
    """The tensor as a matrix: one flattened row per index of dimension 0."""
    return tensor.view(tensor.shape[0] if tensor.ndim else 1, -1)
