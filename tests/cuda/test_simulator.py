"""CUDA kernels in Numba's simulator against the CPU.

Run with NUMBA_ENABLE_CUDASIM=1; shapes have tails no grid divides.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import numod
from numod import nn
from numod.nn import functional as F
from numod.kernel import block
from numod.ops.matmul import matmul
from numod.ops import pointwise
from rows import NAMES, arguments

pytestmark = [
    pytest.mark.cudasim,
    pytest.mark.cuda,
    pytest.mark.skipif(not numod.cuda.is_available(), reason="needs a GPU, or NUMBA_ENABLE_CUDASIM=1"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy scalars warn where machine integers wrap
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def same(actual: numod.Tensor, expected: numod.Tensor, tolerance: float = 1e-5) -> None:
    assert actual.device.type == "cuda" and actual.dtype is expected.dtype and actual.shape == expected.shape
    np.testing.assert_allclose(actual.detach().cpu().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_rows(name: str) -> None:
    row = pointwise.rows[name]
    values = arguments(row, 7, 5)
    moved = [value.cuda() if isinstance(value, numod.Tensor) else value for value in values]
    same(row(*moved), row(*values))
    if isinstance(values[0], numod.Tensor):
        same(row(moved[0].t()[:, :5], *moved[1:]), row(values[0].t()[:, :5], *values[1:]))


@pytest.mark.parametrize("kind", [numod.float32, numod.float64, numod.int64], ids=str)
def test_tensors_without_dimensions_stay_on_the_cpu(kind: numod.dtype) -> None:
    x, two = numod.randn(3, 5), numod.tensor(2, dtype=kind)
    there = x.cuda()
    same(there * two, x * 2)
    same(two - there, 2 - x)
    same(there.clone().add_(two), x + 2)
    same(numod.addcmul(there, there, two, value=0.5), x + x)


@pytest.mark.parametrize("kind", [numod.uint16, numod.uint32, numod.uint64], ids=str)
def test_wide_unsigned_integers(kind: numod.dtype) -> None:
    greatest = numod.iinfo(kind).max
    x = numod.tensor([[3, greatest, 0], [7, greatest // 2 + 1, 3]], dtype=kind)
    there = x.cuda()
    for function in (
        lambda x: x * x, lambda x: x & 5, lambda x: x ^ x, lambda x: x == 3, lambda x: x.sort().values, lambda x: x.unique(),
        lambda x: numod.cat([x, x]), lambda x: x.flip(1), lambda x: x.roll(1), lambda x: x[x == 3], lambda x: x.to(numod.int64),
        lambda x: x.float(), lambda x: x.any(1), lambda x: x.sum(0), lambda x: x.cumsum(0),
    ):  # fmt: skip
        same(function(there), function(x))


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "argmin", "norm", "var", "logsumexp", "max"]
)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_reductions(name: str, dim: int) -> None:
    x = numod.randn(7, 5, 3)
    actual, expected = (getattr(tensor, name)(dim=dim) for tensor in (x.cuda(), x))
    for a, b in zip(actual, expected) if isinstance(actual, tuple) else [(actual, expected)]:
        same(a, b)


def test_reductions_over_all_and_several_dimensions() -> None:
    x = numod.randn(7, 5, 3)
    same(x.cuda().sum(), x.sum())
    same(x.cuda().mean((0, 2)), x.mean((0, 2)))
    same(x.cuda().permute(2, 0, 1).sum(1), x.permute(2, 0, 1).sum(1))
    same(numod.arange(70001, device="cuda").sum(), numod.arange(70001).sum())


@pytest.mark.parametrize("kind", [numod.float32, numod.float16, numod.int64, numod.bool], ids=str)
@pytest.mark.parametrize(
    ("shape", "dims"), [((7, 9), (1,)), ((3, 5, 13), (0, 2)), ((3, 4, 2, 11), (1, 3)), ((101,), (0,))]
)
def test_reductions_by_teams_of_threads(shape: tuple, dims: tuple, kind: numod.dtype) -> None:
    x = (numod.randn(*shape) * 3).to(kind)
    for name in ("sum", "amax", "amin", "any", "all"):
        same(getattr(x.cuda(), name)(dim=dims), getattr(x, name)(dim=dims), 2e-3 if kind is numod.float16 else 1e-5)


def test_teams_keep_what_is_not_a_number() -> None:
    x = numod.randn(5, 40)
    x[2, 17], x[3, 1] = float("nan"), float("inf")
    for name in ("amax", "amin", "sum", "norm"):
        same(getattr(x.cuda(), name)(dim=1), getattr(x, name)(dim=1))


@pytest.mark.parametrize(
    "shapes",
    [((7, 5), (5, 3)), ((2, 7, 5), (5, 3)), ((2, 1, 7, 5), (4, 5, 2)), ((5,), (5, 3)), ((7, 5), (5,)), ((5,), (5,))],
)
def test_matmul(shapes: tuple) -> None:
    a, b = (numod.randn(*shape) for shape in shapes)
    same(a.cuda() @ b.cuda(), a @ b)


def test_matmul_of_transposed_operands() -> None:
    a, b = numod.randn(5, 7), numod.randn(3, 5)
    same(a.cuda().t() @ b.cuda().t(), a.t() @ b.t())


@pytest.mark.parametrize("tile", [block.Tile(8, 2, 2, 8, 4), block.Tile(4, 4, 3, 2, 4)], ids=str)
def test_matmul_by_other_tiles(tile: block.Tile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "SIMULATOR_TILE", tile)
    a, b = numod.randn(17, 9).double(), numod.randn(9, 19).double()
    run, constants = matmul._gpu_product("tiles", a.cuda()._layout, b.cuda()._layout, (1,), (0,), (0,))
    out = numod.zeros(17, 19, dtype=numod.float64, device="cuda")
    run(*(tensor._storage.data for tensor in (a.cuda(), b.cuda(), out)), *constants)
    same(out, a @ b, 1e-12)


CONVOLUTIONS = [  # shapes of x and weight, and settings
    ((2, 3, 5, 4), (4, 3, 3, 2), {"padding": 1, "stride": 2}),
    ((1, 4, 4, 5), (6, 2, 3, 3), {"padding": (1, 0), "stride": (1, 2), "dilation": (2, 1), "groups": 2}),
    ((2, 3, 7), (4, 3, 3), {"padding": 2, "stride": 3}),
    ((1, 1, 3, 3, 3), (2, 1, 2, 2, 2), {"padding": 1, "dilation": 2}),
    ((2, 3, 3, 4), (3, 1, 3, 3), {"groups": 3, "padding": 1}),
    ((2, 5, 3, 3), (3, 5, 1, 1), {"stride": 2}),
]


@pytest.mark.parametrize(("x", "weight", "settings"), CONVOLUTIONS)
def test_convolutions(x: tuple, weight: tuple, settings: dict) -> None:
    numod.manual_seed(0)
    results, inputs = [], (numod.randn(*x).double(), numod.randn(*weight).double())
    for device in ("cuda", "cpu"):
        leaves = [tensor.to(device).detach().requires_grad_() for tensor in inputs]
        out = getattr(F, f"conv{len(x) - 2}d")(*leaves, **settings)
        (out * out).sum().backward()
        results.append([out, *(leaf.grad for leaf in leaves)])
    for here, there in zip(*results):
        same(here, there, 1e-10)


def test_random_numbers_are_those_of_the_cpu() -> None:
    for make in (numod.rand, numod.randn):
        numod.manual_seed(7)
        on_device = make(13, device="cuda")
        numod.manual_seed(7)
        same(on_device, make(13))


def test_indexing_joining_and_scans() -> None:
    x, index = numod.randn(7, 5), numod.tensor([3, 0, 3])
    y, index_there = x.cuda(), index.cuda()
    same(y[index_there], x[index])
    same(y[y > 0], x[x > 0])
    same(y[1:, ::2], x[1:, ::2])
    same(numod.cat((y, y), 1), numod.cat((x, x), 1))
    same(y.cumsum(0), x.cumsum(0))
    same(y.softmax(1), x.softmax(1))
    same(y.gather(1, index_there.reshape(1, 3)), x.gather(1, index.reshape(1, 3)))
    same(numod.zeros(7, 5).cuda().index_add_(0, index_there, y[:3]), numod.zeros(7, 5).index_add_(0, index, x[:3]))
    same(
        numod.zeros(3).cuda().index_copy_(0, (numod.arange(40) % 3).cuda(), numod.arange(40.0).cuda()),
        numod.tensor([39.0, 37.0, 38.0]),
    )
    same(numod.zeros(7, 5).cuda().scatter_add_(0, y.argsort(0), y), numod.zeros(7, 5).scatter_add_(0, x.argsort(0), x))


@pytest.mark.parametrize("kind", [numod.float32, numod.float64, numod.uint8, numod.int64], ids=str)
def test_order(kind: numod.dtype) -> None:
    x = (numod.randn(3, 7) * 3).abs().to(kind)
    y = x.cuda()
    for actual, expected in zip(
        (*y.sort(descending=True), *y.sort(0), *y.topk(2), *y.cummax(1)),
        (*x.sort(descending=True), *x.sort(0), *x.topk(2), *x.cummax(1)),
    ):
        same(actual, expected)
    for name, numbers in {"median": (1,), "kthvalue": (2, 1), "cummin": (0,)}.items():
        same(getattr(y, name)(*numbers)[0], getattr(x, name)(*numbers)[0])
    same(y.cumprod(0), x.cumprod(0))
    same(y.mode(1)[0], x.mode(1)[0])
    same(y.unique(dim=0), x.unique(dim=0))
    same(numod.searchsorted(y[0].sort()[0], y, right=True), numod.searchsorted(x[0].sort()[0], x, right=True))
    for actual, expected in zip(
        y.unique(return_inverse=True, return_counts=True), x.unique(return_inverse=True, return_counts=True)
    ):
        same(actual, expected)


@pytest.mark.parametrize(
    ("n", "kind"), [(1, numod.float32), (16, numod.float64), (37, numod.float32), (70, numod.int64)]
)
def test_rows_sorted_by_blocks_and_merged(n: int, kind: numod.dtype) -> None:
    numod.manual_seed(0)
    x = (numod.randn(3, n) * 5).to(kind)  # of integers many are equal
    if kind is numod.float32 and n > 9:
        x[1, 4:9] = numod.tensor([float("nan"), 0.0, -0.0, float("inf"), float("nan")])
    for descending in (False, True):
        actual, expected = x.cuda().sort(1, descending), x.sort(1, descending)
        same(actual.values, expected.values)
        same(actual.indices, expected.indices)
    same(x.cuda().kthvalue(1 + n // 2, 1)[0], x.kthvalue(1 + n // 2, 1)[0])


# by the PTX machine more of them
def test_rows_sorted_by_blocks_digit_by_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    from numod.ops.sort import radix_cuda as sort_digits

    monkeypatch.setattr(sort_digits, "suits", lambda *_: True)
    numod.manual_seed(0)
    x = numod.randn(1, 70)
    x[:, 5:40], x[0, 4:9] = x[:, 30:65].clone(), numod.tensor([float("nan"), 0.0, -0.0, float("inf"), float("nan")])
    actual, expected = x.cuda().sort(1, True), x.sort(1, True)
    same(actual.values, expected.values)
    same(actual.indices, expected.indices)


@pytest.mark.parametrize("half", [numod.float16, numod.bfloat16], ids=str)
def test_sixteen_bit_floats(half: numod.dtype) -> None:
    x = numod.tensor([1.5, -2.25, 65519.0, 1e-7, float("inf"), float("nan"), 0.1]).to(half)
    same((x.cuda() + 1).float(), (x + 1).float())
    same(x.cuda()[:4].sum().float(), x[:4].sum().float())


LAYERS = {
    "conv2d": lambda x: F.conv2d(x, x[:2, :, :3, :2], padding=1, stride=2),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, x.transpose(0, 1)[:, :2, :2, :2], stride=2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2, padding=1),
    "max_pool2d of many windows": lambda x: F.max_pool2d(x, (2, 4), 1, (1, 2)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (2, 4)),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "layer_norm": lambda x: F.layer_norm(x, (5,), x[0, 0, 0], x[0, 1, 0]),
    "batch_norm": lambda x: F.batch_norm(x, None, None, x[0, :, 0, 0], None, True),
    "embedding": lambda x: F.embedding((x[0, 0, 0] > 0).long(), x[0, 0]),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "layer_norm without weights": lambda x: F.layer_norm(x, (4, 5)),
    "group_norm": lambda x: F.group_norm(x, 3, x[0, :, 0, 0], x[1, :, 0, 0]),
    "instance_norm": lambda x: F.instance_norm(x), "rms_norm": lambda x: F.rms_norm(x, (5,), x[0, 0, 0]),
    "embedding_bag": lambda x: F.embedding_bag((x[0, 0, 0] > 0).long(), x[0, 0], x.new_tensor([0, 2]).long()),
    "cross_entropy": lambda x: F.cross_entropy(x, (x[:, 0] > 0).long(), x[0, :, 0, 0].exp(), label_smoothing=0.1),
    "grid_sample": lambda x: F.grid_sample(x, x.permute(0, 2, 3, 1)[..., :2], padding_mode="reflection",
        align_corners=False),
        "bicubic": lambda x: F.grid_sample(x, x.permute(0, 2, 3, 1)[..., 1:], "bicubic", align_corners=True),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_their_gradients(name: str) -> None:
    numod.manual_seed(0)
    values = numod.randn(3, 3, 4, 5)
    here, there = values.clone().requires_grad_(), values.cuda().requires_grad_()
    expected, actual = LAYERS[name](here), LAYERS[name](there)
    same(actual, expected, 1e-4)
    (expected * expected).sum().backward()
    (actual * actual).sum().backward()
    same(there.grad, here.grad, 1e-3)


@pytest.mark.parametrize(
    "queries, keys, values, mask, options",
    [
        ((9, 5), (68, 5), (68, 6), None, {"is_causal": True, "scale": 0.3}),  # a tile has 64 columns
        ((2, 1, 6, 3), (1, 2, 7, 3), (2, 2, 7, 4), "added", {}),
        ((10, 3), (8, 3), (8, 2), "allowed", {"dropout_p": 0.3}),
    ],
    ids=str,
)
def test_attention(queries: tuple, keys: tuple, values: tuple, mask: str | None, options: dict) -> None:
    ends = []
    for device in ("cpu", "cuda"):
        numod.manual_seed(0)
        arguments = [
            numod.randn(*shape).transpose(0, 1).contiguous().transpose(0, 1).to(device).requires_grad_()
            for shape in (queries, keys, values)
        ]
        lines = numod.randn(queries[-2], keys[-2])
        lines[2] = float("-inf")  # nobody to attend to
        lines = lines if mask == "added" else (lines > -0.5) if mask else None
        weight = numod.randn(*np.broadcast_shapes(queries[:-2], keys[:-2]), queries[-2], values[-1]).to(device)
        numod.manual_seed(1)
        out = F.scaled_dot_product_attention(*arguments, lines if lines is None else lines.to(device), **options)
        assert device == "cpu" or out.grad_fn.name() == "AttentionBackward0"
        (out * weight).sum().backward()
        ends.append([out, *(tensor.grad for tensor in arguments)])
    for expected, actual in zip(*ends):
        same(actual, expected, 1e-4)


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell"])
def test_recurrent_cells(name: str) -> None:
    numod.manual_seed(0)
    cell = getattr(nn, name)(3, 4)
    moved = copy.deepcopy(cell).cuda()
    x = numod.randn(5, 3)
    expected, actual = cell(x), moved(x.cuda())
    for a, b in zip(*(result if isinstance(result, tuple) else (result,) for result in (actual, expected))):
        same(a, b, 1e-5)


def test_ctc_loss() -> None:
    numod.manual_seed(0)
    x = numod.randn(5, 2, 4).log_softmax(2)
    targets = numod.tensor([[1, 2], [3, 3]])
    here, there = x.clone().requires_grad_(), x.cuda().requires_grad_()
    expected = F.ctc_loss(here, targets, [5, 4], [2, 1], reduction="none")
    actual = F.ctc_loss(there, targets.cuda(), [5, 4], [2, 1], reduction="none")
    same(actual, expected, 1e-4)
    expected.sum().backward()
    actual.sum().backward()
    same(there.grad, here.grad, 1e-4)


ROWS = {
    "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(1),
    "cross_entropy": lambda x: F.cross_entropy(x, numod.tensor([2, -100, 8], device=x.device), reduction="none"),
    "layer_norm": lambda x: F.layer_norm(x, (9,), x[0].exp(), x[1]),
    "batch_norm": lambda x: F.batch_norm(x.T.reshape(3, 3, 3), None, None, x[0, :3], x[1, :3], True),
    "max": lambda x: x.max(1)[0], "sum": lambda x: x.sum(),
    "columns": lambda x: x.reshape(27, 1).expand(27, 2).contiguous().sum(0), "loss": lambda x: F.mse_loss(x, x.flip(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_blocks_share(name: str) -> None:
    numod.manual_seed(0)
    here = numod.randn(3, 9, dtype=numod.float64).requires_grad_()
    there = here.detach().cuda().requires_grad_()
    expected, actual = ROWS[name](here), ROWS[name](there)
    same(actual, expected)
    weight = numod.randn(expected.shape, dtype=numod.float64)
    (expected * weight).sum().backward()
    (actual * weight.cuda()).sum().backward()
    same(there.grad, here.grad)


# the last in more parts than a block has threads
@pytest.mark.parametrize("shape", [(3, 37), (130,), (2, 3), (379,)], ids=str)
@pytest.mark.parametrize("kind", [numod.float32, numod.uint8], ids=str)
def test_running_totals_by_teams_of_threads(shape: tuple, kind: numod.dtype) -> None:
    numod.manual_seed(0)
    x = (numod.randn(*shape) * 3).to(kind)
    if kind is numod.float32 and x.numel() > 100:
        x.view(-1)[17], x.view(-1)[5] = float("nan"), float("inf")
    for name in ("cumsum", "cumprod", "cummax", "cummin") + (("logcumsumexp",) if kind is numod.float32 else ()):
        actual, expected = getattr(x.cuda(), name)(-1), getattr(x, name)(-1)
        for a, b in zip(actual, expected) if isinstance(actual, tuple) else [(actual, expected)]:
            same(a, b)


@pytest.mark.parametrize("n", [37, 48, 70])  # that a block's threads hold in registers, and that they do not
def test_rows_held_in_registers(n: int) -> None:
    numod.manual_seed(0)
    x, weight, bias = numod.randn(3, n), numod.randn(n), numod.randn(n)
    x[0, 1], x[1, 3] = -float("inf"), float("nan")
    for use in (
        lambda x, *_: x.softmax(1),
        lambda x, *_: x.log_softmax(1),
        lambda x, *_: F.layer_norm(x, (n,)),
        lambda x, w, b: F.layer_norm(x[2:], (n,), w, b),
    ):
        same(use(x.cuda(), weight.cuda(), bias.cuda()), use(x, weight, bias), 2e-5)


def test_the_place_of_an_extreme_is_the_first() -> None:
    nan = float("nan")
    x = numod.tensor([[1.0, 3, 2, 3, 0, 3, -1, 0, 3], [0, nan, 5, nan, 1, 2, 3, 4, 5], [7, 7, 7, 7, 7, 7, 7, 7, 7]])
    for name in ("max", "min"):
        for actual, expected in zip(getattr(x.cuda(), name)(1), getattr(x, name)(1)):
            same(actual, expected)
    long = numod.arange(40) % 13
    assert long.cuda().argmax().item() == 12 and long.cuda().argmin().item() == 0  # in parts, compared behind


def test_complex_numbers() -> None:
    x = numod.tensor([1 + 2j, 3 - 1j, 0.5j], device="cuda", requires_grad=True)
    y = (x * x.conj() + x.exp() / (2 - 1j)).abs().sum() + x.real.sum()
    y.backward()
    host = x.detach().cpu().requires_grad_()
    expected = (host * host.conj() + host.exp() / (2 - 1j)).abs().sum() + host.real.sum()
    expected.backward()
    same(y, expected)
    same(x.grad, host.grad)
    same(x.detach().reshape(3, 1) @ x.detach().reshape(1, 3), host.detach().outer(host.detach()))


@pytest.mark.parametrize("dtype", [numod.float32, numod.int32, numod.uint8, numod.complex64], ids=str)
def test_folds_by_index(dtype: numod.dtype) -> None:
    x = (numod.rand(3, 2) * 5 + 1).to(dtype)
    y = (numod.rand(40, 2) * 5 + 1).to(dtype)
    places = numod.randint(0, 3, (40, 2))
    moved, at = (x.cuda(), y.cuda()), places.cuda()
    same(moved[0].scatter_add(0, at, moved[1]), x.scatter_add(0, places, y))
    for how in ("prod", "amax", "amin") if not dtype.is_complex else ():
        same(moved[0].scatter_reduce(0, at, moved[1], how), x.scatter_reduce(0, places, y, how))


FACTORS = {  # of a (2, 5, 5), p positive definite, b (2, 5, 3)
    "cholesky": lambda a, p, b: numod.linalg.cholesky(p), "lu": lambda a, p, b: numod.linalg.lu(a), "solve": lambda a,
    p, b: numod.linalg.solve(a, b),
    "one cholesky": lambda a, p, b: numod.linalg.cholesky(p[0]), "one lu": lambda a, p, b: numod.linalg.lu(a[0]),
    "wide lu": lambda a, p, b: numod.linalg.lu(a[0, :4]),
    "tall lu": lambda a, p, b: numod.linalg.lu(a[0, :, :4]), "triangles": lambda a, p,
    b: (numod.linalg.solve_triangular(p, b, upper=True),
        numod.linalg.solve_triangular(a[:, :1] * p, b, upper=False, unitriangular=True)),
    "inv": lambda a, p, b: numod.linalg.inv(a[0]), "det": lambda a, p, b: numod.linalg.det(a), "slogdet": lambda a, p,
    b: numod.linalg.slogdet(a),
    "lu_solve": lambda a, p, b: numod.linalg.lu_solve(*numod.linalg.lu_factor(a), b), "qr": lambda a, p,
    b: numod.linalg.qr(b),
    "complete qr": lambda a, p, b: numod.linalg.qr(a[0, :3], "complete"), "geqrf": lambda a, p, b: numod.geqrf(b[0]),
    "eigh": lambda a, p, b: rebuilt(*numod.linalg.eigh(p, "U")), "one eigh": lambda a, p,
    b: rebuilt(*numod.linalg.eigh(p[0] - 3 * numod.eye(5).to(p), "U")),
    "eigvalsh": lambda a, p, b: numod.linalg.eigvalsh(p[:, :4, :4]), "one svd": lambda a, p,
    b: rebuilt(*numod.linalg.svd(a[0])[1::-1]),
    "one wide svd": lambda a, p, b: rebuilt(*numod.linalg.svd(a[0, :4], full_matrices=False)[1::-1]),
    "svd": lambda a, p, b: rebuilt(*numod.linalg.svd(b[0], full_matrices=False)[1::-1]), "wide svd": lambda a, p,
    b: rebuilt(*numod.linalg.svd(b[0].mT)[1::-1]),
    "lstsq": lambda a, p, b: numod.linalg.lstsq(b[0], a[0])[:3:2], "pinv": lambda a, p, b: numod.linalg.pinv(b[0].mT),
    "norm": lambda a, p, b: numod.linalg.norm(b[0], 2),
}  # fmt: skip


# factors of each kind, and none; rows that a block holds
@pytest.mark.parametrize("n", [1, 2, 12, 13, 17, 36], ids=str)
def test_fourier_transforms(n: int) -> None:
    numod.manual_seed(0)
    x = numod.randn(2, n, 3, dtype=numod.float64)
    z = numod.complex(x, x.flip(0))
    for name, signal, settings in (
        ("fft", z, {"dim": 1}), ("ifft", z[..., 0], {"norm": "ortho"}), ("rfft", x, {"dim": 1, "norm": "forward"}), ("irfft", z, {"n": n, "dim": 1}), ("rfft2", x, {}), ("hfft", z, {}),
    ):  # fmt: skip
        same(
            getattr(numod.fft, name)(signal.cuda(), **settings),
            getattr(numod.fft, name)(signal, **settings),
            1e-11,
        )
    here, there = x.clone().requires_grad_(), x.cuda().requires_grad_()
    for tensors in (here, there):
        numod.fft.rfft(tensors, dim=1).abs().square().sum().backward()
    same(there.grad, here.grad, 1e-10)


def rebuilt(values: numod.Tensor, vectors: numod.Tensor) -> tuple[numod.Tensor, ...]:
    """The values, and what does not depend on the phases of vectors: products of those of two vectors."""
    return values, (vectors.unsqueeze(-2) * vectors.conj().unsqueeze(-3)).real


@pytest.mark.parametrize("dtype", [numod.float64, numod.complex128], ids=str)
@pytest.mark.parametrize("name", FACTORS)
def test_factorizations(name: str, dtype: numod.dtype) -> None:
    numod.manual_seed(0)
    a, b = numod.randn(2, 5, 5, dtype=dtype), numod.randn(2, 5, 3, dtype=dtype)
    results = []
    for device in ("cuda", "cpu"):
        operands = [
            tensor.to(device).requires_grad_(dtype is numod.float64 and name in ("cholesky", "solve", "eigvalsh"))
            for tensor in (a, a @ a.mH + numod.eye(5, dtype=dtype), b)
        ]
        actual = FACTORS[name](*operands)
        actual = [*actual] if isinstance(actual, tuple) else [actual]
        if actual[0].requires_grad:
            actual += [
                gradient
                for gradient in numod.autograd.grad(actual[0].square().sum(), operands, allow_unused=True)
                if gradient is not None
            ]
        results.append(actual)
    for on_gpu, expected in zip(*results):
        same(on_gpu, expected, 1e-8)


def test_indefinite_matrices() -> None:
    numod.manual_seed(0)
    a, b = numod.randn(2, 5, 5, dtype=numod.float64), numod.randn(2, 5, 3, dtype=numod.float64)
    a = a + a.mT
    a[0].diagonal().zero_()  # its blocks are of 2
    actual, expected = (numod.linalg.ldl_factor(matrix) for matrix in (a.cuda(), a))
    assert (expected.pivots < 0).any() and (expected.pivots > 0).any()
    for one, other in zip(actual, expected):
        same(one, other, 1e-11)
    same(numod.linalg.ldl_solve(*actual, b.cuda()), numod.linalg.solve(a, b), 1e-9)


def test_matrices_that_are_refused() -> None:
    # in the second of three panels
    lower, upper = numod.eye(5).diagonal_scatter(numod.tensor([1.0, 1, 1, -1, -1])), numod.eye(5)[[0, 1, 2, 2, 2]]
    for function, x in (
        (numod.linalg.cholesky, numod.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, -1]])), (numod.linalg.inv, numod.eye(3)[[0, 1, 1]].expand(2, 3, 3)),
        (numod.linalg.cholesky, lower), (numod.linalg.inv, upper),
    ):  # fmt: skip
        errors = []
        for tensor in (x, x.cuda()):
            with pytest.raises(numod.linalg.LinAlgError) as caught:
                function(tensor)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
    assert numod.linalg.cholesky_ex(-numod.eye(2).cuda()).info.item() == 1
    same(numod.linalg.det(numod.zeros(2, 0, 0).cuda()), numod.ones(2))
