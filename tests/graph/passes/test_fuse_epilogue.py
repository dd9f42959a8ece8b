"""Epilogues of matrix products: which loops are fused, and that results of random programs do not change."""

from __future__ import annotations

import numpy as np
import pytest
from selection import every
import programs
from programs import MODES, check, in_turn

import numod
from numod.graph.passes import fuse_pointwise
from numod.graph import trace
from numod.graph import verify
from numod.graph.passes.fuse_epilogue import WithEpilogue
from numod.graph.passes.pipeline import optimise
from numod.nn import functional as F
from numod.ops.matmul import matmul, tiled

from fused import epilogues_of_training


def data(*shape: int, seed: int = 0) -> numod.Tensor:
    return numod.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


X, W, B, R, WIDE = data(80, 70), data(60, 70, seed=1), data(60, seed=2), data(80, 60, seed=3), data(160, 120)


def names(function: object, *inputs: numod.Tensor) -> list[str]:
    """The names of the optimised program's ops without views. Its results must equal the function's bit for bit."""
    with numod.no_grad():
        smaller, _ = optimise(trace(function, *inputs))
        verify(smaller)
        expected = function(*inputs)
        compiled = numod.compile(function)
        compiled(*inputs)
        for actual in (smaller(*inputs), compiled(*inputs)):
            for a, b in zip(
                *(result if isinstance(result, tuple) else (result,) for result in (actual, expected)), strict=True
            ):
                assert a.dtype is b.dtype and np.array_equal(a.numpy(), b.numpy())
    return [step.op.name for step in smaller.steps if not step.op.is_view]


def test_against_numpy() -> None:
    x, w, b, r = (tensor.numpy().astype(np.float64) for tensor in (X, W, B, R))
    call = numod.compile(lambda x: F.relu(F.linear(x, W, B)) * 2 + R)
    call(X)
    np.testing.assert_allclose(call(X).numpy(), np.maximum(x @ w.T + b, 0) * 2 + r, rtol=1e-4, atol=1e-4)


CASES = {
    "relu": (lambda x: F.relu(F.linear(x, W, B)), ["linear_relu"]),
    "no_bias": (lambda x: F.gelu(F.linear(x, W)), ["linear_gelu"]),
    "residual_and_scale": (lambda x: (x @ W.t()) * 0.5 + R, ["matmul_mul_add"]),
    "addmm": (lambda x: numod.addmm(B, x, W.t(), beta=2, alpha=3).tanh(), ["matmul_mul_add_tanh"]),
    "columns_of_numbers": (lambda x: F.linear(x, W, B) * R[:, :1] + R[:1], ["linear_mul_add"]),
    "strided": (lambda x: F.linear(x, W, B) + WIDE[::2, ::2], ["linear_add"]),
    "three_dimensions": (lambda x: F.silu(F.linear(x.reshape(4, 20, 70), W, B)), ["linear_silu"]),
    "batches": (
        lambda x: (x.reshape(2, 40, 70) @ W.t().expand(2, 70, 60)).sigmoid() - R.reshape(2, 40, 60),
        ["matmul_sigmoid_sub"],
    ),
    "two_results": (lambda x: (F.relu(y := F.linear(x, W, B)).add(1), y.tanh() > 0), ["linear_relu_add_tanh_gt"]),
    "the_product_is_a_result": (lambda x: (z := F.linear(x, W, B), F.gelu(z)), ["linear_gelu"]),
    "used_later": (lambda x: ((z := F.linear(x, W, B)).relu() @ W, z.sum()), ["linear_relu", "matmul", "sum"]),
    "gate": (lambda x: F.silu(F.linear(x, W)) * F.linear(x, W, B), ["linear", "linear_silu_mul"]),
    "transposed": (lambda x: (W @ x.t()).relu(), ["matmul_relu"]),
}


@pytest.mark.parametrize("case", every(2, CASES, others=pytest.mark.fuzz))
def test_loops_that_join(case: str) -> None:
    function, expected = CASES[case]
    actual = names(function, X)
    assert actual == expected


KEPT_APART = {
    "a_transposed_view": lambda x: F.linear(x, W, B).t().relu(),
    "small": lambda x: F.linear(x[:8], W, B).relu(),
    "truths_only": lambda x: F.linear(x, W, B).relu() > 1,
    "a_sum_in_between": lambda x: F.linear(x, W, B) - F.linear(x, W, B).sum(),
    "integers": lambda x: (x.int() @ W.t().int()).relu(),
}


@pytest.mark.parametrize("case", KEPT_APART)
def test_loops_that_stay_apart(case: str) -> None:
    with numod.no_grad():
        smaller, _ = optimise(trace(KEPT_APART[case], X))
    assert not any(isinstance(step.op, WithEpilogue) for step in smaller.steps)
    names(KEPT_APART[case], X)


def test_a_write_between_product_and_loop_keeps_them_apart() -> None:
    state = W.clone()

    def function(x: numod.Tensor) -> numod.Tensor:
        z = F.linear(x, state)
        state.mul_(0.5)
        return z.relu()

    compiled = numod.compile(function)
    with numod.no_grad():
        for scale in (1, 0.5, 0.25):
            np.testing.assert_array_equal(compiled(X).numpy(), F.linear(X, W * scale).relu().numpy())


def test_a_training_step_is_eagers() -> None:
    def model() -> numod.nn.Module:
        nn = numod.nn
        return nn.Sequential(nn.Linear(70, 64), nn.GELU(), nn.Linear(64, 60), nn.ReLU(), nn.Linear(60, 3))

    fused = epilogues_of_training(model, X)
    assert fused == ["linear_gelu", "linear_relu", "matmul_relu_grad_x", "matmul_gelu_grad_x"]


def test_explain_and_draw_show_the_end() -> None:
    compiled = numod.compile(lambda x: F.relu(F.linear(x, W, B)))
    with numod.no_grad():
        compiled(X)
    assert "relu(the product)" in compiled.explain() and "linear_relu" in compiled.graph.dot()


@pytest.fixture
def everything_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of any size use tiles and epilogues; half of a random program's lines are products or follow them."""
    monkeypatch.setattr(fuse_pointwise, "MIN_FUSED_SIZE", 1)
    monkeypatch.setattr(tiled, "_TILE_WORK", 1)
    monkeypatch.setattr(tiled, "_PACK_WORK", 1)
    kinds = [programs.UNARY, programs.BINARY, programs.VIEW, programs.WRITE, programs.SCALAR] + [programs.PRODUCT] * 3
    monkeypatch.setattr(programs, "KINDS", kinds)
    for op in (matmul.matmul, matmul.linear):
        monkeypatch.setattr(op, "plans", {})


@pytest.mark.usefixtures("everything_joins")
@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seeds", [range(1000, 1002), pytest.param(range(1002, 1006), marks=pytest.mark.fuzz)], ids=str)
def test_random_products(mode: str, seeds: range) -> None:
    for seed in seeds:
        check(seed, mode, in_turn)


@pytest.mark.fuzz
@pytest.mark.usefixtures("everything_joins")
@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", range(2000, 2040, 20))
def test_many_random_products(mode: str, first: int) -> None:
    for seed in range(first, first + 20):
        check(seed, mode, in_turn if seed % 2 else numod.compile)
