"""Matrix products against NumPy: every combination of dimensions, operand layouts, dtypes, sizes, errors, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from selection import diagonals, pairwise

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda(simulator=False)

SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((5, 2, 3), (6, 1, 3, 4)), ((6, 5, 2, 3), (6, 5, 3, 4)),
    ((6, 1, 2, 3), (1, 5, 3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)), ((6, 5, 2, 3), (3,)), ((3,), (6, 5, 3, 4)), ((1, 1), (1, 1)), ((1, 3), (3, 1)), ((2, 1), (1, 4)),
]  # fmt: skip
IDS = ["@".join("x".join(map(str, shape)) for shape in pair) for pair in SHAPES]


def data(*shape, dtype=np.float32, seed=0):
    generator = np.random.default_rng(seed)
    return (
        generator.standard_normal(shape).astype(dtype)
        if np.dtype(dtype).kind == "f"
        else generator.integers(0, 9, shape).astype(dtype)
    )


def check(result, reference, rtol=1e-5):
    assert result.shape == reference.shape
    np.testing.assert_allclose(result.detach().numpy(), reference, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("a, b", SHAPES, ids=IDS)
def test_dimensions(a, b):
    x, y = data(*a), data(*b, seed=1)
    check(numod.tensor(x) @ numod.tensor(y), x @ y)


LAYOUTS = {
    "dense": lambda shape, seed: data(*shape, seed=seed),
    "transposed": lambda shape, seed: data(*shape[:-2], shape[-1], shape[-2], seed=seed).swapaxes(-1, -2),
    "step_columns": lambda shape, seed: data(*shape[:-1], 2 * shape[-1], seed=seed)[..., ::2],
    "step_rows": lambda shape, seed: data(*shape[:-2], 3 * shape[-2], shape[-1], seed=seed)[..., ::3, :],
    "inside": lambda shape, seed: data(*shape[:-2], shape[-2] + 2, shape[-1] + 3, seed=seed)[..., 1:-1, 2:-1],
}


@pytest.mark.parametrize("size, left, right", pairwise([5, 40], list(LAYOUTS), list(LAYOUTS), others=pytest.mark.fuzz))
def test_layouts(size, left, right):
    x, y = LAYOUTS[left]((3, size, size + 1), 0), LAYOUTS[right]((3, size + 1, size + 2), 1)
    check(numod.from_numpy(x) @ numod.from_numpy(y), x @ y, 1e-4)


@pytest.mark.parametrize("size", [4, 30])
def test_batches_that_are_expanded_or_permuted(size):
    x, y = data(3, size, 2, size), data(3, size, size, seed=1)
    check(numod.tensor(x).permute(0, 2, 1, 3) @ numod.tensor(y)[:, None], x.transpose(0, 2, 1, 3) @ y[:, None], 1e-4)
    check(
        numod.tensor(y[0]).expand(4, size, size) @ numod.tensor(y[:1]).expand(4, size, size),
        np.broadcast_to(y[0] @ y[0], (4, size, size)),
        1e-4,
    )


@pytest.mark.parametrize(
    "m, k, n", [(1, 1, 1), (1, 64, 1), (7, 1, 9), (64, 64, 64), (1, 300, 300), (300, 300, 1), (257, 129, 65)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes(m, k, n, dtype):
    x, y = data(m, k, dtype=dtype), data(k, n, dtype=dtype, seed=1)
    rtol = 1e-4 if dtype == np.float32 else 1e-12
    check(numod.tensor(x) @ numod.tensor(y), (x.astype(np.float64) @ y.astype(np.float64)).astype(dtype), rtol)


@pytest.mark.parametrize("dtype", [numod.uint8, numod.int8, numod.int16, numod.int32, numod.int64])
@pytest.mark.parametrize("size", [3, 40])
def test_integers(dtype, size):
    x, y = data(size, size, dtype=dtype.numpy), data(size, size, dtype=dtype.numpy, seed=1)
    result = numod.tensor(x) @ numod.tensor(y)
    assert result.dtype is dtype
    np.testing.assert_array_equal(result.numpy(), x @ y)
    np.testing.assert_array_equal((numod.tensor(x) @ numod.tensor(y).t()).numpy(), x @ y.T)


@pytest.mark.parametrize(
    "a, b", [((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (3, 4)), ((0,), (0,)), ((5, 2, 0), (0,))]
)
def test_empty(a, b):
    check(numod.zeros(a) @ numod.zeros(b), np.zeros(a) @ np.zeros(b))


def test_nan_and_infinity():
    x = np.array([[np.nan, 1.0], [np.inf, 0.0]], np.float32)
    np.testing.assert_array_equal((numod.tensor(x) @ numod.eye(2)).numpy()[:, 0], [np.nan, np.inf])


def test_named_products():
    a, b, v = data(2, 3), data(3, 4, seed=1), data(3, seed=2)
    check(numod.mm(numod.tensor(a), numod.tensor(b)), a @ b)
    check(numod.mv(numod.tensor(a), numod.tensor(v)), a @ v)
    check(numod.dot(numod.tensor(v), numod.tensor(v)), v @ v)
    check(numod.outer(numod.tensor(v), numod.tensor(v)), np.outer(v, v))
    check(numod.bmm(numod.tensor(a[None]), numod.tensor(b[None])), (a @ b)[None])
    check(numod.addmm(numod.ones(4), numod.tensor(a), numod.tensor(b), beta=2, alpha=3), 2 + 3 * (a @ b))


# ---- linear

# tiles of dot products: all heights and widths, remainders of the summed dimension, columns of several tasks, few
# columns, few terms
DOTTED = [(2, 16, 2), (3, 40, 5), (5, 64, 130), (8, 100, 67), (17, 70, 3), (24, 97, 9), (40, 260, 10), (13, 20, 30)]


@pytest.mark.parametrize("sizes, dtype", diagonals(DOTTED, [np.float32, np.float64], 2, others=pytest.mark.fuzz))
def test_linear_of_few_rows_or_columns(sizes, dtype):
    rows, inner, columns = sizes
    x = data(rows, inner + 3, dtype=dtype)
    w = data(columns, inner + 1, dtype=dtype, seed=1)
    b = data(columns, dtype=dtype, seed=2)
    inputs = numod.tensor(x)[:, 2:-1], numod.tensor(w)[:, 1:]
    expected = x[:, 2:-1].astype(np.float64) @ w[:, 1:].T
    rtol = 1e-4 if dtype == np.float32 else 1e-12
    check(F.linear(*inputs), expected, rtol)
    check(F.linear(*inputs, numod.tensor(b)), expected + b, rtol)
    check(
        numod.compile(lambda *all: F.linear(*all).relu())(*inputs, numod.tensor(b)), np.maximum(expected + b, 0), rtol
    )


def test_batches_of_few_rows_by_transposed_matrices():
    x, y = data(3, 6, 70), data(3, 9, 70, seed=1)
    check(numod.tensor(x) @ numod.tensor(y).mT, x @ y.swapaxes(1, 2), 1e-4)
    check(numod.tensor(x) @ numod.tensor(y[0]).t(), x @ y[0].T, 1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 3), (700, 3)])
def test_linear(shape, bias):
    x, w, b = data(*shape), data(5, 3, seed=1), data(5, seed=2)
    result = F.linear(numod.tensor(x), numod.tensor(w), numod.tensor(b) if bias else None)
    check(result, x @ w.T + (b if bias else 0))


def test_linear_of_strided_operands():
    x, w, b = data(3, 40), data(3, 80, seed=1), data(160, seed=2)
    inputs = numod.tensor(x).t(), numod.tensor(w).t(), numod.tensor(b)[::2]
    check(F.linear(*inputs), x.T @ w + b[::2], 1e-4)
    check(F.linear(inputs[0][:4], inputs[1][:7], inputs[2][:7]), x.T[:4] @ w.T[:7].T + b[::2][:7], 1e-4)


@pytest.mark.cpu_only
def test_linear_says_how_many_features_it_expects():
    with pytest.raises(RuntimeError, match=r"\(2, 32\) @ \(10, 64\); expected 64 input features, got 32"):
        numod.nn.Linear(64, 10)(numod.ones(2, 32))


def test_linear_errors():
    with pytest.raises(RuntimeError, match=r"\(2, 4\) @ \(5, 3\)|\(2, 4\).*\(5, 3\)"):
        F.linear(numod.ones(2, 4), numod.ones(5, 3))
    with pytest.raises(RuntimeError, match=r"bias is \(4,\)"):
        F.linear(numod.ones(2, 3), numod.ones(5, 3), numod.ones(4))
    with pytest.raises(RuntimeError, match="dtype"):
        F.linear(numod.ones(2, 3), numod.ones(5, 3, dtype=numod.float64))


# ---- gradients


@pytest.mark.parametrize("a, b", SHAPES, ids=IDS)
def test_gradients(a, b):
    x = numod.tensor(data(*a, dtype=np.float64)[..., :].copy(), requires_grad=True)
    y = numod.tensor(data(*b, dtype=np.float64, seed=1), requires_grad=True)
    weight = np.random.default_rng(2).standard_normal((x @ y).shape)
    (numod.tensor(weight) * (x @ y)).sum().backward()
    weight = weight if len(b) > 1 else weight[..., None]
    weight = weight if len(a) > 1 else weight[..., None, :]
    left, right = np.atleast_2d(x.detach().numpy()), y.detach().numpy()
    right = right if right.ndim > 1 else right[:, None]
    for tensor, full in ((x, weight @ right.swapaxes(-1, -2)), (y, left.swapaxes(-1, -2) @ weight)):
        shape = tuple(tensor.shape) if tensor.ndim > 1 else ((1, -1) if tensor is x else (-1, 1))
        extra = full.ndim - len(shape)
        full = full.sum(tuple(range(extra))) if extra > 0 else full
        full = full.sum(tuple(d for d in range(full.ndim - 2) if shape[d] == 1 and full.shape[d] != 1), keepdims=True)
        np.testing.assert_allclose(tensor.grad.numpy(), full.reshape(tensor.shape), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "a, b",
    [
        ((2, 3), (3, 2)),
        ((3,), (3,)),
        ((2, 1, 2, 3), (2, 3, 1)),
        ((2, 3), (3,)),
        ((4, 2, 3), (3, 2)),
        ((3,), (4, 3, 2)),
        ((4, 2, 3), (3,)),
    ],
)
def test_gradients_by_differences(a, b):
    x = numod.tensor(data(*a, dtype=np.float64), requires_grad=True)
    y = numod.tensor(data(*b, dtype=np.float64, seed=1), requires_grad=True)
    assert gradcheck(numod.matmul, (x, y))
    assert gradgradcheck(numod.matmul, (x, y))


def test_gradients_of_strided_operands():
    x = numod.tensor(data(3, 2, dtype=np.float64), requires_grad=True)
    y = numod.tensor(data(2, 6, dtype=np.float64, seed=1), requires_grad=True)
    assert gradcheck(lambda x, y: x.t() @ y.t()[::2], (x, y))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_a_batch_times_one_matrix(order):
    """A batch whose rows have a constant step is one matrix; other orders are a product per matrix."""
    x, w = data(4, 5, 6), data(6, 7, seed=1)
    g = data(*np.empty((4, 5, 6)).transpose(order).shape[:2], 7, seed=2)
    inputs, weight = numod.tensor(x, requires_grad=True), numod.tensor(w, requires_grad=True)
    (inputs.permute(order)[..., :4] @ weight[:4]).backward(numod.tensor(g))
    transposed = x.transpose(order)[..., :4]
    d_transposed, d_weight = np.zeros(x.shape, x.dtype).transpose(order), np.zeros_like(w)
    d_transposed[..., :4], d_weight[:4] = g @ w[:4].T, np.tensordot(transposed, g, ((0, 1), (0, 1)))
    np.testing.assert_allclose(inputs.grad.numpy().transpose(order), d_transposed, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weight.grad.numpy(), d_weight, rtol=1e-4, atol=1e-5)


def test_gradients_of_linear():
    x = numod.tensor(data(2, 2, 3, dtype=np.float64), requires_grad=True)
    w = numod.tensor(data(2, 3, dtype=np.float64, seed=1), requires_grad=True)
    b = numod.tensor(data(2, dtype=np.float64, seed=2), requires_grad=True)
    assert gradcheck(F.linear, (x, w, b))
    assert gradgradcheck(F.linear, (x, w, b))


@pytest.mark.parametrize("shape, inner", [((5, 2), 0), ((0, 2), 3), ((4, 0), 3), ((0,), 0)])
def test_gradients_where_there_is_nothing_to_multiply(shape, inner):
    x = numod.ones(*shape, inner, requires_grad=True)
    w = numod.ones(4, inner, requires_grad=True)
    b = numod.ones(4, requires_grad=True)
    (F.linear(x, w, b).sum() + (x @ w.t()).sum()).backward()
    lines = int(np.prod(shape))
    assert (
        x.grad.shape == (*shape, inner)
        and w.grad.tolist() == [[2.0 * lines] * inner] * 4
        and b.grad.tolist() == [1.0 * lines] * 4
    )


def test_gradient_of_a_square():
    """One tensor as both operands."""
    x = numod.tensor(data(3, 3, dtype=np.float64), requires_grad=True)
    assert gradcheck(lambda x: x @ x, (x,))
    assert gradgradcheck(lambda x: x @ x.t(), (x,))


# ---- errors


@pytest.mark.parametrize("a, b", [((2, 3), (4, 5)), ((3,), (4,)), ((2, 3), (2,)), ((7, 2, 3), (7, 4, 3))])
def test_inner_sizes_differ(a, b):
    with pytest.raises(RuntimeError) as caught:
        numod.ones(a) @ numod.ones(b)
    assert str(a) in str(caught.value)
    assert str(b) in str(caught.value)


def test_hint_at_a_transposed_matrix():
    with pytest.raises(RuntimeError, match=r"did you mean b\.mT\?"):
        numod.ones(2, 3) @ numod.ones(4, 3)


def test_batches_that_do_not_broadcast():
    with pytest.raises(RuntimeError, match=r"must match the size of tensor b \(5\)"):
        numod.ones(4, 2, 3) @ numod.ones(5, 3, 2)


@pytest.mark.cpu_only
@pytest.mark.parametrize("call, message", [
    (lambda: numod.ones(2, 2) @ numod.tensor(1.0), "at least 1D"),
    (lambda: numod.ones(2, 2) @ numod.ones(2, 2, dtype=numod.float64), "same dtype"),
    (lambda: numod.ones(2, 2).bool() @ numod.ones(2, 2).bool(), "not implemented for 'Bool'"),
    (lambda: numod.mm(numod.ones(2), numod.ones(2, 2)), "mm"),
    (lambda: numod.bmm(numod.ones(2, 2, 2), numod.ones(3, 2, 2)), "batch"),
    (lambda: numod.dot(numod.ones(2), numod.ones(3)), "(?i)size"),
])  # fmt: skip
def test_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_other_is_no_tensor():
    with pytest.raises(TypeError, match="matmul"):
        numod.matmul(numod.ones(2), 2.0)


@pytest.mark.parametrize(
    "size, left, right",
    pairwise(
        [(1, 67, 65), (66, 67, 1), (1, 5, 1300), (1, 3000, 1)],
        list(LAYOUTS), list(LAYOUTS), others=pytest.mark.fuzz,
    ),
)  # fmt: skip
def test_products_with_a_vector(size, left, right):
    rows, inner, columns = size
    x, y = LAYOUTS[left]((2, rows, inner), 0), LAYOUTS[right]((2, inner, columns), 1)
    check(numod.from_numpy(x) @ numod.from_numpy(y), x @ y, 1e-4)
    bias = data(columns, seed=2)
    check(F.linear(numod.from_numpy(x)[0], numod.from_numpy(y)[0].T, numod.tensor(bias)), x[0] @ y[0] + bias, 1e-4)


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_large_products_are_made_of_tiles(left, right):
    x, y = LAYOUTS[left]((2, 101, 300), 0), LAYOUTS[right]((2, 300, 83), 1)
    check(numod.from_numpy(x) @ numod.from_numpy(y), x @ y, 2e-4)
    bias = data(83, seed=2)
    check(F.linear(numod.from_numpy(x)[0], numod.from_numpy(y)[0].T, numod.tensor(bias)), x[0] @ y[0] + bias, 2e-4)


@pytest.mark.parametrize(
    "m, k, n", [(2, 2048, 600), (1200, 2, 1100), (128, 256, 128), (257, 300, 1001), (3, 700, 1024)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_sizes(m, k, n, dtype):
    x, y = data(m, k, dtype=dtype), data(k, n, dtype=dtype, seed=1)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    rtol = 3e-4 if dtype == np.float32 else 1e-11
    check(numod.tensor(x) @ numod.tensor(y), expected.astype(dtype), rtol)
    check(numod.tensor(x) @ numod.from_numpy(np.ascontiguousarray(y.T)).T, expected.astype(dtype), rtol)


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_edge_of_the_tiles(transposed, dtype):
    for m in (2, 7, 8, 9, 33):
        for n in (3, 16, 17, 49, 100):
            for k in (5, 37, 300):
                x = data(k, m, dtype=dtype).T if "a" in transposed else data(m, k, dtype=dtype)
                y = data(n, k, dtype=dtype).T if "b" in transposed else data(k, n, dtype=dtype)
                check(numod.from_numpy(x) @ numod.from_numpy(y), x.astype(np.float64) @ y.astype(np.float64), 1e-4)


@pytest.mark.parametrize("rows, inner", [(400, 300), (1, 1200)])
def test_threads_change_no_bit_of_a_large_product(rows, inner):
    x, y = numod.tensor(data(rows, inner)), numod.tensor(data(inner, 1100, seed=1))
    before, results = numod.get_num_threads(), []
    try:
        for count in (1, 2):
            numod.set_num_threads(count)
            results.append((x @ y).numpy())
    finally:
        numod.set_num_threads(before)
    assert (results[0] == results[1]).all()


def test_a_compiled_large_product():
    x, layer = numod.tensor(data(160, 300)), numod.nn.Linear(300, 120)
    call = numod.compile(lambda x: F.relu(layer(x)))
    assert (call(x) == F.relu(layer(x))).all() and (call(x * 2) == F.relu(layer(x * 2))).all()


def test_an_infinity_stays_in_its_row():
    a = np.ones((5, 300), "float32")
    a[0, 0] = np.inf  # also the first element of memory
    for b in (np.ones((300, 1)), np.ones((4, 300)).T, np.ones((300, 4))):
        results = (numod.tensor(a) @ numod.tensor(b.astype("float32"))).numpy()
        assert (results[0] == np.inf).all() and (results[1:] == 300).all()


@pytest.mark.parametrize("rows, outputs, size", [(1, 1, 3), (1, 3, 4), (5, 2, 1), (4, 7, 9), (3, 40, 60)])
@pytest.mark.parametrize("wanted", ["x weight bias", "weight bias", "x weight", "bias"])
def test_gradients_of_linear_together_and_apart(rows, outputs, size, wanted):
    x = data(rows, size)
    weight = data(outputs, size, seed=1)
    bias = data(outputs, seed=2)
    g = data(rows, outputs, seed=3)
    tensors = {
        name: numod.tensor(array, requires_grad=name in wanted.split())
        for name, array in (("x", x), ("weight", weight), ("bias", bias))
    }
    F.linear(**{"input": tensors["x"], "weight": tensors["weight"], "bias": tensors["bias"]}).backward(
        numod.tensor(g.T.copy()).T
    )
    expected = {"x": g @ weight, "weight": g.T @ x, "bias": g.sum(0)}
    for name, tensor in tensors.items():
        if tensor.requires_grad:
            np.testing.assert_allclose(tensor.grad.numpy(), expected[name], rtol=1e-4, atol=1e-5)
        else:
            assert tensor.grad is None


def test_a_frozen_input_may_be_written_before_backward():
    layer, x = numod.nn.Linear(3, 2), numod.ones(4, 3)
    layer.weight.requires_grad_(False)
    loss = layer(x).sum()
    x.zero_()  # the gradient of the bias needs neither
    loss.backward()
    assert layer.bias.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("rows, inner, columns", [(8, 8, 8), (3, 3, 1), (1, 5, 4), (2, 1, 7), (9, 3, 3)])
def test_many_little_matrices(rows, inner, columns):
    x, y = data(70, rows, inner), data(70, inner, columns, seed=1)
    a, b = numod.tensor(x, requires_grad=True), numod.tensor(y, requires_grad=True)
    check(a @ b, x @ y)
    check(a.mT.contiguous().mT @ b, x @ y)
    check(a @ b.mT.contiguous().mT, x @ y)
    (a @ b).sum().backward()
    check(a.grad, np.ones_like(x @ y) @ y.swapaxes(1, 2))
    check(b.grad, x.swapaxes(1, 2) @ np.ones_like(x @ y))
