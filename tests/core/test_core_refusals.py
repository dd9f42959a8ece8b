"""What functions of tensors refuse, in PyTorch's words and with its types."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.nn import functional as F
from numod.ops.index.indexing import index_select

MASK = torch.tensor([True, False])
X = torch.zeros(20, 10, 5)
HUGE = 1 << 62
LEARNED = torch.ones((), requires_grad=True)
CASES = [
    (RuntimeError, "mismatch in length of strides and shape: 1 and 2", lambda: X.as_strided((2, 2), (1,))),
    (RuntimeError, "negative dimension -2", lambda: X.as_strided((-2,), (1,))),
    (TypeError, "must be ints", lambda: X.as_strided((2,), (1,), float("nan"))),
    (RuntimeError, "bool without overflow: it is complex", lambda: MASK.clone().index_fill_(0, torch.tensor([0]), 1j)),
    (
        RuntimeError,
        "float32 without overflow: beta is complex",
        lambda: torch.addmm(X[0, :5], X[0, :5], X[0, :5], beta=1j),
    ),
    (
        RuntimeError,
        "float32 without overflow: alpha is complex",
        lambda: torch.addr(X[0, :5], X[0, 0], X[0, 0], alpha=1j),
    ),
    (TypeError, "must be ints", lambda: X.as_strided((2,), (1.5,))),
    (RuntimeError, "numel: integer multiplication overflow", lambda: torch.zeros(1).expand(1 << 40, 1 << 40)),
    (TypeError, r"equal\(\): argument 'other' \(position 2\) must be Tensor, not int", lambda: torch.equal(X, 1)),
    (RuntimeError, "expected dense tensors", lambda: index_select.apply((X, torch.arange(4)[::2]), (0,))),
    (TypeError, r"mul\(\) takes inputs \(x, y\), got 1", lambda: torch.mul(X, out=X)),
    (TypeError, r"exp\(\): argument 'out' must be Tensor, not tuple", lambda: torch.exp(X, out=(X,))),
    (TypeError, r"sort\(\): argument 'out' must be a tuple of 2 Tensors, not Tensor", lambda: torch.sort(X, out=X)),
    (TypeError, r"ones_like\(\): argument 'input' \(position 1\) must be Tensor, not int", lambda: torch.ones_like(3)),
    (TypeError, r"view_as\(\): argument 'other' \(position 2\) must be Tensor, not int", lambda: X.view_as(3)),
    (TypeError, "argument 'generator' must be Generator, not str", lambda: X.uniform_(generator="0")),
    (
        ValueError,
        r"expected sequence of length 2 at dim 1 \(got 1\); pad the rows",
        lambda: torch.tensor([[1, 2], [3]]),
    ),
    (
        ValueError,
        r"expected sequence of length 1 at dim 2 \(got 2\)",
        lambda: torch.tensor([[[1], [2]], [[3], [4, 5]]]),
    ),
    (TypeError, "not a sequence: expected one of length 2 at dim 1, got int", lambda: torch.tensor([[1, 2], 3])),
    (
        ValueError,
        r"expected sequence of length 1 at dim 1 \(got 0\)",
        lambda: torch.tensor([[[]], []]),
    ),  # without a number
    (TypeError, r"rand\(\): argument 'dtype' must be dtype, not str", lambda: torch.rand(2, dtype="float")),
    (TypeError, r"addmm\(\): argument 'mat1' \(position 2\) must be Tensor, not int", lambda: X.addmm_(1, X)),
    (TypeError, r"topk\(\): argument 'k' \(position 2\) must be int, not float", lambda: X.topk(1.5)),
    (TypeError, "argument 'requires_grad' must be bool, not str", lambda: torch.tensor([1.0], requires_grad="a")),
    (TypeError, "argument 'requires_grad' must be bool, not NoneType", lambda: torch.tensor(1.0, requires_grad=None)),
    (RuntimeError, "Float but got scalar type Double", lambda: torch.polar(torch.ones(2), torch.ones(2).double())),
    (RuntimeError, "but got Float and Bool", lambda: torch.polar(torch.ones(2), MASK)),
    (RuntimeError, "Cauchy distribution is a continuous", lambda: torch.zeros(2, dtype=torch.int64).cauchy_()),
    (NotImplementedError, r"geometric_\(\) is not implemented for Bool", lambda: MASK.clone().geometric_(0.5)),
    *[
        (NotImplementedError, f"{name}.* ComplexFloat", lambda name=name: getattr(X[0, 0].to(torch.complex64), name)())
        for name in ("bernoulli_", "log_normal_", "random_")
    ],
    (
        RuntimeError,
        "Expected dtype int32/int64 for index, got numod.int8",
        lambda: torch.scatter_reduce(X[0, 0], 0, torch.zeros(3, dtype=torch.int8), X[0, 0], "sum"),
    ),
    (
        RuntimeError,
        "Input batch size 1 doesn't match hidden0 batch size 4",
        lambda: torch.rnn_relu_cell(torch.ones(1, 2), torch.zeros(4, 3), torch.ones(3, 2), torch.ones(3, 3)),
    ),
    (RuntimeError, "rounding_mode to be one of", lambda: X.div_(2, rounding_mode="up")),
    (IndexError, "Dimension out of range", lambda: torch.tensordot(X, X, [3, 3])),
    (TypeError, r"arange\(\) takes .* by name \['foo'\]", lambda: torch.arange(3, foo=1)),
    (TypeError, r"randint\(\) takes .* by name \['foo'\]", lambda: torch.randint(3, (2,), foo=1)),
    (TypeError, r"argument 'out' must be Tensor, not int", lambda: torch.arange(3, out=-1)),
    (
        RuntimeError,
        "out is on the meta device",
        lambda: torch.sort(X[0, 0], out=(torch.empty(5, device="meta"), torch.empty(5, dtype=torch.int64))),
    ),
    (
        RuntimeError,
        "Expected out tensor to have dtype Long, but got Float",
        lambda: torch.max(X, 0, out=(torch.empty(10, 5), torch.empty(10, 5))),
    ),
    (
        RuntimeError,
        "Expected out tensor to have dtype Float, but got Double",
        lambda: torch.aminmax(X, out=(torch.ones((), dtype=torch.float64), torch.ones(()))),
    ),
    (TypeError, "promote_types", lambda: torch.promote_types(torch.float32, 1)),
    (TypeError, "must be a numod.dtype", lambda: torch.iinfo(3)),
    (TypeError, "must be a numod.dtype", lambda: torch.finfo("a")),
    (
        TypeError,
        r"bernoulli\(\): argument 'input' \(position 1\) must be Tensor, not NoneType",
        lambda: torch.bernoulli(None),
    ),
    (
        TypeError,
        r"multinomial\(\): argument 'input' \(position 1\) must be Tensor, not float",
        lambda: torch.multinomial(1.5, 2),
    ),
    (TypeError, "must be Tensor or Storage, not int", lambda: torch.zeros(2).set_(1)),
    (
        TypeError,
        r"scatter_add\(\): argument 'input' \(position 1\) must be Tensor, not int",
        lambda: torch.scatter_add(-5, 0, torch.tensor([0]), X),
    ),
    (RuntimeError, "weight", lambda: F.conv2d(torch.ones(1, 1, 4, 4), torch.tensor(1.0))),
    (TypeError, "expected Tensor as element 1", lambda: torch.nn.utils.rnn.pad_sequence([X, object()])),
    (TypeError, "argument 'input'", lambda: torch.nn.utils.rnn.pack_padded_sequence(True, [1])),
    (TypeError, "argument 'repeats' .* must be Tensor or int", lambda: torch.repeat_interleave(X, "2")),
    (RuntimeError, "expected the outputs to be Tensors", lambda: torch.autograd.backward([None])),
    (
        RuntimeError,
        "all inputs have to be Tensors or GradientEdges, but got int",
        lambda: torch.autograd.grad(X.clone().requires_grad_().sum(), [1]),
    ),
    (TypeError, r"add\(\): argument 'alpha' must be Number, not Tensor", lambda: torch.add(X, X, alpha=X)),
    (TypeError, "must be ints", lambda: X.as_strided((2,), (1,), torch.tensor(1.5))),
    (TypeError, "argument 'size' must be tuple of ints, not set", lambda: X.as_strided({1}, (1,))),
    (TypeError, r"add\(\): argument 'alpha' must be float, not Tensor", lambda: torch.add(X, X, alpha=LEARNED)),
    (TypeError, "argument 'atol' must be float, not Tensor", lambda: torch.allclose(X, X, atol=LEARNED)),
    (TypeError, "argument 'max' must be float, not Tensor", lambda: torch.histc(X, max=LEARNED)),
    (TypeError, "argument 'fill_value' must be float, not Tensor", lambda: torch.full((2,), LEARNED)),
    (TypeError, "argument 'end' must be float, not Tensor", lambda: torch.arange(LEARNED)),
    (TypeError, "argument 'p' must be float, not Tensor", lambda: torch.norm(X, LEARNED)),
    (TypeError, "argument 'periodic' .* must be bool, not NoneType", lambda: torch.hann_window(4, None)),
    (TypeError, "argument 'ceil_mode' .* must be bool, not NoneType", lambda: F.avg_pool2d(X, 2, 2, 0, None)),
    (TypeError, "argument 'keepdim' .* must be bool, not numpy.bool", lambda: torch.sum(X, 0, np.True_)),
    (TypeError, "steps must be an int", lambda: torch.linspace(0, 1, True)),
    (TypeError, "'indices_or_sections' must be int or tuple of ints, not bool", lambda: torch.hsplit(X, True)),
    (TypeError, "argument 'dim' .* must be int, not NoneType", lambda: F.cosine_similarity(X, X, None)),
    (TypeError, "must be tuple of Tensors, not Tensor", lambda: X.clone().index_put_(torch.tensor([0]), X)),
    (TypeError, "must be int or tuple of ints, not set", lambda: F.max_pool2d(X, {2})),
    (TypeError, "argument 'source' must be int or tuple of ints, not set", lambda: X.movedim({0}, {1})),
    (TypeError, "argument 'shifts' must be int or tuple of ints, not str", lambda: X.roll("a")),
    (TypeError, "argument 'start' .* must be Tensor or int, not float", lambda: X.narrow(0, 2.5, 1)),
    (TypeError, "argument 'step' .* must be int, not float", lambda: X.unfold(0, 2, 1.5)),
    (TypeError, "argument 'stable' must be bool, not str", lambda: torch.sort(X, stable="a")),
    (TypeError, "argument 'wrap' .* must be bool, not NoneType", lambda: torch.eye(2).fill_diagonal_(1.0, None)),
    (TypeError, "argument 'num_samples' .* must be int, not bool", lambda: torch.multinomial(X[0] + 1, True)),
    (TypeError, "argument 'other' .* must be Tensor, not NoneType", lambda: X.type_as(None)),
    (
        TypeError,
        r"maximum\(\): argument 'other' \(position 2\) must be Tensor, not float",
        lambda: torch.maximum(X, 1.0),
    ),
    (TypeError, r"lt\(\): argument 'input' \(position 1\) must be Tensor, not int", lambda: torch.lt(2, X)),
    (TypeError, "argument 'tensor1' .* must be Tensor, not int", lambda: torch.addcmul(X, 2, X)),
    (TypeError, "argument 'other' .* must be Tensor, not int", lambda: X.clone().atan2_(1)),
    (
        RuntimeError,
        "all elements of target should be between 0 and 1",
        lambda: F.binary_cross_entropy(torch.ones(1), torch.tensor([2.0])),
    ),
    (ValueError, "an iterable of Tensors, got str", lambda: torch.amp.GradScaler("cpu").scale("text")),
    (RuntimeError, "invalid argument for remove", lambda: torch.func.functionalize(torch.sin, remove="all")),
    (OverflowError, "int too big", lambda: X + (1 << 64)),
    (TypeError, r'flip\(\) missing 1 required positional arguments: "dims"', lambda: X.flip()),
    (RuntimeError, "tensor.H is only supported on matrices .* Got 1-D tensor", lambda: X[0, 0].H),
    (RuntimeError, "tensor.H is only supported on matrices .* consider using tensor.mH", lambda: X.H),
    (RuntimeError, "tensor.mH is only supported", lambda: X[0, 0].mH),
    (IndexError, "index 70 is out of bounds for dimension 1 with size 10", lambda: X[0, 70]),
    (IndexError, "index -6 is out of bounds for dimension 2 with size 5", lambda: X[..., 0, -6]),
    (IndexError, "index 70 is out of bounds for dimension 1 with size 10", lambda: X[torch.tensor([0]), 70]),
    (
        IndexError,
        "^index 70 is out of bounds for dimension 1 with size 10",
        lambda: X[torch.tensor([0]), torch.tensor([70])],
    ),
    (IndexError, "index 70 is out of bounds for dimension 1 with size 10", lambda: X.__setitem__((0, 70), 1.0)),
    (
        RuntimeError,
        "zero-dimensional or one-dimensional tensor, but got a tensor with 2 dims",
        lambda: torch.tensor_split(X, torch.tensor([[1]])),
    ),
    (RuntimeError, "prepend or append to be the same dimension as input", lambda: torch.diff(X, prepend=X[0])),
    (
        RuntimeError,
        r"input.size\(0\) = 20, but got tensor.size\(0\) = 10",
        lambda: torch.diff(X, append=torch.zeros(10, 10, 5)),
    ),
    (RuntimeError, "Cannot access accelerator device when none is available", lambda: X.pin_memory()),
    (
        RuntimeError,
        "Cannot access accelerator device when none is available",
        lambda: torch.tensor([1.0], pin_memory=True),
    ),
    (RuntimeError, "Cannot access accelerator device when none is available", lambda: torch.zeros(2, pin_memory=True)),
    (
        TypeError,
        r"hstack\(\): argument 'tensors' \(position 1\) must be tuple of Tensors, not Tensor",
        lambda: torch.hstack(X),
    ),
    (TypeError, "must be tuple of Tensors", lambda: torch.dstack(X)),
    (
        RuntimeError,
        r"dtype Long does not match dtype of out parameter \(Int\)",
        lambda: torch.randperm(4, out=torch.empty(4, dtype=torch.int32), dtype=torch.int64),
    ),
    (
        RuntimeError,
        r"dtype Float does not match dtype of out parameter \(Int\)",
        lambda: torch.ones(4, out=torch.empty(4, dtype=torch.int32), dtype=torch.float32),
    ),
    (
        RuntimeError,
        "not resizable: elements of `out` share memory",
        lambda: torch.add(X[0, 0], 1, out=torch.empty(1).expand(4)),
    ),
    (
        RuntimeError,
        "Expected out tensor to have dtype Float, but got Double",
        lambda: torch.clamp(X, min=0.0, out=torch.empty(20, 10, 5, dtype=torch.float64)),
    ),
    (RuntimeError, "can't alias NumPy scalars", lambda: torch.asarray(np.float64(2.0), copy=False)),
    (TypeError, "stream must be ``int`` or ``none``", lambda: X.__dlpack__(stream="0")),
    (AssertionError, "stream should be None on cpu", lambda: X.__dlpack__(stream=1)),
    (
        NotImplementedError,
        "\"adaptive_avg_pool2d\" not implemented for 'Long'",
        lambda: F.adaptive_avg_pool2d(X.long(), 2),
    ),
    (
        NotImplementedError,
        "\"adaptive_max_pool1d\" not implemented for 'Bool'",
        lambda: F.adaptive_max_pool1d(X.bool(), 2),
    ),
    (NotImplementedError, "\"max_pool1d\" not implemented for 'Long'", lambda: F.max_pool1d(X.long(), 2)),
    (NotImplementedError, "\"avg_pool2d\" not implemented for 'Int'", lambda: F.avg_pool2d(X.int(), 2)),
    (NotImplementedError, "\"max_unpool1d\" not implemented for 'Long'", lambda: F.max_unpool1d(X.long(), X.long(), 2)),
    (
        RuntimeError,
        "non-zero size for non-batch dimensions, .* with dimension 1 being empty",
        lambda: F.adaptive_max_pool2d(torch.ones(2, 0, 4, 4), 2),
    ),
    # what there is no room for is refused at once
    (MemoryError, "allocate", lambda: torch.vander(torch.ones(2), HUGE)),
    (MemoryError, "allocate", lambda: torch.mvlgamma(torch.ones(2), HUGE)),
    ((MemoryError, ValueError, OverflowError), ".", lambda: torch.combinations(torch.ones(100), 50)),
    (torch.OutOfMemoryError, "interpolate|allocate", lambda: F.interpolate(X, 1 << 50)),
    (
        RuntimeError,
        "pivots must be between 1 and",
        lambda: torch.linalg.lu_solve(torch.eye(2), torch.tensor([0, 3], dtype=torch.int32), torch.ones(2, 1)),
    ),
    (RuntimeError, "Storage size calculation overflowed", lambda: F.interpolate(X, HUGE)),
    (RuntimeError, "Storage size calculation overflowed", lambda: F.interpolate(X, HUGE, mode="linear")),
    (RuntimeError, "more elements than an int64 can count", lambda: F.pad(X, (0, HUGE), mode="replicate")),
    (RuntimeError, "are not finite", lambda: F.interpolate(X, scale_factor=float("inf"))),
    (RuntimeError, "greater than zero", lambda: F.unfold(X, 2, dilation=-(1 << 31))),
    (RuntimeError, "kernel size should be greater than zero", lambda: F.conv1d(X, torch.ones(2, 10, 0))),
    (RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported", lambda: -MASK),
    (RuntimeError, "Subtraction, the `-` operator, with two bool tensors is not supported", lambda: MASK - MASK),
    (RuntimeError, "with a bool tensor is not supported. If you are trying to invert a mask", lambda: 1 - MASK),
    (
        RuntimeError,
        "with a bool tensor is not supported. If you are trying to invert a mask",
        lambda: torch.ones_like(X).sub_(X > 0),
    ),
    (
        IndexError,
        r"start out of range \(expected to be in range of \[-10, 10\], but got 11\)",
        lambda: X.narrow(1, 11, 0),
    ),
    (RuntimeError, r"narrow\(\): length must be non-negative, got -1\.", lambda: X.narrow(1, 0, -1)),
    (
        RuntimeError,
        "start must be an 0-dim integral Tensor.",
        lambda: X.narrow(1, torch.zeros(5, dtype=torch.int32), 2),
    ),
    (RuntimeError, r"shape '\[0, -1\]' is invalid for input of size 1", lambda: torch.zeros(1).reshape(0, -1)),
    (RuntimeError, "-1 can be any value and is ambiguous", lambda: torch.zeros(0, 5).view(0, -1)),
    (RuntimeError, "rtol must be greater than or equal to zero", lambda: torch.isclose(X, X, rtol=-0.4)),
    (
        RuntimeError,
        "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!",
        lambda: torch.hsplit(torch.tensor(1.0), 0),
    ),
    (
        TypeError,
        r"received an invalid combination of arguments - got \(int, int, float",
        lambda: torch.linspace(0, 3, 1.0),
    ),
    (
        RuntimeError,
        "Tensors must have same number of dimensions: got 2 and 3",
        lambda: torch.cat([torch.zeros(2, 1), torch.zeros(2, 1, 1)]),
    ),
    (TypeError, "must be tuple of Tensors, not Tensor", lambda: torch.cat(torch.zeros(2, 1))),
    (RuntimeError, "n must be greater or equal to 0, got -1", lambda: torch.eye(-1)),
    (
        RuntimeError,
        r"source \(\[3, -3\] dims\) should contain the same number of dims as destination \(\[1\] dims\)",
        lambda: torch.movedim(X[None], (3, -3), 1),
    ),
    (RuntimeError, r"movedim: repeated dim in `source` \(\[0, -3\]\)", lambda: torch.movedim(X, (0, -3), (1, 2))),
    (IndexError, "Dimension specified as 0 but tensor has no dimensions", lambda: torch.tensor(1.0).unbind()),
    (IndexError, "Dimension specified as 0 but tensor has no dimensions", lambda: torch.roll(torch.tensor(1.0), 0, 0)),
    (
        RuntimeError,
        "Size does not match at dimension 0 expected index",
        lambda: torch.zeros(1, 1).gather(1, torch.ones(2, 2, dtype=torch.int64)),
    ),
    (
        RuntimeError,
        "Expected self.dtype to be equal to src.dtype",
        lambda: X.scatter(0, torch.zeros(1, 1, 1, dtype=torch.int64), X.double()),
    ),
    (
        RuntimeError,
        "source tensor shape must match self tensor shape",
        lambda: torch.zeros(3, 2).index_add(0, torch.tensor([0, 1]), torch.zeros(2)),
    ),
    (RuntimeError, "invalid multinomial distribution", lambda: torch.tensor([1.0, -1.0]).multinomial(1)),
    (
        RuntimeError,
        "Input dtype must be either a floating point or complex dtype. Got: Long",
        lambda: torch.arange(3).mean(),
    ),
    (
        RuntimeError,
        "input must have at least 2 dimensions",
        lambda: torch.ormqr(torch.tensor(1.0), torch.tensor(1.0), torch.tensor(1.0)),
    ),
    (
        RuntimeError,
        r"got pivots \(2,\) of matrices \(3, 3\)",
        lambda: torch.linalg.lu_solve(torch.eye(3), torch.tensor([1, 2], dtype=torch.int32), torch.ones(3, 1)),
    ),
    (
        RuntimeError,
        "lu_solve: Incompatible shapes of A and B",
        lambda: torch.linalg.lu_solve(torch.eye(3), torch.tensor([1, 2, 3], dtype=torch.int32), torch.ones(2, 1)),
    ),
    (
        RuntimeError,
        "must have the same dtype, got input Float, tau Double",
        lambda: torch.linalg.householder_product(torch.eye(2), torch.ones(2, dtype=torch.float64)),
    ),
    (
        RuntimeError,
        "lstsq: Expected A and B to have the same dtype",
        lambda: torch.linalg.lstsq(torch.eye(2), torch.eye(2, dtype=torch.float64)),
    ),
    (NotImplementedError, "take a part first", lambda: torch.zeros(2, dtype=torch.complex64).amax()),
]


@pytest.mark.parametrize(("error", "words", "call"), CASES, ids=[words for _, words, _ in CASES])
def test_refusal(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_a_start_that_is_a_tensor():
    assert torch.arange(5).narrow(0, torch.tensor(2), 2).tolist() == [2, 3]


@pytest.mark.parametrize(("name", "kind"), [("sparse_coo_tensor", "sparse tensors")])
def test_unsupported_areas_are_reported(name, kind):
    assert not hasattr(torch, name)
    with pytest.raises(AttributeError, match=f"module 'numod' has no attribute '{name}'; numod has no .*{kind}"):
        getattr(torch, name)


def test_placeholder_names_raise_when_used() -> None:
    with pytest.raises(NotImplementedError, match="all tensors are dense, .* keep the places"):
        X.to_sparse()
    with pytest.raises(NotImplementedError, match="pad_sequence"):
        torch.nested.nested_tensor([torch.ones(2)])


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


@pytest.mark.parametrize(("number", "dtype"), [(300, torch.uint8), (-256, torch.uint8), (-1.0, torch.uint8), (255.5, torch.uint8), (float("nan"), torch.int32), (1 << 63, torch.int64),
                                               (1e6, torch.float16), (1e300, torch.float32), (1j, torch.float32),
                                               (1e300j, torch.complex64)])  # fmt: skip
def test_numbers_that_a_dtype_does_not_hold(number, dtype) -> None:
    x, mask = torch.zeros(2, dtype=dtype), torch.tensor([True, False])
    fills = [lambda: x.fill_(number), lambda: torch.full((2,), number, dtype=dtype),
        lambda: torch.full_like(x, number), lambda: x.new_full((2,), number), lambda: x.masked_fill(mask, number),
             lambda: x.masked_fill_(mask, number), lambda: x.index_fill_(0, torch.tensor([0]), number),
             lambda: F.pad(x, (1, 1), value=number)]  # fmt: skip
    for fill in fills:
        with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
            fill()
    assert not x.any()


def test_numbers_that_a_dtype_does_hold() -> None:
    assert (
        torch.zeros(1, dtype=torch.uint8).fill_(-1).item() == 255
        and torch.zeros(1, dtype=torch.int8).fill_(-3.7).item() == -3
        and torch.zeros(1, dtype=torch.bool).fill_(300).item() is True
    )
    assert (
        torch.zeros(1, dtype=torch.float16).fill_(float("-inf")).item() == float("-inf")
        and torch.full((1,), torch.finfo(torch.float32).min).item() == torch.finfo(torch.float32).min
    )


@pytest.mark.parametrize("call", [
    lambda: torch.linspace(0, 300, 4, dtype=torch.uint8), lambda: torch.linspace(0.0, 1e10, 4, dtype=torch.int32), lambda: torch.logspace(0, 300, 4, dtype=torch.uint8),
    lambda: torch.tensor([2], dtype=torch.uint8) ** 300, lambda: torch.tensor([2], dtype=torch.int8).pow_(200), lambda: torch.tensor([2], dtype=torch.int32) ** 2**40,
])  # fmt: skip
def test_ends_and_exponents_that_a_dtype_does_not_hold(call) -> None:
    with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
        call()


def test_ends_and_bases_that_are_taken_modulo() -> None:
    assert torch.linspace(-1, 3, 4, dtype=torch.uint8).tolist() == [255, 171, 87, 3] and torch.linspace(
        30, 300, 1, dtype=torch.uint8
    ).tolist() == [30]
    assert (
        torch.linspace(300, 300, 0, dtype=torch.uint8).tolist() == []
        and (300 ** torch.tensor([2], dtype=torch.uint8)).item() == 144
    )


def test_edges_that_have_a_value() -> None:
    true, false, none = torch.tensor([True]), torch.tensor([False]), torch.zeros(0, 2)
    assert (
        torch.add(false, true, alpha=2).tolist() == [True]
        and torch.add(false, true, alpha=0).tolist() == [False]
        and false.add_(true, alpha=3).tolist() == [True]
    )
    assert torch.linalg.cond(torch.zeros(2, 0, 0)).tolist() == [0.0, 0.0] and torch.linalg.vector_norm(
        none, -2, dim=1
    ).shape == (0,)
    assert F.l1_loss(torch.tensor([1, 5]), torch.tensor([3, 2]), reduction="sum").item() == 5
    assert torch.fft.fftn(torch.tensor(3.0)).item() == 3 + 0j and torch.fft.ifftn(torch.ones(2), dim=()).tolist() == [
        1,
        1,
    ]
    a = torch.full((2, 2), float("nan"), requires_grad=True)
    power = torch.linalg.matrix_power(a, 0)
    assert power.tolist() == [[1, 0], [0, 1]] and not torch.autograd.grad(power.sum(), a)[0].any()
    x = torch.ones(3, dtype=torch.complex64).scatter_reduce(
        0, torch.tensor([0, 0]), torch.tensor([2j, 3.0]), "mean", include_self=False
    )
    assert x.tolist() == [1.5 + 1j, 1, 1]


@pytest.mark.parametrize("order", [-1, float("-inf"), float("inf")])
def test_norms_of_nothing_that_have_no_value(order) -> None:
    for dim in (None, 0, (0, 1)):
        with pytest.raises(RuntimeError, match="does not have an identity"):
            torch.linalg.vector_norm(torch.zeros(0, 2), order, dim=dim)


def test_strides_beyond_the_input() -> None:
    x = torch.arange(4.0).reshape(1, 1, 4).requires_grad_()
    for run in (
        F.max_pool1d,
        F.avg_pool1d,
        lambda x, size, **options: F.conv1d(x, torch.ones(1, 1, size), padding=1, **options),
    ):
        near, far = (run(x, 2, stride=stride) for stride in (6, 2**62))
        assert near.tolist() == far.tolist() and far.shape == (1, 1, 1)
        assert torch.autograd.grad(near.sum(), x)[0].tolist() == torch.autograd.grad(far.sum(), x)[0].tolist()


@pytest.mark.parametrize(
    "fill",
    [
        "normal_(0, NAN)",
        "exponential_(NAN)",
        "cauchy_(0, NAN)",
        "geometric_(NAN)",
        "log_normal_(0, NAN)",
        "uniform_(NAN, 1)",
        "bernoulli_(NAN)",
    ],
)
def test_distributions_of_nan(fill) -> None:
    with pytest.raises(RuntimeError, match="expects"):
        eval(f"x.{fill}", {"x": torch.ones(2), "NAN": float("nan")})


def test_dimensions_of_tensors_without_any() -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.tensor(1.0).index_add(-100, torch.tensor([0]), torch.tensor(1.0))


def test_tensors_without_dimensions_scatter_as_vectors() -> None:
    one, index = torch.tensor(1.0), torch.tensor([0])
    assert one.scatter(0, index, torch.tensor(2.0)).item() == 2.0 and torch.ones(1).scatter(
        0, torch.tensor(0), 2.5
    ).tolist() == [2.5]
    assert one.scatter_add(0, index, torch.tensor(2.0)).item() == 3.0
    assert torch.ones(2).scatter(0, torch.tensor([1]), value=torch.tensor(3)).tolist() == [1.0, 3.0]


def test_sizes_that_leave_a_part_open() -> None:
    with pytest.raises(RuntimeError, match="don't multiply up"):
        torch.ones(6).unflatten(0, (0, -1))


def test_tensors_without_dimensions_are_sizes() -> None:
    two, x = torch.tensor(2), torch.arange(6.0)
    assert torch.randperm(two).shape == (2,) and torch.randint(torch.tensor(0), two, (two,)).shape == (2,)
    assert torch.equal(torch.fft.fft(x, n=two), torch.fft.fft(x, n=2)) and torch.equal(x.roll(two), x.roll(2))
    assert [tensor.shape for tensor in (*x.chunk(two), *x.split(two))] == [(3,), (3,), (2,), (2,), (2,)]
    assert torch.equal(F.max_pool1d(x[None], two), F.max_pool1d(x[None], 2))
    with pytest.raises(TypeError, match="must be int"):
        x.split(torch.tensor(1.5))


def test_integers_of_64_bits_without_a_sign() -> None:
    x, n, whole = torch.ones(2), torch.tensor([1]), 1 << 63
    assert (
        (x + whole).tolist() == [2.0**63] * 2 and (x * (2 * whole - 1)).tolist() == [2.0**64] * 2 and (x < whole).all()
    )
    assert (
        torch.where(x > 0, x, whole).tolist() == [1.0, 1.0]
        and x.clamp(max=whole).tolist() == [1.0, 1.0]
        and x.clone().fill_(whole).tolist() == [2.0**63] * 2
    )
    assert (
        (n + whole).tolist() == [1 - whole] and not (n < whole).any() and n.clone().add_(2 * whole - 1).tolist() == [0]
    )
    y = x.requires_grad_() * whole
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [2.0**63] * 2


def test_names_that_mean_little_here() -> None:
    with torch.autograd.set_multithreading_enabled(False):
        assert torch.func.functionalize(lambda x: x.clone().add_(1), remove="mutations_and_views")(
            torch.ones(2)
        ).tolist() == [2.0, 2.0]
    assert "(a): Parameter containing: [numod.FloatTensor of size 2x3]" in repr(
        torch.nn.ParameterDict({"a": torch.nn.Parameter(torch.ones(2, 3))})
    )
    assert torch.histogram(torch.ones(3))[0].shape == (100,)


def test_integers_to_the_power_of_a_float_are_floats() -> None:
    n = torch.tensor([1 << 40])
    assert (
        (n**2.0).dtype is torch.float32
        and (n**2.0).item() == 2.0**80
        and n.pow(2.0).dtype is torch.pow(n, 2.0).dtype is torch.float32
    )
    assert (torch.tensor([3]) ** 2).tolist() == [9] and (torch.tensor([3], dtype=torch.uint8) ** 2).dtype is torch.uint8
    with pytest.raises(RuntimeError, match="can't be cast"):
        n.pow_(2.0)


def test_views_of_inference_tensors_are_such_everywhere() -> None:
    with torch.inference_mode():
        y = torch.ones(2, 2)
    for view in (y[0], y.view(4), y.t(), y.unbind(0)[0], y.detach()):
        assert view.is_inference()
        with pytest.raises(RuntimeError, match="nference"):
            view.add_(1)
    assert not (y + 1).is_inference() and not y.clone().is_inference()


def test_gradients_that_hooks_and_users_may_not_set() -> None:
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        leaf.grad = leaf
    made = leaf * 1
    made.register_hook(lambda gradient: gradient.double())
    with pytest.raises(RuntimeError, match=r"hook has changed the type of value \(was Float got Double\)"):
        made.sum().backward()
    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 0 is of type int"):
        type(
            "Saving", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: ctx.save_for_backward(3))}
        ).apply(leaf)


P = nn.Parameter(torch.ones(1))
READ_ONLY = np.broadcast_to(np.ones(1), (3,))
WARNED = (
    lambda: torch.from_numpy(READ_ONLY), lambda: torch.frombuffer(b"abcd", dtype=torch.uint8), lambda: torch.tensor(torch.ones(2)),
    lambda: torch.ones(1).std(), lambda: torch.ones(1).var(), lambda: torch.add(torch.ones(3), 1, out=torch.ones(2)),
    lambda: torch.ones(2)[torch.tensor([1, 0], dtype=torch.uint8)], lambda: torch.ones(2, dtype=torch.complex64).float(),
    lambda: F.softmax(torch.ones(2, 2)), lambda: nn.Softmax()(torch.ones(2, 2)), lambda: nn.LogSoftmax()(torch.ones(2, 2)),
    lambda: F.mse_loss(torch.ones(2, 1), torch.ones(2)), lambda: nn.MSELoss()(torch.ones(2, 1), torch.ones(2)),
    lambda: nn.SmoothL1Loss()(torch.ones(2, 1), torch.ones(2)), lambda: F.huber_loss(torch.ones(2, 1), torch.ones(2)),
    lambda: nn.KLDivLoss()(torch.zeros(2), torch.ones(2)), lambda: nn.MSELoss(size_average=False), lambda: F.upsample_bilinear(torch.ones(1, 1, 2, 2), scale_factor=2),
    lambda: torch.cuda.amp.GradScaler(), lambda: torch.cuda.amp.autocast(), lambda: torch.where(torch.ones(2, dtype=torch.uint8), 1, 0),
    lambda: torch.adjoint(torch.tensor(1.0)), lambda: nn.Dropout2d()(torch.ones(2, 3)), lambda: nn.Dropout3d()(torch.ones(2, 3)),
    lambda: nn.Linear(0, 2), lambda: nn.Conv2d(0, 2, 1), lambda: nn.InstanceNorm2d(5)(torch.ones(1, 3, 2, 2)), lambda: nn.LSTM(2, 2, dropout=0.5),
    lambda: torch.optim.SGD([P, P], lr=0.1), lambda: torch.optim.lr_scheduler.StepLR(torch.optim.SGD([P], lr=0.1), 1).step(3),
)  # fmt: skip


@pytest.mark.parametrize("call", WARNED)
def test_warnings_name_the_callers_line(call: Callable[[], object]) -> None:
    """Also where a module or a function made by a table is between."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught and {warning.filename for warning in caught} == {__file__}


def test_code_whose_module_has_no_name_may_be_warned() -> None:
    exec("x.var()", {"__name__": None, "x": torch.ones(1)})  # Python drops the warning
