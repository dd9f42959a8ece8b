"""numod.amp: autocast by PyTorch's lists, and a GradScaler that scales."""

from __future__ import annotations

from threading import Thread

import pytest

import numod
import numod.nn.functional as F
from numod import amp
from numod.amp import casts

INF = float("inf")


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


def parts(**options):
    parameter = numod.nn.Parameter(numod.ones(2))
    return amp.GradScaler("cpu", init_scale=8.0, **options), parameter, numod.optim.SGD([parameter], 0.5)


def test_a_step_is_that_of_unscaled_gradients():
    scaler, parameter, optimizer = parts(growth_interval=2)
    for expected, scale in ((0.0, 8.0), (-1.0, 16.0)):
        optimizer.zero_grad()
        scaler.scale((parameter * 2).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (parameter.tolist(), parameter.grad.tolist(), scaler.get_scale()) == ([expected] * 2, [2.0, 2.0], scale)


def test_a_step_with_infinite_gradients_is_left_out():
    scaler, parameter, optimizer = parts()
    scaler.scale((parameter * numod.tensor([1.0, INF])).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    assert scaler.step(optimizer) is None and parameter.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        scaler.step(optimizer)
    scaler.update()
    assert scaler.state_dict() == {
        "scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 0,
    }
    other = amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        other.load_state_dict({})


def test_structures_are_scaled_and_order_is_checked():
    scaler, _, optimizer = parts()
    for call in (lambda: scaler.step(optimizer), scaler.update):
        with pytest.raises(AssertionError, match="_scale is None"):
            call()
    scaled = scaler.scale({"a": [numod.ones(1), (numod.ones(1),)]})
    assert scaled["a"][0].item() == scaled["a"][1][0].item() == 8 and type(scaled["a"][1]) is tuple
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


def test_not_enabled_it_only_steps():
    parameter = numod.nn.Parameter(numod.ones(1))
    optimizer, scaler = numod.optim.SGD([parameter], 1.0), amp.GradScaler(enabled=False)
    scaler.scale(parameter.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert (parameter.item(), scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()) == (0.0, 1.0, False, {})


@pytest.mark.filterwarnings("ignore:.numod.cuda.amp.GradScaler:FutureWarning")
@pytest.mark.skipif(numod.cuda.is_available(), reason="CUDA is there")
def test_without_cuda_it_says_so():
    for make in (amp.GradScaler, numod.cuda.amp.GradScaler):
        with pytest.warns(UserWarning, match="CUDA is not available.  Disabling."):
            assert not make().is_enabled()


def test_devices_without_autocast_are_refused():
    for call in (
        lambda: numod.set_autocast_enabled("mps", True),
        lambda: numod.get_autocast_dtype("x"),
        lambda: numod.set_autocast_dtype("meta", numod.float16),
    ):
        with pytest.raises(RuntimeError, match="device"):
            call()


def test_older_names_of_switches():
    with pytest.warns(DeprecationWarning, match="Please use numod.get_autocast_dtype"):
        numod.get_autocast_cpu_dtype()


@pytest.mark.filterwarnings("ignore:numod.*autocast:DeprecationWarning")
def test_older_names_of_switches_do_what_the_newer_do():
    assert (
        numod.get_autocast_gpu_dtype() is numod.float16
        and numod.get_autocast_cpu_dtype() is numod.bfloat16
        and not numod.is_autocast_cpu_enabled()
    )
    with numod.autocast("cpu", numod.float16):
        assert numod.is_autocast_cpu_enabled() and numod.get_autocast_cpu_dtype() is numod.float16


def test_a_scalers_rules_are_read_and_set_by_name():
    scaler, *_ = parts(growth_interval=2)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (2.0, 0.5, 2)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(5)
    rules = {"growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 5}
    assert {name: scaler.state_dict()[name] for name in rules} == rules


def test_a_debugger_may_look_at_the_variables_of_every_frame():
    with numod.autocast("cpu"), pytest.raises(RuntimeError) as caught:
        F.conv2d(numod.ones(2), numod.ones(3))
    assert all(isinstance(dict(entry.frame.f_locals), dict) for entry in caught.traceback) and len(caught.traceback) > 3


def test_deprecated_decorators_of_cuda():
    for decorate in (numod.cuda.amp.custom_fwd, numod.cuda.amp.custom_bwd):
        with pytest.warns(FutureWarning, match="args..., device_type='cuda'"):
            assert callable(decorate(lambda ctx, x: x))
