"""Autocast: PyTorch's lists of functions, values and gradients, threads and compiled functions."""

from __future__ import annotations

from threading import Thread

import pytest

import numod
import numod.nn.functional as F
from numod import amp
from numod.amp import casts


LOW, FULL = numod.bfloat16, numod.float32


@pytest.mark.parametrize("make", [lambda: amp.autocast("cpu", enabled=False), lambda: numod.cuda.amp.autocast(False)])
@pytest.mark.filterwarnings("ignore:.numod.cuda.amp.autocast:FutureWarning")
def test_autocast_that_is_off_changes_nothing(make):
    @make()
    def double(x):
        return x @ x

    with make():
        assert double(numod.ones(1, 1)).dtype is FULL and not numod.is_autocast_enabled("cpu")


X, Y = numod.rand(4, 4), numod.arange(4)


@pytest.mark.parametrize("function, of_full, of_low", [
    (lambda x: x @ x, LOW, LOW), (lambda x: x.mm(x), LOW, LOW), (lambda x: F.linear(x, x, x[0]), LOW, LOW), (lambda x: F.conv2d(x[None, None], x[None, None]), LOW, LOW), (lambda x: numod.einsum("ij,jk->ik", x, x), LOW, LOW),
    (lambda x: numod.addmm(x, x, x, beta=0.5), LOW, LOW), (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), LOW, LOW), (lambda x: numod.nn.LSTM(4, 3)(x)[0], LOW, LOW), (lambda x: numod.nn.GRU(4, 3)(x)[0], FULL, LOW),
    (lambda x: F.mse_loss(x, x), FULL, FULL), (lambda x: F.cross_entropy(x, Y), FULL, FULL), (lambda x: x.prod(), FULL, FULL), (lambda x: numod.linalg.inv(x + 9 * numod.eye(4)), FULL, FULL),
    (lambda x: numod.mv(x, x[0]), FULL, LOW), (lambda x: numod.outer(x[0], x[0]), FULL, LOW), (lambda x: x.softmax(-1), FULL, LOW), (lambda x: F.layer_norm(x, (4,)), FULL, LOW), (lambda x: x.exp().sum(), FULL, LOW), (lambda x: numod.cat([x, x.float()]), FULL, FULL),
    (lambda x: x.double() @ x.double(), numod.float64, numod.float64), (lambda x: numod.nn.LSTMCell(4, 3)(x)[0], FULL, LOW), (lambda x: numod.nn.MultiheadAttention(4, 2)(x, x, x)[0], LOW, LOW),
])  # fmt: skip
def test_which_functions_cast(function, of_full, of_low):
    with amp.autocast("cpu"):
        assert (function(X).dtype, function(X.to(LOW)).dtype) == (of_full, of_low)
        with amp.autocast("cpu", enabled=False):
            assert (X @ X).dtype is FULL
        assert (X @ X).dtype is LOW
    assert (X @ X).dtype is FULL


def test_values_and_gradients_are_those_of_casts():
    layer = numod.nn.Linear(4, 3)
    with numod.autocast("cpu", dtype=numod.float16):
        out = layer(X)
        loss = F.mse_loss(out, numod.zeros(4, 3))
    loss.backward()
    actual = layer.weight.grad.clone()
    layer.zero_grad()
    expected = F.linear(X.half(), layer.weight.half(), layer.bias.half())
    (expected.float() ** 2).mean().backward()
    assert out.dtype is numod.float16 and numod.equal(out, expected) and actual.dtype is FULL
    assert numod.allclose(actual, layer.weight.grad, rtol=1e-2, atol=1e-3)


