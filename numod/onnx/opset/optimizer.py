"""Gradients and steps of optimizers, of the domain ai.onnx.preview.training."""

from __future__ import annotations

import numpy as np

import numod

from ...core import Tensor
from ..registry import operator

_DOMAIN = "ai.onnx.preview.training"


@operator("Gradient", domain=_DOMAIN)
def gradient(*inputs: Tensor, xs: list[str], y: str, zs: list[str] | None = None, scope: dict) -> object:
    """The gradients of the value `y` of the graph with respect to the inputs, whose names are `xs`."""
    if y not in scope:
        raise ValueError(f"there is no value '{y}'")
    gradients = numod.autograd.grad(scope[y].sum(), inputs[: len(xs)], create_graph=True)
    return gradients if len(gradients) > 1 else gradients[0]


def _columns(tensors: tuple, kinds: int) -> list[tuple]:
    """(tensor, gradient, state ...) of each optimized tensor. The inputs are all tensors, then all gradients ..."""
    count = len(tensors) // kinds
    return list(zip(*[tensors[kind * count : (kind + 1) * count] for kind in range(kinds)]))


def _rows(results: list[tuple]) -> tuple:
    """The outputs: all new tensors, then all of each kind of state."""
    return tuple(value for kind in zip(*results) for value in kind)


@operator("Adagrad", domain=_DOMAIN, host="count")
def adagrad(
    rate: Tensor,
    count: np.ndarray,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple:
    """New tensors and accumulated squares."""
    rate = rate / (1 + int(count) * decay_factor)
    results = []
    for x, gradient, squares in _columns(tensors, 3):
        gradient = norm_coefficient * x + gradient
        squares = squares + gradient * gradient
        results.append((x - rate * gradient / (squares.sqrt() + epsilon), squares))
    return _rows(results)


@operator("Adam", domain=_DOMAIN, host="count")
def adam(
    rate: Tensor,
    count: np.ndarray,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple:
    """New tensors, and averages of gradients and their squares."""
    steps = int(count)
    if steps > 0:
        rate = rate * ((1 - beta**steps) ** 0.5 / (1 - alpha**steps))
    results = []
    for x, gradient, average, squares in _columns(tensors, 4):
        gradient = norm_coefficient * x + gradient
        average = alpha * average + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * gradient * gradient
        new = x - rate * average / (numod.sqrt(squares) + epsilon)
        results.append(((1 - norm_coefficient_post) * new, average, squares))
    return _rows(results)


@operator("Momentum", domain=_DOMAIN, host="count")
def momentum(
    rate: Tensor,
    count: np.ndarray,
    *tensors: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple:
    """New tensors and velocities; `mode` is "standard" or "nesterov"."""
    results = []
    for x, gradient, velocity in _columns(tensors, 3):
        gradient = norm_coefficient * x + gradient
        velocity = alpha * velocity + (beta if int(count) > 0 else 1.0) * gradient
        step = gradient + alpha * velocity if mode == "nesterov" else velocity
        results.append((x - rate * step, velocity))
    return _rows(results)
