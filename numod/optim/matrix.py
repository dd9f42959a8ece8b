"""Optimizers for matrices, composed of tensor operations.

Adafactor stores row and column means of squares, Muon orthogonalizes its momentum.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from .. import dtypes
from ..autograd import no_grad
from ..core import functions as f
from ..core.tensor import Tensor
from .optimizer import Optimizer
from .steps import gradients_of, non_negative, one_element


class _Composed(Optimizer):
    """Base of optimizers whose step is composed of tensor operations, one parameter at a time."""

    rereads_scalars = False

    @no_grad()
    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        """Update each parameter immediately; no updates are left for `step`."""
        if any(parameter.is_complex() for parameter in parameters):
            raise RuntimeError(f"{type(self).__name__} does not support complex parameters")
        self._create_state(parameters, group)
        for parameter, gradient in zip(parameters, gradients_of(parameters, group)):
            self._update(parameter, gradient, group, self.state[parameter])
        return []

    def _create_state(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Create the state of parameters that have none, without an update."""
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter].update(self._initial_state(parameter))

    def _initial_state(self, p: Tensor) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} must define _initial_state(p)")

    def _update(self, p: Tensor, g: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _update(p, g, group, state)")


class Adafactor(_Composed):
    """Adafactor: the second moment factored into row and column means, relative step sizes, clipped updates.

    Shazeer and Stern, 2018.

    Example:

        >>> layer = nn.Linear(2, 1)
        >>> optimizer = optim.Adafactor(layer.parameters(), lr=0.01)
        >>> layer(torch.ones(4, 2)).sum().backward()
        >>> optimizer.step()
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        one_element("lr", lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if beta2_decay > 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and eps[0] < 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if eps[1] < 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    def _initial_state(self, p: Tensor) -> dict[str, Any]:
        if p.ndim < 2:
            return {"step": 0, "variance": p.new_zeros(p.shape)}
        rows, columns = (*p.shape[:-1], 1), (*p.shape[:-2], 1, p.shape[-1])
        return {"step": 0, "row_var": p.new_zeros(rows), "col_var": p.new_zeros(columns)}

    def _update(self, p: Tensor, g: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        eps1, eps2 = group["eps"]
        state["step"] += 1
        step = float(state["step"])
        eps1 = dtypes.finfo(p.dtype).eps if eps1 is None else eps1
        share, rate = step ** group["beta2_decay"], min(float(group["lr"]), 1 / sqrt(step))
        alpha = max(eps2, float(p.norm()) / sqrt(p.numel())) * rate
        if group["weight_decay"]:
            p.mul_(1 - float(group["lr"]) * group["weight_decay"])
        if g.ndim > 1:
            state["row_var"].lerp_(f.mean(g * g, -1, keepdim=True), share)
            state["col_var"].lerp_(f.mean(g * g, -2, keepdim=True), share)
            variance = state["row_var"] @ state["col_var"] / f.mean(state["row_var"], -2, keepdim=True).clamp_min(eps1)
        else:
            state["variance"].lerp_(g * g, share)
            variance = state["variance"]
        change = g * variance.clamp_min(eps1 * eps1).rsqrt()
        p.sub_(change * (alpha / max(1.0, float(change.norm()) / (sqrt(change.numel()) * group["d"]))))


class Muon(_Composed):
    """Muon: momentum orthogonalized by Newton-Schulz iterations.

    Raises ValueError for parameters that are not matrices. Jordan et al., 2024.

    Example:

        >>> layer = nn.Linear(2, 2, bias=False)
        >>> optimizer = optim.Muon(layer.parameters(), lr=0.01)
        >>> layer(torch.ones(4, 2)).sum().backward()
        >>> optimizer.step()
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        non_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
        }
        super().__init__(params, {**defaults, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.shape}"
                    )

    def _initial_state(self, p: Tensor) -> dict[str, Any]:
        return {"momentum_buffer": p.new_zeros(p.shape)}

    def _update(self, p: Tensor, g: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        buffer, momentum = state["momentum_buffer"], group["momentum"]
        buffer.lerp_(g, 1 - momentum)
        direction = g.lerp(buffer, momentum) if group["nesterov"] else buffer
        direction = orthogonalized(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        ratio = (
            0.2 * sqrt(max(rows, columns))
            if group["adjust_lr_fn"] == "match_rms_adamw"
            else sqrt(max(1, rows / columns))
        )
        p.mul_(1 - float(group["lr"]) * group["weight_decay"])
        p.sub_(direction.to(p.dtype), alpha=float(group["lr"]) * ratio)


def orthogonalized(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Approximate orthogonal factor of `matrix`, by the iteration x <- a x + (b x x^T + c (x x^T)^2) x.

    It is computed in bfloat16, as in the paper.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall, x = matrix.shape[0] > matrix.shape[1], _rounded(matrix)
    x = x.T if tall else x
    x = _rounded(x / _rounded(_rounded(x.norm()).clamp_min(eps)))
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        change = _rounded(b * gram + c * (gram @ gram))
        x = _rounded(a * x + change @ x)
    return (x.T if tall else x).bfloat16()


def _rounded(x: Tensor) -> Tensor:
    """Round to bfloat16 and return float32: sums and products are rounded once, as in PyTorch's `addmm`."""
    return x.bfloat16().float()
