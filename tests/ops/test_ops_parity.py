"""numod against the installed PyTorch: values, dtypes, shapes, gradients and exception types for equal inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from parity import compare, same, same_error, torch

import numod

pytestmark = pytest.mark.parity
INF, NAN = math.inf, math.nan


def floats(*shape, seed=0, low=-3.0, high=3.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


UNARY = """abs neg square reciprocal exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan
sinh cosh tanh asinh acosh atanh sinc deg2rad rad2deg erf erfc erfinv sigmoid sign sgn floor ceil trunc frac round
isnan isfinite isinf isposinf isneginf signbit relu logit nan_to_num""".split()
BINARY = """add sub mul div pow floor_divide remainder fmod maximum minimum fmax fmin eq ne lt le gt ge logaddexp
xlogy atan2 hypot copysign heaviside logical_and logical_or logical_xor""".split()
INTEGER_BINARY = (
    "add sub mul div floor_divide remainder fmod maximum minimum eq lt bitwise_and bitwise_or bitwise_xor "
    "bitwise_left_shift bitwise_right_shift pow"
).split()
WIDE = [
    NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, 7.25, 40.0, -40.0, 100.0, -100.0, 1e-40, 1e-30,
    3e38, -3e38, 1e10,
]  # fmt: skip
WITHOUT_GRADIENT = {"floor_divide", "heaviside", "floordiv", "rfloordiv"}  # PyTorch has none; ours is zero
ZERO_SIGNS = set(
    "abs neg reciprocal expm1 log1p sqrt sin tan asin atan sinh tanh asinh atanh erf floor ceil trunc round add sub "
    "mul div copysign atan2".split()
)


def in_both(name):
    return hasattr(numod, name) and hasattr(torch, name)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    assert in_both(name)
    compare(lambda library, x: getattr(library, name)(x), floats(4, 7), rtol=1e-5)


@pytest.mark.parametrize("name", UNARY)
def test_unary_special_values(name):
    """Also where PyTorch flushes or saturates: NaN, infinities, signed zeros, subnormal and huge values."""
    x = np.array(WIDE, np.float32)
    ours, theirs = getattr(numod, name)(numod.tensor(x)).numpy(), getattr(torch, name)(torch.tensor(x)).numpy()
    if name in ("sin", "cos", "tan", "sinc"):
        # argument reduction of huge numbers differs between libraries
        ours, theirs = ours[np.abs(x) < 1e6], theirs[np.abs(x) < 1e6]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
    if name in ZERO_SIGNS:
        zeros = theirs == 0
        np.testing.assert_array_equal(np.signbit(ours[zeros]), np.signbit(theirs[zeros]))


@pytest.mark.parametrize("name", [name for name in UNARY if name not in ("relu", "nan_to_num")])
def test_unary_gradient_at_zero_and_infinity(name):
    compare(
        lambda library, x: getattr(library, name)(x),
        np.array([0.0, 1.0, -1.0, INF, -INF, 50.0, -50.0], np.float32),
        rtol=1e-5,
    )


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    assert in_both(name)
    compare(
        lambda library, x, y: getattr(library, name)(x, y),
        floats(4, 7),
        floats(7, seed=1),
        rtol=2e-5,
        atol=1e-5,
        differentiable=name not in WITHOUT_GRADIENT,
    )


@pytest.mark.parametrize("name", BINARY)
def test_binary_special_values(name):
    x, y = (grid.ravel() for grid in np.meshgrid(np.array(WIDE, np.float32), np.array(WIDE, np.float32)))
    ours = getattr(numod, name)(numod.tensor(x), numod.tensor(y)).numpy()
    theirs = getattr(torch, name)(torch.tensor(x), torch.tensor(y)).numpy()
    if name == "floor_divide":  # PyTorch rounds a quotient beyond 2^24 its own way
        comparable = ~(np.abs(theirs) > 2**24) | np.isinf(theirs)
        x, y, ours, theirs = x[comparable], y[comparable], ours[comparable], theirs[comparable]
    if name in ("remainder", "fmod"):  # ... and makes NaN of a quotient beyond the greatest number
        with np.errstate(all="ignore"):
            comparable = ~np.isinf(x / y) | np.isinf(x) | (y == 0)
        x, y, ours, theirs = x[comparable], y[comparable], ours[comparable], theirs[comparable]
    if name == "heaviside":  # PyTorch's is 0 at NaN; ours and NumPy's is NaN
        x, y, ours, theirs = x[~np.isnan(x)], y[~np.isnan(x)], ours[~np.isnan(x)], theirs[~np.isnan(x)]
    wrong = np.flatnonzero(~np.isclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True))[:5]
    assert not wrong.size, [(x[k], y[k], ours[k], theirs[k]) for k in wrong]
    if name in ZERO_SIGNS:
        zeros = theirs == 0
        np.testing.assert_array_equal(np.signbit(ours[zeros]), np.signbit(theirs[zeros]))


@pytest.mark.parametrize(
    "name",
    [
        "mul",
        "div",
        "pow",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "atan2",
        "hypot",
        "xlogy",
        "logaddexp",
        "copysign",
        "remainder",
        "fmod",
    ],
)
def test_binary_gradient_at_equal_and_zero_values(name):
    x = np.array([0.0, 0.0, 1.0, 2.0, 0.0, 5.0], np.float32)
    y = np.array([0.0, 1.0, 1.0, 2.0, 3.0, 5.0], np.float32)
    if name == "xlogy":  # 0 for every y where x is 0; PyTorch's gradient by y is NaN where both are
        x, y = x[1:], y[1:]
    compare(lambda library, x, y: getattr(library, name)(x, y), x, y)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8])
@pytest.mark.parametrize("name", INTEGER_BINARY)
def test_integer_binary(name, dtype):
    generator = np.random.default_rng(0)
    low = 0 if dtype == np.uint8 else -20
    x = generator.integers(low, 100, 50).astype(dtype)
    y = generator.integers(1, 6, 50).astype(dtype) * (
        1 if dtype == np.uint8 or "shift" in name or name == "pow" else generator.choice([-1, 1], 50).astype(dtype)
    )
    compare(lambda library, x, y: getattr(library, name)(x, y), x, y)


@pytest.mark.parametrize("shift", [0, 1, 62, 63, 64, 100, -1])
@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_shifts_beyond_the_width(name, shift):
    x = np.array([1, -8, 2**62], np.int64)
    same(getattr(numod, name)(numod.tensor(x), shift), getattr(torch, name)(torch.tensor(x), shift))


@pytest.mark.parametrize("x, y", [(-(2**63), -1), (2**63 - 1, 2), (-(2**63), 3), (-7, -(2**63))])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_extreme_integer_division(name, x, y):
    if (x, y) == (-(2**63), -1):
        pytest.skip("PyTorch traps or wraps here, by processor")
    same(
        getattr(numod, name)(numod.tensor([x]), numod.tensor([y])),
        getattr(torch, name)(torch.tensor([x]), torch.tensor([y])),
    )


OTHER = {
    "clamp": (lambda t, x: t.clamp(x, -1, 1.5), 1), "clamp_tensors": (lambda t, x, a, b: t.clamp(x, a, b), 3),
    "clamp_min": (lambda t, x: t.clamp(x, min=0.5), 1),
    "clamp_max_tensor": (lambda t, x, a: t.clamp(x, max=a), 2), "lerp": (lambda t, x, y: t.lerp(x, y, 0.3), 2),
    "lerp_tensor": (lambda t, x, y, w: t.lerp(x, y, w), 3),
    "addcmul": (lambda t, x, y, z: t.addcmul(x, y, z, value=0.5), 3),
    "addcdiv": (lambda t, x, y, z: t.addcdiv(x, y, z, value=0.5), 3),
    "where": (lambda t, x, y: t.where(x > y, x, y), 2), "pow_2": (lambda t, x: x**2, 1),
    "pow_3": (lambda t, x: x**3, 1), "rpow": (lambda t, x: 2.5**x, 1),
    "rdiv": (lambda t, x: 1 / x, 1), "rsub": (lambda t, x: 1 - x, 1), "floordiv": (lambda t, x: x // 0.7, 1),
    "rfloordiv": (lambda t, x: 7.5 // x, 1), "mod": (lambda t, x: x % 0.7, 1),
    "masked_fill": (lambda t, x: x.masked_fill(x > 0, 7), 1), "alpha": (lambda t, x, y: t.add(x, y, alpha=0.3), 2),
    "div_floor": (lambda t, x, y: t.div(x, y, rounding_mode="floor"), 2),
    "round_decimals": (lambda t, x: t.round(x, decimals=1), 1),
    "nan_to_num": (lambda t, x: t.nan_to_num(x / (x > 0), 1.0, 2.0), 1),
    "logit_eps": (lambda t, x: t.logit(x, 0.1), 1), "isclose": (lambda t, x, y: t.isclose(x, y, rtol=0.5), 2),
    "outer": (lambda t, x: t.outer(x[0], x[:, 1]), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_other_pointwise(name):
    function, count = OTHER[name]
    compare(
        function,
        *(floats(4, 5, seed=k) for k in range(count)),
        rtol=1e-5,
        atol=1e-5,
        differentiable=name not in WITHOUT_GRADIENT,
    )


ACTIVATIONS = {
    "leaky_relu": {"negative_slope": 0.1}, "elu": {"alpha": 1.3}, "selu": {}, "celu": {"alpha": 1.3}, "gelu": {},
    "silu": {}, "mish": {}, "softplus": {"beta": 2, "threshold": 3},
    "logsigmoid": {}, "softsign": {}, "tanhshrink": {}, "softshrink": {"lambd": 0.7}, "hardshrink": {"lambd": 0.7},
    "hardsigmoid": {}, "hardswish": {}, "hardtanh": {}, "relu6": {},
    "relu": {}, "tanh": {}, "sigmoid": {},
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    compare(
        lambda library, x: getattr(library.nn.functional, name)(x, **ACTIVATIONS[name]),
        floats(5, 9, low=-6, high=6),
        rtol=1e-5,
        atol=2e-6,
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_extremes(name):
    """Values; and gradients at kinks and far out."""
    # PyTorch's vectorised gelu makes NaN of infinity
    x = np.array([NAN, -INF, 1e4, -1e4] + [INF] * (name != "gelu"), np.float32)
    function = getattr(numod.nn.functional, name), getattr(torch.nn.functional, name)
    same(function[0](numod.tensor(x), **ACTIVATIONS[name]), function[1](torch.tensor(x), **ACTIVATIONS[name]))
    kinks = np.array([0.0, -0.0, 3.0, -3.0, 6.0, 0.7, -0.7, 1.0, -1.0, 120.0, -120.0], np.float32)
    compare(lambda library, x: getattr(library.nn.functional, name)(x, **ACTIVATIONS[name]), kinks, rtol=1e-5)


LOSSES = {
    "mse_loss": {}, "l1_loss": {}, "smooth_l1_loss": {"beta": 0.7}, "huber_loss": {"delta": 0.7},
    "binary_cross_entropy_with_logits": {}, "binary_cross_entropy": {}, "kl_div": {},
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("ignore:reduction")
def test_losses(name, reduction):
    x = floats(4, 5, low=0.02, high=0.98)
    target = floats(4, 5, seed=1, low=0.0, high=1.0)
    compare(
        lambda library, x: getattr(library.nn.functional, name)(
            x, library.tensor(target), reduction=reduction, **LOSSES[name]
        ),
        x,
        rtol=1e-5,
    )


# ---- reductions, products, softmax

REDUCTIONS = {
    "sum": lambda t, x: x.sum(1), "sum_all": lambda t, x: x.sum(), "sum_dims": lambda t,
    x: x.sum((0, 2), keepdim=True), "mean": lambda t, x: x.mean((0, 1)),
    "prod": lambda t, x: x.prod(1), "prod_all": lambda t, x: x.prod(), "amax": lambda t, x: x.amax((0, 1)),
    "amin": lambda t, x: x.amin(2), "max": lambda t, x: tuple(x.max(1)),
    "min": lambda t, x: tuple(x.min(1, keepdim=True)), "max_all": lambda t, x: x.max(), "argmax": lambda t,
    x: x.argmax(1), "argmin_all": lambda t, x: x.argmin(),
    "var": lambda t, x: x.var(1), "var_0": lambda t, x: x.var((0, 1), correction=0), "std": lambda t, x: x.std(2),
    "std_all": lambda t, x: x.std(),
    "var_mean": lambda t, x: t.var_mean(x, 1), "logsumexp": lambda t, x: x.logsumexp((0, 1)), "norm": lambda t,
    x: x.norm(), "norm_dim": lambda t, x: x.norm(dim=1),
    "norm_1": lambda t, x: x.norm(1, 1), "norm_3": lambda t, x: x.norm(3, 1), "norm_inf": lambda t, x: x.norm(INF, 1),
    "cumsum": lambda t, x: x.cumsum(1),
    "any": lambda t, x: (x > 2).any(1), "all": lambda t, x: (x > -2).all(), "count_nonzero": lambda t,
    x: t.count_nonzero(x > 0, 1),
    "softmax": lambda t, x: x.softmax(1), "log_softmax": lambda t, x: x.log_softmax(-1),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    compare(REDUCTIONS[name], floats(3, 4, 5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_special_values(name):
    x = np.array([[[NAN, 1.0], [2.0, 3.0]], [[INF, 1.0], [-INF, 0.0]], [[0.0, -0.0], [0.0, 5.0]]], np.float32)
    same(REDUCTIONS[name](numod, numod.tensor(x)), REDUCTIONS[name](torch, torch.tensor(x)), 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, np.bool_])
@pytest.mark.parametrize("name", ["sum", "sum_dims", "prod", "amax", "max", "argmax", "cumsum", "max_all"])
def test_reductions_of_integers(name, dtype):
    x = np.random.default_rng(0).permutation(24).reshape(2, 4, 3).astype(dtype)
    if dtype == np.bool_ and name in ("argmax", "max"):
        pytest.skip("PyTorch has no argmax of bool, and its choice among equal elements is not defined")
    same(REDUCTIONS[name](numod, numod.tensor(x)), REDUCTIONS[name](torch, torch.tensor(x)))


@pytest.mark.parametrize(
    "name", ["amax", "amin", "max_all", "prod", "norm", "logsumexp", "std", "norm_1", "norm_3", "norm_inf"]
)
def test_gradients_of_ties_and_zeros(name):
    x = np.array([[[1.0, 1.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 2.0]]], np.float32)
    compare(REDUCTIONS[name], x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "a, b",
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (4, 3, 2)),
        ((4, 2, 3), (3, 5)),
        ((4, 1, 2, 3), (5, 3, 2)),
        ((64, 64), (64, 64)),
    ],
)
def test_matmul(a, b):
    compare(lambda library, x, y: x @ y, floats(*a), floats(*b, seed=1), rtol=1e-5, atol=1e-4)


def test_linear():
    compare(
        lambda library, x, w, b: library.nn.functional.linear(x, w, b),
        floats(2, 5, 3),
        floats(4, 3, seed=1),
        floats(4, seed=2),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ignore_index": 2},
        {"label_smoothing": 0.2},
        {"weight": True},
        {"weight": True, "label_smoothing": 0.2, "ignore_index": 2},
    ],
)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(5, 4), (4,), (2, 4, 3)])
def test_cross_entropy(shape, options, reduction):
    target = np.random.default_rng(1).integers(0, 2, shape[:1] + shape[2:] if len(shape) > 1 else ())

    def function(library, x):
        keywords = {**options, "weight": library.tensor([0.5, 1.0, 2.0, 0.25]) if "weight" in options else None}
        return library.nn.functional.cross_entropy(x, library.tensor(target), reduction=reduction, **keywords)

    compare(function, floats(*shape), rtol=1e-5, atol=1e-5)


# ---- shapes and indices

SHAPES = {
    "reshape": lambda t, x: x.reshape(4, -1), "permute": lambda t, x: x.permute(2, 0, 1), "expand": lambda t,
    x: x[:, :1].expand(-1, 5, -1), "flatten": lambda t, x: x.flatten(1),
    "cat": lambda t, x: t.cat([x, x * 2], 1), "stack": lambda t, x: t.stack([x, x * 2], -1), "split": lambda t,
    x: x.split(2, 2), "split_list": lambda t, x: x.split([1, 3], 2),
    "chunk": lambda t, x: x.chunk(3, 2), "unbind": lambda t, x: x.unbind(1), "flip": lambda t, x: x.flip(0, 2),
    "roll": lambda t, x: x.roll((1, -2), (0, 2)),
    "roll_flat": lambda t, x: x.roll(3), "pad": lambda t, x: t.nn.functional.pad(x, (1, -1, 0, 2), value=1.5),
    "diagonal": lambda t, x: x.diagonal(1, 0, 2),
    "narrow": lambda t, x: x.narrow(2, 1, 2), "squeeze": lambda t, x: x[:, :1].squeeze(), "unsqueeze": lambda t,
    x: x.unsqueeze(-2), "movedim": lambda t, x: x.movedim(0, -1),
    "repeat": lambda t, x: x.repeat(2, 1, 1, 2), "as_strided": lambda t, x: x.as_strided((3, 3), (2, 1), 1),
    "unflatten": lambda t, x: x.unflatten(2, (2, 2)),
    "gather": lambda t, x: x.gather(1, t.tensor([[[0, 1, 2, 0]], [[2, 2, 2, 2]]])), "index_select": lambda t,
    x: x.index_select(2, t.tensor([3, 0, 3])),
    "masked_select": lambda t, x: x.masked_select(x > 0), "scatter": lambda t,
    x: x.scatter(1, t.tensor([[[0, 1, 2, 0]], [[2, 2, 2, 2]]]), -x[:, :1]),
    "scatter_add": lambda t, x: x.scatter_add(1, t.tensor([[[0, 1, 2, 0]], [[2, 2, 2, 2]]]), -x[:, :1]),
    "index_add": lambda t, x: x.index_add(0, t.tensor([1, 1]), x, alpha=2),
    "getitem": lambda t, x: x[:, [0, 2], 1:3], "getitem_int": lambda t, x: x[0, :, [1, 2]], "getitem_apart": lambda t,
    x: x[t.tensor([0, 1]), :, t.tensor([1, 2])],
    "getitem_mask": lambda t, x: x[x.sum(2) > 0], "getitem_none": lambda t, x: x[..., None, 1], "nonzero": lambda t,
    x: (x > 0).nonzero(),
    "index_put": lambda t, x: x.index_put((t.tensor([0, 0]), t.tensor([1, 1])), t.ones(4), accumulate=True),
    "index_fill": lambda t, x: x.index_fill(1, t.tensor([0]), 2.0),
    "mask_then_slice": lambda t, x: x[t.tensor([[True, False, True], [False, True, False]]), 1:3],
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    compare(SHAPES[name], floats(2, 3, 4))


STRIDES = [
    "reshape", "permute", "expand", "flatten", "diagonal", "narrow", "squeeze", "unsqueeze", "movedim", "as_strided",
    "unflatten",
]  # fmt: skip


@pytest.mark.parametrize("name", STRIDES)
def test_strides(name):
    x = floats(2, 3, 4)
    ours, theirs = SHAPES[name](numod, numod.tensor(x)), SHAPES[name](torch, torch.tensor(x))
    assert (ours.stride(), ours.storage_offset(), ours.is_contiguous()) == (
        theirs.stride(),
        theirs.storage_offset(),
        theirs.is_contiguous(),
    )


# ---- creation

CREATION = {
    "arange": lambda t: t.arange(2, 11, 3), "arange_float": lambda t: t.arange(0, 1, 0.1),
    "arange_int8": lambda t: t.arange(5, dtype=t.int8), "linspace": lambda t: t.linspace(-3, 10, 7),
    "linspace_1": lambda t: t.linspace(3, 10, 1), "linspace_int": lambda t: t.linspace(0, 10, 4, dtype=t.int64),
    "eye": lambda t: t.eye(2, 3), "full": lambda t: t.full((2,), 3),
    "full_bool": lambda t: t.full((2,), True), "tensor": lambda t: t.tensor([[1, 2.5], [3, 4]]),
    "tensor_bool": lambda t: t.tensor([True, 2]), "zeros_like": lambda t: t.zeros_like(t.arange(3)),
    "like_transposed": lambda t: t.zeros_like(t.zeros(2, 3).t()).t(), "scalar_tensor": lambda t: t.scalar_tensor(3),
}  # fmt: skip


@pytest.mark.parametrize("name", CREATION)
def test_creation(name):
    same(CREATION[name](numod), CREATION[name](torch))


def test_strides_of_like():
    for make in ("zeros_like", "ones_like", "empty_like"):
        assert (
            getattr(numod, make)(numod.zeros(2, 3).t()).stride() == getattr(torch, make)(torch.zeros(2, 3).t()).stride()
        )


def test_conversion_of_all_pairs():
    names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"]
    for source in names[5:]:
        for target in names:
            same(
                numod.tensor([0.0, 1.5, 100.9]).to(getattr(numod, source)).to(getattr(numod, target)),
                torch.tensor([0.0, 1.5, 100.9]).to(getattr(torch, source)).to(getattr(torch, target)),
            )


# ---- errors: the same exception type

BAD_CALLS = {
    "broadcast": lambda t: t.ones(2, 3) + t.ones(4), "matmul": lambda t: t.ones(2, 3) @ t.ones(2, 3),
    "matmul_dtype": lambda t: t.ones(2, 2) @ t.ones(2, 2).long(),
    "matmul_scalar": lambda t: t.ones(2) @ t.tensor(1.0), "reshape": lambda t: t.ones(6).reshape(4),
    "view": lambda t: t.ones(2, 3).t().view(6), "dim": lambda t: t.ones(2).sum(1),
    "index": lambda t: t.ones(2)[2], "index_tensor": lambda t: t.ones(2)[t.tensor([2])],
    "too_many": lambda t: t.ones(2)[0, 0], "float_index": lambda t: t.ones(2)[t.tensor([0.5])],
    "negative_step": lambda t: t.ones(2)[::-1], "mask": lambda t: t.ones(2)[t.tensor([True])],
    "item": lambda t: t.ones(2).item(), "truth": lambda t: bool(t.ones(2)),
    "iterate": lambda t: list(t.tensor(1.0)), "len": lambda t: len(t.tensor(1.0)), "cat_empty": lambda t: t.cat([]),
    "cat_shapes": lambda t: t.cat([t.ones(2, 2), t.ones(3, 3)]),
    "cat_scalar": lambda t: t.cat([t.tensor(1)]), "stack": lambda t: t.stack([t.ones(2), t.ones(3)]),
    "stack_empty": lambda t: t.stack([]), "ragged": lambda t: t.tensor([[1], [1, 2]]),
    "text": lambda t: t.tensor("a"), "none": lambda t: t.tensor(None),
    "overflow": lambda t: t.tensor([300], dtype=t.uint8), "huge": lambda t: t.tensor(2**70),
    "negative_size": lambda t: t.zeros(-1), "float_size": lambda t: t.zeros(2.0), "arange": lambda t: t.arange(5, 1),
    "step": lambda t: t.arange(1, 5, 0), "sub_bool": lambda t: t.tensor(True) - t.tensor(True),
    "neg_bool": lambda t: -t.tensor([True]), "int_pow": lambda t: t.tensor([2]) ** -1,
    "int_zero": lambda t: t.tensor([2]) // t.tensor([0]), "int_mod": lambda t: t.tensor([2]) % 0,
    "in_place_cast": lambda t: t.tensor([1]).add_(t.tensor([1.5])),
    "in_place_shape": lambda t: t.ones(1).add_(t.ones(2)),
    "in_place_leaf": lambda t: t.ones(1, requires_grad=True).add_(1),
    "expand": lambda t: t.ones(2).expand(3), "permute": lambda t: t.ones(2, 2).permute(0, 0),
    "gather": lambda t: t.ones(2).gather(0, t.tensor([2])),
    "gather_float": lambda t: t.ones(2).gather(0, t.tensor([0.0])),
    "index_select": lambda t: t.ones(2).index_select(0, t.tensor([2])),
    "scatter": lambda t: t.ones(2).scatter(0, t.tensor([2]), t.ones(1)),
    "index_add": lambda t: t.ones(2).index_add(0, t.tensor([2]), t.ones(1)),
    "embedding": lambda t: t.nn.functional.embedding(t.tensor([2]), t.ones(2, 2)),
    "argmax": lambda t: t.zeros(0).argmax(), "amax": lambda t: t.zeros(0, 2).amax(0),
    "max": lambda t: t.zeros(0).max(), "mean_int": lambda t: t.tensor([1]).mean(),
    "backward": lambda t: t.ones(2, requires_grad=True).sum().backward(t.ones(2)),
    "backward_vector": lambda t: (t.ones(2, requires_grad=True) * 2).backward(),
    "backward_none": lambda t: t.ones(1).sum().backward(), "grad_int": lambda t: t.tensor([1], requires_grad=True),
    "numpy_grad": lambda t: t.ones(1, requires_grad=True).numpy(),
    "target": lambda t: t.nn.functional.cross_entropy(t.ones(1, 2), t.tensor([2])),
    "target_size": lambda t: t.nn.functional.cross_entropy(t.ones(2, 2), t.tensor([0])),
    "softmax_int": lambda t: t.tensor([1, 2]).softmax(0), "dropout": lambda t: t.nn.functional.dropout(t.ones(1), 2.0),
    "text_add": lambda t: t.tensor(1.0) + "a", "call": lambda t: t.exp(1.0),
    "list": lambda t: t.exp([1.0]), "sum_list": lambda t: t.sum([1.0]),
    "masked_fill": lambda t: t.ones(2).masked_fill(t.tensor([1, 0]), 1.0), "repeat": lambda t: t.ones(2, 2).repeat(2),
    "as_strided": lambda t: t.ones(2).as_strided((3,), (1,)), "narrow": lambda t: t.ones(2).narrow(0, 1, 2),
    "split": lambda t: t.ones(3).split([1, 1]), "chunk": lambda t: t.ones(3).chunk(0),
    "flip": lambda t: t.ones(2).flip(1), "flatten": lambda t: t.ones(2, 2).flatten(1, 0),
    "logical": lambda t: t.ones(2) & t.ones(2), "shift_float": lambda t: t.ones(2) << 1,
    "clamp": lambda t: t.ones(2).clamp(), "where_float": lambda t: t.where(t.ones(2), t.ones(2), t.ones(2)),
    "dot": lambda t: t.dot(t.ones(2), t.ones(3)), "device": lambda t: t.ones(1, device="moon"),
    "unsqueeze": lambda t: t.ones(2).unsqueeze(3), "string_index": lambda t: t.ones(2)["a"],
    "set_shape": lambda t: t.ones(2, 3).__setitem__(0, t.ones(2)), "dtype_text": lambda t: t.zeros(1, dtype="float32"),
    "index_scalar": lambda t: t.tensor(1.0)[0], "norm_int": lambda t: t.tensor([1, 2]).norm(),
    "round_mode": lambda t: t.div(t.ones(1), 1, rounding_mode="up"),
    "lerp_int": lambda t: t.lerp(t.tensor([1]), t.tensor([2]), 0.5),
    "shapes_of_indices": lambda t: t.ones(3, 3)[t.tensor([0, 1]), t.tensor([0, 1, 2])],
    "repeated_dim": lambda t: t.ones(2, 2).sum((0, 0)), "cumsum_dim": lambda t: t.ones(2).cumsum(1),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CALLS)
def test_exception_types(name):
    same_error(BAD_CALLS[name])
