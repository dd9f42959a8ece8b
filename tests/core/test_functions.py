"""Functions around the ops: arguments that change what is computed, dtypes and memory, in-place forms, operators,
composed functions.
"""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import numod
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda

INF, NAN = math.inf, math.nan


def tensor(*values):
    return numod.tensor(values)


# ---- arguments of arithmetic


def test_alpha():
    assert numod.add(tensor(1, 2), tensor(3, 4), alpha=2).tolist() == [7, 10]
    assert numod.sub(tensor(1.0, 2.0), 3, alpha=2).tolist() == [-5.0, -4.0]
    assert tensor(1.0).add_(tensor(2.0), alpha=-1).tolist() == [-1.0]
    assert tensor(1, 2).sub(tensor(1, 1), alpha=3).dtype is numod.int64


@pytest.mark.on_cuda(simulator=False)
def test_alpha_gradient():
    x, y = numod.tensor([1.0], requires_grad=True), numod.tensor([2.0], requires_grad=True)
    numod.sub(x, y, alpha=3).backward()
    assert (x.grad.item(), y.grad.item()) == (1.0, -3.0)


@pytest.mark.parametrize("mode, wanted", [(None, [3.5, -3.5, -3.5]), ("floor", [3, -4, -4]), ("trunc", [3, -3, -3])])
@pytest.mark.parametrize("dtype", [numod.int64, numod.float32])
def test_rounding_mode(mode, wanted, dtype):
    result = numod.div(numod.tensor([7, -7, 7], dtype=dtype), numod.tensor([2, 2, -2], dtype=dtype), rounding_mode=mode)
    assert result.tolist() == wanted
    assert result.dtype is (dtype if mode else numod.float32)