def test_casts_of_parameters_are_kept_until_they_change():
    weight = numod.nn.Parameter(numod.ones(2, 2))
    with amp.autocast("cpu"):
        with numod.no_grad():
            assert not F.linear(X[:, :2], weight).requires_grad
        first = F.linear(X[:, :2], weight)
        cached_weight = casts._cached_casts.casts[id(weight)][2]
        F.linear(X[:, :2], weight)
        assert first.requires_grad and casts._cached_casts.casts[id(weight)][2] is cached_weight
        with numod.no_grad():
            weight.mul_(2)
        assert numod.equal(F.linear(X[:, :2], weight), first * 2)


@pytest.mark.parametrize(
    "write",
    [
        lambda weight: weight.data.mul_(2),
        lambda weight: setattr(weight, "data", weight.data * 2),
        lambda weight: weight.detach().mul_(2),
        lambda weight: weight.set_(weight.detach() * 2),
    ],
    ids=["through data", "assigned data", "through detach", "set_"],
)
@numod.no_grad()
def test_a_cached_cast_is_made_again_after_any_write(write):
    weight, x = numod.nn.Parameter(numod.ones(3, 4)), numod.ones(2, 4)
    with numod.autocast("cpu", dtype=numod.bfloat16):
        assert numod.nn.functional.linear(x, weight).eq(4).all()
        write(weight)
        assert numod.nn.functional.linear(x, weight).eq(8).all()


def test_other_threads_and_compiled_functions_see_it_as_they_should():
    @numod.compile
    def product(x):
        return x @ x

    dtypes_seen = []
    with amp.autocast("cpu"):
        thread = Thread(target=lambda: dtypes_seen.append((X @ X).dtype))
        thread.start()
        thread.join()
        assert product(X).dtype is LOW
    assert dtypes_seen == [FULL] and product(X).dtype is FULL
    with amp.autocast("cpu"):
        assert product(X).dtype is LOW


def test_a_function_of_ones_own_under_autocast():
    class Product(numod.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=numod.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert not numod.is_autocast_enabled("cpu")
            return g @ x.mT + x.mT @ g

    x = X.clone().requires_grad_()
    with amp.autocast("cpu"):
        out = Product.apply(x.to(LOW))
    assert out.dtype is FULL
    out.sum().backward()
    assert x.grad.dtype is FULL and numod.isfinite(x.grad).all()


def test_questions_and_what_is_refused():
    assert (
        amp.is_autocast_available("cpu")
        and not numod.is_autocast_enabled("cpu")
        and numod.get_autocast_dtype("cpu") is LOW
    )
    with amp.autocast("cpu", numod.float16):
        assert (
            numod.is_autocast_enabled("cpu")
            and not numod.is_autocast_enabled()
            and numod.get_autocast_dtype("cpu") is numod.float16
        )
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        amp.autocast(numod.float16)
    with pytest.raises(RuntimeError, match="xx"):
        amp.autocast("xx")
    with pytest.warns(UserWarning, match="only supports dtypes of"):
        amp.autocast("cpu", numod.float32)
    if not numod.cuda.is_available():
        with (
            pytest.warns(FutureWarning, match="is deprecated. Please use `numod.amp.autocast"),
            pytest.warns(UserWarning, match="CUDA is not available. Disabling"),
        ):
            numod.cuda.amp.autocast()
    numod.set_autocast_enabled("cpu", True)
    assert (X @ X).dtype is LOW
    numod.set_autocast_enabled("cpu", False)
    assert (X @ X).dtype is FULL


def test_devices_without_autocast_are_refused():
    for call in (
        lambda: numod.set_autocast_enabled("mps", True),
        lambda: numod.get_autocast_dtype("x"),
        lambda: numod.set_autocast_dtype("meta", numod.float16),
    ):
        with pytest.raises(RuntimeError, match="device"):
            call()


def test_a_debugger_may_look_at_the_variables_of_every_frame():
    with numod.autocast("cpu"), pytest.raises(RuntimeError) as caught:
        F.conv2d(numod.ones(2), numod.ones(3))
    assert all(isinstance(dict(entry.frame.f_locals), dict) for entry in caught.traceback) and len(caught.traceback) > 3