@pytest.mark.parametrize("x, y", [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3)])
@pytest.mark.parametrize("kind", [int, float])
def test_floor_division_and_modulo_are_pythons(x, y, kind):
    a, b = numod.tensor([kind(x)]), numod.tensor([kind(y)])
    assert (a // b).item() == x // y
    assert (a % b).item() == x % y
    assert numod.fmod(a, b).item() == math.fmod(x, y)
    assert (kind(x) // b).item() == x // y
    assert (a % kind(y)).item() == x % y


def test_integers_are_divided_exactly():
    """Quotients are guessed in floats, which do not hold these numbers."""
    ends = [2**63 - 1, -(2**63), 2**62 + 1, 2**55 - 1, 2**53 + 1, 3, -7]
    pairs = [
        (x, y)
        for x in [
            *ends,
            *(a * b + c for a in (3, -7, 2**20 + 1) for b in (3, 2**40 + 1, -(2**41) + 1) for c in (-1, 0, 1)),
        ]
        for y in (*ends, 1, 2**40 + 1, 1 - 2**41)
    ]
    x, y = numod.tensor(pairs).unbind(1)
    assert (x // y).tolist() == [a // b for a, b in pairs]
    assert (x % y).tolist() == [a % b for a, b in pairs]
    assert numod.fmod(x, y).tolist() == [abs(a) % abs(b) * (1 if a > 0 else -1) for a, b in pairs]


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("divisor", [0, numod.tensor([1, 0])])
def test_integer_division_by_zero(name, divisor):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        getattr(numod, name)(tensor(1, 2), divisor)


@pytest.mark.cpu_only
def test_float_division_by_zero():
    np.testing.assert_array_equal((tensor(1.0, -1.0, 0.0) / 0).numpy(), [INF, -INF, NAN])
    np.testing.assert_array_equal((tensor(1.0, -1.0, 0.0) // 0).numpy(), [INF, -INF, NAN])
    np.testing.assert_array_equal((tensor(1.0, -1.0) % 0).numpy(), [NAN, NAN])
    np.testing.assert_array_equal((tensor(1, 0) / 0).numpy(), [INF, NAN])


def test_pow():
    assert (tensor(2, 3) ** 2).tolist() == [4, 9]
    assert (tensor(2, 3) ** 3).tolist() == [8, 27]
    assert (2 ** tensor(0, 3)).tolist() == [1, 8]
    assert (tensor(2, 3) ** 0.5).dtype is numod.float32
    assert (tensor(2.0) ** -1).tolist() == [0.5]
    assert numod.pow(2.0, tensor(1.0, 2.0)).tolist() == [2.0, 4.0]
    assert (tensor(-8.0) ** 3).tolist() == [-512.0]
    assert (numod.tensor([3], dtype=numod.uint8) ** 2).dtype is numod.uint8
    with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
        tensor(2) ** -1


def test_pow_of_numbers():
    np.testing.assert_array_equal(
        (tensor(0.0, 1.0, NAN, -1.0, INF) ** tensor(0.0, NAN, 0.0, 0.5, -1.0)).numpy(), [1.0, 1.0, 1.0, NAN, 0.0]
    )


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_integer_powers_below_zero():
    x = numod.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    (x**3).sum().backward()
    assert x.grad.tolist() == [12.0, 0.0, 27.0]
    y = numod.tensor([-2.0, 0.0], requires_grad=True)
    (y**1).sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_clamp():
    x = tensor(-2.0, 0.5, 3.0, NAN)
    np.testing.assert_array_equal(x.clamp(-1, 1).numpy(), np.float32([-1, 0.5, 1, NAN]))
    np.testing.assert_array_equal(x.clamp(min=0).numpy(), np.float32([0, 0.5, 3, NAN]))
    np.testing.assert_array_equal(numod.clip(x, max=0).numpy(), np.float32([-2, 0, 0, NAN]))
    assert tensor(1, 5).clamp(numod.tensor([2, 2]), numod.tensor([3, 3])).tolist() == [2, 3]
    assert tensor(1, 5).clamp(2, 1).tolist() == [1, 1]
    assert tensor(1, 5).clamp(max=2.5).dtype is numod.float32
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max'"):
        x.clamp()


def test_clamp_in_place():
    x = tensor(-2.0, 0.5, 3.0)
    assert x.clamp_(-1, 1) is x
    assert x.tolist() == [-1.0, 0.5, 1.0]


@pytest.mark.parametrize("decimals, wanted", [(0, [2.0, 4.0, -2.0]), (1, [2.5, 3.5, -1.5]), (-1, [0.0, 0.0, -0.0])])
def test_round(decimals, wanted):
    assert numod.round(tensor(2.5, 3.5, -1.5), decimals=decimals).tolist() == wanted


def test_nan_to_num():
    info = numod.finfo(numod.float32)
    assert numod.nan_to_num(tensor(NAN, INF, -INF, 1.0)).tolist() == [0.0, info.max, info.min, 1.0]
    assert numod.nan_to_num(tensor(NAN, INF), nan=1.0, posinf=2.0).tolist() == [1.0, 2.0]
    assert numod.nan_to_num(tensor(1, 2)).tolist() == [1, 2]


def test_logit_eps():
    np.testing.assert_allclose(numod.logit(tensor(0.0, 1.0), eps=0.25).numpy(), [-math.log(3), math.log(3)], rtol=1e-6)
    assert numod.logit(tensor(0.0, 1.0)).tolist() == [-INF, INF]


def test_comparisons_of_whole_tensors():
    x = tensor(1.0, 2.0, NAN)
    assert not numod.equal(x, x)
    assert numod.equal(tensor(1, 2), tensor(1, 2))
    assert not numod.equal(numod.ones(2), numod.ones(2, 1))
    assert numod.allclose(x, x + 1e-7, equal_nan=True)
    assert not numod.allclose(x, x)
    assert numod.isclose(tensor(INF, -INF, 1.0), tensor(INF, INF, 1.1)).tolist() == [True, False, False]


def test_logical_operators():
    a, b = tensor(True, False), tensor(True, True)
    assert ((a & b).tolist(), (a | b).tolist(), (a ^ b).tolist(), (~a).tolist()) == (
        [True, False],
        [True, True],
        [False, True],
        [False, True],
    )
    assert (~tensor(0, 5)).tolist() == [-1, -6]
    assert (tensor(6) & 3).tolist() == [2]
    assert (1 << tensor(3)).tolist() == [8]
    assert (tensor(-8) >> 1).tolist() == [-4]
    assert numod.logical_and(tensor(0, 2), tensor(1.0, 0.5)).tolist() == [False, True]
    assert numod.logical_not(tensor(0.0, NAN)).tolist() == [True, False]


def test_subtraction_of_bool():
    with pytest.raises(RuntimeError, match="with two bool tensors is not supported"):
        tensor(True) - tensor(False)
    with pytest.raises(RuntimeError, match="(?i)bool"):
        -tensor(True)


@pytest.mark.parametrize(
    "operator", ["__add__", "__mul__", "__lt__", "__eq__", "__sub__", "__pow__", "__matmul__", "__mod__"]
)
def test_operators_leave_other_types_to_python(operator):
    assert getattr(tensor(1.0), operator)("text") is NotImplemented


def test_comparison_with_none():
    assert (tensor(1.0) == None) is False  # noqa: E711
    assert (tensor(1.0) != None) is True  # noqa: E711


def test_tensor_and_text():
    with pytest.raises(TypeError, match="unsupported operand|text|str"):
        tensor(1.0) + "text"


def test_contains():
    assert 2 in tensor(1, 2)
    assert 3 not in tensor(1, 2)


# ---- in-place operators


@pytest.mark.parametrize("name, wanted", [
    ("add_", 9.0), ("sub_", 5.0), ("mul_", 14.0), ("div_", 3.5), ("floor_divide_", 3.0), ("remainder_", 1.0), ("fmod_", 1.0), ("pow_", 49.0), ("copysign_", 7.0),
    ("atan2_", math.atan2(7, 2)), ("maximum_", 7.0), ("hypot_", math.hypot(7, 2)),
])  # fmt: skip
def test_in_place(name, wanted):
    x = tensor(7.0)
    view = x[:]
    assert getattr(x, name)(tensor(2.0)) is x
    assert view.item() == pytest.approx(wanted)


def test_in_place_operators_keep_identity():
    x = y = tensor(7.0)
    x += 1
    x -= 2
    x *= 4
    x /= 3
    x **= 2
    x %= 50
    x //= 2
    assert x is y
    assert x.tolist() == [7.0]


def test_fill_and_zero():
    x = numod.ones(2, 3)
    x[:, 1].fill_(4)
    x[0].zero_()
    x[1].fill_(numod.tensor(2.5))
    assert x.tolist() == [[0.0, 0.0, 0.0], [2.5, 2.5, 2.5]]


def test_addcmul_and_addcdiv():
    assert numod.addcmul(tensor(1.0), tensor(2.0), tensor(3.0), value=0.5).tolist() == [4.0]
    assert tensor(1.0).addcdiv_(tensor(3.0), tensor(2.0), value=2).tolist() == [4.0]


def test_copy_converts_and_broadcasts():
    x = numod.zeros(2, 2, dtype=numod.int32)
    assert x.copy_(tensor(1.9, -1.9)) is x
    assert x.tolist() == [[1, -1], [1, -1]]
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        x.copy_([1, 2])


# ---- dtypes and memory

VALUES = [0.0, 1.0, 2.7, 100.0]


@pytest.mark.parametrize("source", [numod.float32, numod.int64, numod.bool, numod.uint8])
@pytest.mark.parametrize("target", [numod.float64, numod.float32, numod.int64, numod.int8, numod.uint8, numod.bool])
def test_conversion(source, target):
    array = np.array(VALUES).astype(source.numpy)
    result = numod.tensor(array).to(target)
    assert result.dtype is target
    np.testing.assert_array_equal(result.numpy(), array.astype(target.numpy))


def test_conversion_to_bool_is_truth():
    assert tensor(0.5, NAN, 0.0, -0.0).bool().tolist() == [True, True, False, False]
    assert tensor(256, 0).bool().tolist() == [True, False]
    assert tensor(256, 0).to(numod.uint8).tolist() == [0, 0]


def test_negative_numbers_truncate():
    assert tensor(-1.7, 1.7).long().tolist() == [-1, 1]
    assert tensor(-1, 128).to(numod.int8).tolist() == [-1, -128]


@pytest.mark.parametrize("name, dtype", [
    ("float", numod.float32), ("double", numod.float64), ("long", numod.int64), ("int", numod.int32), ("short", numod.int16), ("char", numod.int8), ("byte", numod.uint8),
    ("bool", numod.bool),
])  # fmt: skip
def test_conversion_methods(name, dtype):
    assert getattr(tensor(1, 0), name)().dtype is dtype


@pytest.mark.cpu_only
def test_to_returns_itself_where_nothing_changes():
    x = numod.ones(2)
    assert x.to(numod.float32) is x.to("cpu") is x.to(x) is x.float() is x.cpu() is x
    assert x.to(numod.float32, copy=True) is not x
    assert x.to("cpu", numod.float64).dtype is numod.float64
    assert x.to(numod.ones(1, dtype=numod.int8)).dtype is numod.int8
    assert x.type_as(tensor(1)).dtype is numod.int64


@pytest.mark.on_cuda(simulator=False)
def test_conversion_gradient():
    x = numod.tensor([1.0, 2.0], requires_grad=True)
    (x.double() * 2).sum().backward()
    assert x.grad.dtype is numod.float32
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.on_cuda(simulator=False)
def test_clone_has_its_own_memory_and_a_gradient():
    x = numod.tensor([1.0], requires_grad=True)
    y = x.clone()
    assert y.data_ptr() != x.data_ptr()
    y.backward()
    assert x.grad.tolist() == [1.0]


def test_pickle_and_deepcopy():
    x = numod.arange(6.0).reshape(2, 3).t()
    for restored in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert restored.tolist() == x.tolist()
        assert restored.dtype is x.dtype
        assert restored.data_ptr() != x.data_ptr()
    leaf = numod.ones(2, requires_grad=True)
    assert pickle.loads(pickle.dumps(leaf)).requires_grad
    computed = pickle.loads(pickle.dumps(leaf * 2))
    assert computed.is_leaf and computed.requires_grad and computed.tolist() == [2.0, 2.0]


# ---- composed functions


def test_nonlinear_functions_of_nn():
    x = tensor(-2.0, -0.3, 0.0, 0.4, 8.0)
    array = x.numpy().astype(float)
    np.testing.assert_allclose(F.relu6(x).numpy(), np.clip(array, 0, 6))
    np.testing.assert_allclose(F.softmin(x, 0).numpy(), np.exp(-array) / np.exp(-array).sum(), rtol=1e-6)
    np.testing.assert_allclose(F.normalize(x, dim=0).numpy(), array / np.linalg.norm(array), rtol=1e-6)
    np.testing.assert_allclose(F.glu(x[:4], 0).numpy(), array[:2] / (1 + np.exp(-array[2:4])), rtol=1e-6)
    np.testing.assert_allclose(F.gelu(x, approximate="tanh").numpy(), F.gelu(x).numpy(), atol=1e-3)


def test_one_hot():
    assert F.one_hot(tensor(0, 2)).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(tensor(1), 4).tolist() == [[0, 1, 0, 0]]
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        F.one_hot(tensor(3), 3)


@pytest.mark.on_cuda(simulator=False)
def test_dropout():
    numod.manual_seed(0)
    x = numod.ones(10_000)
    dropped = F.dropout(x, 0.25)
    assert set(dropped.tolist()) == {0.0, numod.tensor(1 / 0.75).item()}
    assert abs((dropped == 0).float().mean().item() - 0.25) < 0.02
    assert F.dropout(x, 0.25, training=False) is x
    assert F.dropout(x, 1.0).sum().item() == 0.0
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(x, 1.5)


@pytest.mark.on_cuda(gpu=False)
@pytest.mark.parametrize("call, exception, message", [
    (lambda: numod.div(tensor(1.0), 2, rounding_mode="up"), RuntimeError, "rounding_mode"), (lambda: tensor(1.0).exp(3), TypeError, "argument|inputs"),
    (lambda: numod.exp(tensor(1.0), base=2), TypeError, "unexpected keyword argument 'base'"), (lambda: tensor(1.0).to("moon"), RuntimeError, "(?i)device"),
    (lambda: tensor(1.0).to(dtype="float"), TypeError, "dtype"), (lambda: numod.exp(1.0), TypeError, "Tensor"), (lambda: numod.sum([1.0]), TypeError, "Tensor"),
    (lambda: numod.matmul([1.0], tensor(1.0)), TypeError, "Tensor"), (lambda: numod.reshape([1.0], (1,)), TypeError, "Tensor"),
    (lambda: numod.lerp(tensor(1.0), tensor(2.0)), TypeError, "lerp"), (lambda: tensor(1.0).add(), TypeError, "other|argument"),
    (lambda: numod.where(True, 1.0, 2.0), TypeError, "Tensor"), (lambda: numod.softmax([1.0], 0), TypeError, "Tensor"),
])  # fmt: skip
def test_errors(call, exception, message):
    with pytest.raises(exception, match=message):
        call()


def test_the_first_of_two_terms_may_be_a_number():
    x = numod.tensor([1.0, 2.0])
    assert numod.add(1, x).tolist() == [2, 3] and numod.sub(1, x, alpha=2).tolist() == [-1, -3]
    assert numod.div(1, x).tolist() == [1, 0.5] and numod.floor_divide(5, x).tolist() == [5, 2]


def test_integers_to_negative_powers_are_zero_but_for_one_and_minus_one():
    x, y = numod.tensor([0, 2, 1, -1, -1, (1 << 63) - 1, 3]), numod.tensor([-1, -1 << 63, -5, -3, -2, -1, 3])
    assert numod.pow(x, y).tolist() == [0, 0, 1, -1, 1, 0, 27]


def test_chunks_of_nothing_are_as_many_as_asked_for():
    assert [tuple(part.shape) for part in numod.zeros(2, 0).chunk(3, 1)] == [(2, 0)] * 3


def test_a_histogram_of_one_value_or_none_has_a_range_of_one():
    assert numod.histogram(numod.zeros(3), 2).bin_edges.tolist() == [-0.5, 0, 0.5]
    assert numod.histogram(numod.zeros(0), 2).bin_edges.tolist() == [0, 0.5, 1]


def test_small_meanings() -> None:
    assert (numod.tensor([True]) ** 2).dtype is numod.int64 and (numod.tensor([3]) ** 2).tolist() == [9]
    assert numod.ones(2).type("torch.DoubleTensor").dtype is numod.float64
    assert numod.arange(4).split(split_size=[1, 3])[1].tolist() == [1, 2, 3]
    assert str(numod.iinfo(numod.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    numod._assert(True, "no")
    with pytest.raises(AssertionError, match="this"):
        numod._assert(False, "this")


def test_ldexp_holds_what_its_power_of_two_does_not() -> None:
    for kind, x, exponent in (
        (numod.float32, 0.5, 128),
        (numod.float32, 2.0**-149, 276),
        (numod.float32, 0.0, 1000),
        (numod.float64, 5e-324, 2000),
        (numod.float64, 1.0, -1074),
    ):
        values = numod.tensor([x], dtype=kind)
        assert (
            numod.ldexp(values, numod.tensor([exponent])).item()
            == math.ldexp(x, exponent)
            == values.ldexp_(numod.tensor([exponent])).item()
        )
    assert numod.ldexp(numod.ones(1, dtype=numod.float16), numod.tensor([3])).dtype is numod.float16
    with pytest.raises(RuntimeError, match="can't be cast"):
        numod.tensor([3]).ldexp_(numod.tensor([2]))


def test_complex_values_do_not_fill_real_tensors() -> None:
    with pytest.raises(RuntimeError, match="cannot be converted to type int64"):
        numod.ones(2, dtype=numod.int64).masked_fill(numod.tensor(True), numod.tensor(1j))
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert numod.zeros(2, dtype=numod.int64).fill_(numod.tensor(1 + 2j)).tolist() == [1, 1]


def test_powers_of_integers_wrap_around() -> None:
    for base, exponent in ((3, 65537), (3, 70000), (-7, 1 << 20), (2, 1 << 40), (5, 64), (0, 0), (-1, (1 << 62) + 1)):
        expected = pow(base, exponent, 1 << 64)
        assert numod.pow(numod.tensor(base), numod.tensor(exponent)).item() == expected - (1 << 64) * (expected >> 63)
    large = numod.tensor([(1 << 31) - 1], dtype=numod.int32)
    assert (numod.tensor([3], dtype=numod.int32) ** large).item() == -1431655765


def test_powers_of_complex_zeros() -> None:
    real = numod.view_as_real(numod.zeros(4) ** numod.tensor([1 + 1j, 1j, -1 + 1j, 0j]))
    np.testing.assert_array_equal(real.numpy(), [[0, 0], [np.nan, np.nan], [np.inf, np.nan], [1, 0]])


def test_tensors_without_dimensions_or_elements() -> None:
    for index in ([0], [0, 0], [-1]):
        assert numod.zeros(()).index_fill_(0, numod.tensor(index), 0.5) == 0.5
    assert numod.zeros(()).index_fill_(0, numod.tensor([], dtype=numod.int64), 0.5) == 0
    with pytest.raises(IndexError):
        numod.zeros(()).index_fill_(0, numod.tensor([1]), 0.5)
    for x in (numod.ones(3, requires_grad=True), numod.ones((), requires_grad=True)):
        x.gather(0, numod.zeros(0, dtype=numod.int64)).sum().backward()
        assert x.grad.shape == x.shape and not x.grad.any()
    for function in (numod.split, numod.chunk):
        with pytest.raises(RuntimeError, match=f"{function.__name__} expects at least a 1-dimensional tensor"):
            function(numod.tensor(1.0), 1)
    assert numod.nn.functional.pad(numod.zeros(1, dtype=numod.bool), (1, 0), value=0.5).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [numod.complex64, numod.complex128], ids=str)
@pytest.mark.parametrize("name, x, expected", [  # C99, Annex G, with PyTorch's signs where that leaves them open
    ("exp", (INF, INF), (INF, NAN)), ("exp", (INF, NAN), (INF, NAN)), ("exp", (-INF, NAN), (0.0, 0.0)),
    ("exp", (1.0, INF), (NAN, NAN)), ("exp2", (INF, 0.0), (INF, 0.0)), ("exp2", (INF, 1.0), (INF, INF)),
    ("sinh", (-0.0, INF), (-0.0, NAN)), ("sinh", (0.0, NAN), (0.0, NAN)), ("sinh", (INF, INF), (INF, NAN)),
    ("sinh", (NAN, 0.0), (NAN, 0.0)), ("cosh", (0.0, INF), (NAN, 0.0)), ("cosh", (INF, -0.0), (INF, -0.0)),
    ("cosh", (-INF, NAN), (INF, NAN)), ("cosh", (1.0, NAN), (NAN, NAN)), ("tanh", (-0.0, INF), (-0.0, NAN)),
    ("tanh", (NAN, -0.0), (NAN, -0.0)), ("tanh", (50.0, INF), (NAN, NAN)), ("tanh", (INF, NAN), (1.0, 0.0)),
    ("tanh", (INF, 2.5), (1.0, -0.0)), ("tanh", (-INF, -2.5), (-1.0, 0.0)), ("tanh", (INF, -INF), (1.0, -0.0)),
    ("tan", (2.5, INF), (-0.0, 1.0)), ("tanh", (1000.0, -0.0), (1.0, -0.0)),
    ("sin", (INF, 0.0), (NAN, 0.0)), ("cos", (INF, -0.0), (NAN, 0.0)), ("tan", (0.0, NAN), (0.0, NAN)),
    ("asin", (-0.0, NAN), (-0.0, NAN)), ("acos", (0.0, NAN), (math.pi / 2, NAN)), ("acosh", (0.0, NAN), (NAN, math.pi / 2)),
    ("asinh", (NAN, -0.0), (NAN, -0.0)), ("atanh", (-0.0, NAN), (-0.0, NAN)), ("atanh", (NAN, 1e30), (NAN, NAN)),
    ("atanh", (NAN, INF), (0.0, math.pi / 2)), ("atan", (NAN, -0.0), (NAN, -0.0)),
])  # fmt: skip
def test_complex_functions_at_infinities_and_nan(name: str, x: tuple, expected: tuple, dtype: numod.dtype) -> None:
    result = getattr(numod, name)(numod.tensor([complex(*x)] * 3, dtype=dtype))[1].item()
    for part, wanted in zip((result.real, result.imag), expected):
        assert part == pytest.approx(wanted, nan_ok=True), result
        assert math.isnan(wanted) or math.copysign(1, part) == math.copysign(1, wanted) or name == "atanh", result


def test_the_imaginary_part_of_a_hyperbolic_tangent_near_one() -> None:
    for real, imaginary in ((41.0, 1.0), (-300.0, 2.5)):
        result = numod.tanh(numod.tensor([complex(real, imaginary)], dtype=numod.complex128)).item()
        assert result.real == math.copysign(1, real)
        assert result.imag == pytest.approx(2 * math.sin(2 * imaginary) * math.exp(-2 * abs(real)), rel=1e-13, abs=0)


def test_complex_exponentials_that_overflow_only_on_the_way() -> None:
    result = numod.exp(numod.tensor([710.0 + 1.5j], dtype=numod.complex128)).item()
    assert result.real == pytest.approx(math.exp(709.0) * (math.e * math.cos(1.5)), rel=1e-13) and result.imag == INF
