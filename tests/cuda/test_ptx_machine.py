"""The PTX that a GPU would be given, run by `ptx_machine` behind the driver's interface, against the CPU: launches of
the sizes a GPU gets, with tails.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import numod
from numod import config, nn
from numod.kernel import block
from numod.nn import functional as F
from numod.ops.linalg import cuda as linalg_cuda
from numod.ops import pointwise
from numod.ops.sort import radix_cuda as sort_digits
from rows import NAMES, arguments

pytest.importorskip("numba_cuda", reason="needs the extra: pip install -e '.[cuda]'")
sys.path.insert(0, str(Path(__file__).parent))
from ptx_machine import Machine

pytestmark = [
    pytest.mark.ptx,
    pytest.mark.skipif(config.cuda_simulator(), reason="the simulator has no PTX"),
    pytest.mark.filterwarnings("ignore"),
]
HALVES = (numod.float16, numod.bfloat16)


@pytest.fixture(scope="module", autouse=True)
def machine() -> Iterator[Machine]:
    with Machine(1 << 27).installed() as made:
        yield made


def same(actual: numod.Tensor, expected: numod.Tensor, tolerance: float = 1e-5) -> None:
    assert actual.device.type == "cuda" and actual.dtype is expected.dtype and actual.shape == expected.shape
    actual, expected = (tensor.detach().cpu() for tensor in (actual, expected))
    if actual.is_floating_point() or actual.is_complex():
        actual, expected = (
            tensor.to(numod.complex128 if tensor.is_complex() else numod.float64) for tensor in (actual, expected)
        )
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)


def check(function: Callable, *tensors: numod.Tensor, tolerance: float = 1e-5, gradients: bool = True) -> None:
    """`function` gives the same on the device, and so do its gradients for a fixed weight of the results."""
    ends = []
    for device in ("cpu", "cuda"):
        leaves = [
            tensor.detach().to(device).requires_grad_(gradients and tensor.is_floating_point()) for tensor in tensors
        ]
        out = function(*leaves)
        outs = [*out] if isinstance(out, tuple | list) else [out]
        asked = [out for out in outs if out.requires_grad]
        if asked:
            sum((tensor * weight(tensor.shape, tensor.dtype).to(device)).sum() for tensor in asked).backward()
        ends.append([*outs, *(leaf.grad for leaf in leaves if leaf.grad is not None)])
    assert len(ends[0]) == len(ends[1])
    for expected, actual in zip(*ends):
        same(actual, expected, tolerance)


def weight(shape: tuple, dtype: numod.dtype) -> numod.Tensor:
    return ((numod.arange(int(np.prod(shape)), dtype=numod.float64) * 0.7).sin() + 0.2).reshape(shape).to(dtype)


def made(*shape: int, dtype: numod.dtype = numod.float32) -> numod.Tensor:
    numod.manual_seed(sum(shape))
    return (numod.randn(*shape) * 2).to(dtype)


@pytest.mark.parametrize("name", NAMES)
def test_rows(name: str) -> None:
    row = pointwise.rows[name]
    values = arguments(row, 31, 9)
    moved = [value.cuda() if isinstance(value, numod.Tensor) else value for value in values]
    same(row(*moved), row(*values))


@pytest.mark.parametrize(
    "dtype",
    [numod.float16, numod.bfloat16, numod.float64, numod.uint8, numod.int8, numod.bool, numod.complex64],
    ids=str,
)
def test_dtypes(dtype: numod.dtype) -> None:
    x, y = made(3, 700).to(dtype), made(700).to(dtype)
    check(lambda x, y: x + y, x, y, gradients=False)
    if not dtype.is_complex:
        check(lambda x: (x.sum(), x.amax(1)), x, gradients=False, tolerance=1e-2 if dtype in HALVES else 1e-6)
    if dtype is numod.int8:
        check(lambda x, y: (x // y.clamp(min=1), x % y.clamp(max=-1), x >> 1, x << 3), x, y, gradients=False)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_every_number_of_sixteen_bits(dtype: numod.dtype) -> None:
    x = numod.arange(1 << 16).to(numod.int32).to(numod.int16).view(dtype)
    check(lambda x: (x.float(), x.float().to(dtype)), x, gradients=False)
    near = numod.from_numpy(
        np.random.default_rng(0).integers(0, 1 << 32, 20000, dtype=np.uint32).view(np.float32).copy()
    )
    check(lambda near: near.to(dtype), near, gradients=False)


def test_layouts() -> None:
    x = made(5, 37, 41)
    for view in (
        lambda x: x.permute(2, 0, 1),
        lambda x: x[1:4, ::3, 5:],
        lambda x: x.transpose(0, 1),
        lambda x: x[:, :1].expand(5, 9, 41),
        lambda x: x.permute(2, 1, 0)[::2],
    ):
        check(lambda x, view=view: (view(x) * 2.0, view(x).contiguous(), view(x).sum(-1), view(x).sum(0)), x)
    # in tiles
    for shape, order in (
        ((37, 41), (1, 0)),
        ((5, 37, 41), (2, 1, 0)),
        ((3, 9, 10, 11), (0, 2, 3, 1)),
        ((8, 300), (1, 0)),
    ):
        check(
            lambda x, order=order: x.permute(order) + numod.ones(x.permute(order).shape, device=x.device), made(*shape)
        )
    check(lambda x: x.reshape(-1)[3:4000] + x.reshape(-1)[5:4002], x)
    check(lambda x: (x + 1)[0, 0, 0], x)

    def write(x: numod.Tensor) -> numod.Tensor:
        out = numod.zeros(41, 37, device=x.device)
        out.t().copy_(x[0])
        out[3:9, ::2] += 1
        out[5] = 7
        return out

    check(write, x, gradients=False)


def test_memory_read_as_another_dtype() -> None:
    check(
        lambda z: (z.real * 2, z.imag.sum(0), numod.view_as_real(z), z.conj().resolve_conj()),
        made(3, 5, dtype=numod.complex64),
        gradients=False,
    )
    check(lambda x: numod.view_as_complex(x.reshape(3, 5, 2)).abs(), made(3, 10))
    check(
        lambda x: (x.view(numod.int32), x.view(numod.uint8)[1:], x[1:].view(numod.int64)), made(4, 6), gradients=False
    )

    def shift(x: numod.Tensor) -> numod.Tensor:
        x, unshared = x.clone(), x.clone()
        # of memory that two storages hold: read whole before it is written
        x[1:] = x.view(numod.int32)[:-1].view(numod.float32)
        return x, unshared.resize_(2000)[:1000]

    check(shift, made(1000), gradients=False)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "argmin", "norm", "var", "logsumexp", "max"]
)
def test_reductions(name: str) -> None:
    x = made(6, 5, 300)
    x[2, 3, 17] = x[1, 1, 250] = 9.0
    smooth = name not in ("any", "all", "argmax", "argmin", "prod")
    for dim in (0, 1, 2):
        check(lambda x, dim=dim: getattr(x, name)(dim=dim), x, gradients=smooth and dim == 1)
    check(
        lambda x: getattr(x, name)() if name != "logsumexp" else x.logsumexp((0, 1, 2)),
        x * 0.1 if name == "prod" else x,
        gradients=smooth,
        tolerance=1e-4,
    )


def test_long_reductions_in_two_stages() -> None:
    x = made(70001)
    check(lambda x: (x.sum(), x.mean(), x.max(), x.argmin(), x.norm(), x.std()), x, tolerance=1e-4)
    columns = made(9000, 3)
    check(lambda x: (x.sum(0), x.amax(0), x.mean((0, 1))), columns, tolerance=1e-4)
    # few results of rows that lie apart: blocks take rows, and the next kernel what they found
    images = made(40, 3, 23, 10)
    check(
        lambda x: (x.sum((0, 2, 3)), x.mean((0, 3)), x.amax((0, 2))[:, :2], x[..., ::2].sum((0, 2, 3)), x.sum((0, 2))),
        images,
        tolerance=1e-4,
    )
    check(
        lambda x: (x.sum((0, 2)), x.mean((0, 2)), (x > 5).any((0, 2))),
        made(2, 2, 9001),
        tolerance=1e-4,
        gradients=False,
    )
    check(lambda x: (x.sum((0, 2)), x.any((0, 2))), made(9001, 2, 2), tolerance=1e-4, gradients=False)
    nan = made(70001)
    nan[51234] = float("nan")
    check(lambda x: (x.amax(), x.sum()), nan, gradients=False)


@pytest.mark.parametrize("dtype", [numod.float32, numod.float64, numod.bfloat16, numod.int64, numod.complex64], ids=str)
@pytest.mark.parametrize(
    "shapes",
    [
        ((130, 70), (70, 65)),
        ((3, 7, 19), (3, 19, 5)),
        ((1, 33), (33, 1)),
        ((2, 1, 65, 9), (3, 9, 66)),
        ((70,), (70, 65)),
        ((9, 3), (3,)),
    ],
    ids=str,
)
def test_products(shapes: tuple, dtype: numod.dtype) -> None:
    a, b = (made(*shape, dtype=dtype) for shape in shapes)
    tolerance = {numod.float32: 1e-4, numod.float64: 1e-10, numod.bfloat16: 3e-1}.get(dtype, 1e-4)
    check(lambda a, b: a @ b, a, b, tolerance=tolerance, gradients=dtype in (numod.float32, numod.float64))


def test_products_of_transposed_and_sliced_matrices() -> None:
    a, b = made(70, 130), made(65, 70)
    check(lambda a, b: a.t() @ b.t(), a, b, tolerance=1e-4)
    check(lambda a, b: a[3:, 1:].t() @ b[:, :67].t(), a, b, tolerance=1e-4)
    check(lambda a, w, c: F.linear(a, w, c), made(130, 33), made(66, 33), made(66), tolerance=1e-4)
    check(lambda a, b: numod.addmm(a, a, b, beta=0.5, alpha=2.0), made(17, 17), made(17, 17), tolerance=1e-4)


def test_batches_with_two_steps_are_one_launch(machine: Machine) -> None:
    x = made(3, 9, 2, 7)  # heads as layers split them
    attend = lambda x: x.transpose(1, 2) @ x.transpose(1, 2).mT  # noqa: E731
    check(attend, x)
    moved, before = x.cuda(), machine.calls["cuLaunchKernelEx"]
    attend(moved)
    assert machine.calls["cuLaunchKernelEx"] == before + 1


def test_products_in_parts(machine: Machine) -> None:
    """Of few results and many terms, which blocks share."""
    check(lambda a, w, c: F.linear(a, w, c), made(9, 1040), made(67, 1040), made(67), tolerance=1e-3)
    check(lambda a, b: (a.t() @ b, a[:515].t() @ b[1:516]), made(1030, 5), made(1030, 3), tolerance=1e-3)
    check(lambda a, b: a @ b, made(3, 513).to(numod.int64), made(513, 4).to(numod.int64))
    a, b, c = (numod.randint(-1, 2, shape).half() for shape in ((5, 512), (7, 512), (7,)))  # sums that float16 has
    before = machine.launches
    check(lambda a, b, c: F.linear(a, b, c), a, b, c, gradients=False, tolerance=0)
    assert machine.launches - before == 2 and "add_parts" in machine.kernels[-1].name


# whether the left and the right matrix are transposed ones
ORDERS = [(False, False), (False, True), (True, False), (True, True)]


def on_tensor_cores(
    machine: Machine, function: Callable, *tensors: numod.Tensor, tolerance: float = 0, gradients: bool = False
) -> None:
    """As `check`, and the kernels that were built for it multiply by tensor cores."""
    before = len(machine.kernels)
    check(function, *tensors, tolerance=tolerance, gradients=gradients)
    assert all(
        "mma" in {instruction.parts[0] for instruction in kernel.program.code}
        for kernel in machine.kernels[before:]
        if "_blocks_" in kernel.name
    )


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_tensor_cores(dtype: numod.dtype, machine: Machine) -> None:
    """Of small whole numbers, whose sums are exact in any order, so that an element in a wrong place is found."""
    a, b, c = (numod.randint(-3, 4, shape).to(dtype) for shape in ((65, 75), (75, 70), (70,)))
    on_tensor_cores(machine, lambda a, b: (a @ b, a[:, 3:40] @ b[3:40], a[1:3, :9] @ b[:9, 5:6]), a, b)
    on_tensor_cores(machine, lambda a, b: (b.t() @ a.t(), numod.stack((a, a))[:, :, :16] @ b[:16]), a, b)
    if dtype is numod.float16:
        on_tensor_cores(machine, lambda a, b, c: F.linear(a, b.t().contiguous(), c), a, b, c)
        large = made(3, 20, dtype=dtype) * 200
        on_tensor_cores(machine, lambda x: (x @ x.t(), (x * float("nan")) @ x.t()), large)  # beyond float16
    else:
        on_tensor_cores(machine, lambda a, b: numod.compile(lambda a, b: (a @ b).relu() * 2)(a, b), a, b)


@pytest.mark.parametrize(("left", "right"), ORDERS, ids=str)
@pytest.mark.parametrize("sizes", [(67, 70, 69), (9, 3, 66)], ids=str)
def test_tensor_cores_take_matrices_as_they_lie(sizes: tuple, left: bool, right: bool, machine: Machine) -> None:
    """With tails along every dimension, at places that are whole runs of 16 bytes or not, in batches; and so the
    gradients, of which one factor is transposed.
    """
    rows, inner, columns = sizes
    a, b = (
        numod.randint(-2, 3, (2, *(shape[::-1] if is_transposed else shape))).half()
        for shape, is_transposed in (((rows, inner), left), ((inner, columns), right))
    )
    a, b = (tensor.mT if is_transposed else tensor for tensor, is_transposed in ((a, left), (b, right)))
    on_tensor_cores(
        machine, lambda a, b: (a @ b, a[1] @ b[0], a[1, :, 1:] @ b[0, 1:], a[0, 1:, :8] @ b[1, :8, 2:]), a, b
    )
    on_tensor_cores(machine, lambda a, b: (a @ b).float(), a[0], b[1], tolerance=1e-2, gradients=True)


def test_products_of_less_precision(machine: Machine) -> None:
    a, b, c = (numod.randint(-3, 4, shape).float() for shape in ((65, 75), (75, 70), (70,)))
    product = numod.compile(lambda a, b: a @ b + 1)
    third = (numod.full((16, 16), 1 / 3).cuda(), numod.eye(16).cuda())
    before = product(*third).cpu()[0, 0].item(), (third[0] @ third[1]).cpu()[0, 0].item()
    try:
        numod.backends.cuda.matmul.allow_tf32 = True
        on_tensor_cores(
            machine, lambda a, b, c: (a @ b, F.linear(b.t(), a[1:], c[:64]), b.t() @ a.t(), a[:, 1:] @ b[1:]), a, b, c
        )
        rounded = round(2**12 / 3) / 2**12
        assert (
            product(*third).cpu()[0, 0].item() == 1 + rounded
            and (third[0] @ third[1]).cpu()[0, 0].item() == rounded != before[1]
        )
    finally:
        numod.set_float32_matmul_precision("highest")
    assert (product(*third).cpu()[0, 0].item(), (third[0] @ third[1]).cpu()[0, 0].item()) == before


def test_gradients_on_tensor_cores(machine: Machine) -> None:
    # positions enough to be cut into parts, for the weight's
    x, weight = made(3, 2, 41, 37, dtype=numod.float16), made(6, 2, 3, 3, dtype=numod.float16)
    on_tensor_cores(
        machine, lambda x, w: F.conv2d(x, w, padding=1, stride=2), x, weight, tolerance=3e-2, gradients=True
    )


@pytest.mark.parametrize(("left", "right"), ORDERS, ids=str)
def test_great_tile_of_tensor_cores(left: bool, right: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of products too large for this machine.

    No thread waits for another's bank: 4 passes are what 512 bytes take.
    """
    monkeypatch.setattr(block, "suits", lambda *_: True)
    a, b = (
        numod.randint(-3, 4, shape[::-1] if is_transposed else shape).half()
        for shape, is_transposed in (((129, 72), left), ((72, 136), right))
    )
    on_tensor_cores(machine, lambda a, b: (a.t() if left else a) @ (b.t() if right else b), a, b)
    moved = a.cuda().t() if left else a.cuda(), b.cuda().t() if right else b.cuda()
    actual = counted(machine, lambda: moved[0] @ moved[1])
    # some write alone
    assert (
        actual["shared loads passes"] == 4 * actual["shared loads"]
        and actual["shared stores passes"] <= 4 * actual["shared stores"]
    )


CONVOLUTIONS = [  # shapes of x and weight, and settings
    ((2, 3, 15, 14), (4, 3, 3, 2), {"padding": 1, "stride": 2}),
    ((1, 4, 14, 9), (70, 2, 3, 3), {"padding": (1, 0), "stride": (1, 2), "dilation": (2, 1), "groups": 2}),
    ((2, 3, 77), (4, 3, 3), {"padding": 2, "stride": 3}),
    ((1, 1, 5, 6, 5), (2, 1, 2, 2, 2), {"padding": 1, "dilation": 2}),
    ((2, 3, 13, 14), (3, 1, 3, 3), {"groups": 3, "padding": 1}),
    ((2, 5, 9, 9), (67, 5, 1, 1), {"stride": 2}),
    # few positions: in three parts, of the channels, and in two, of the features
    ((1, 60, 5, 4), (58, 60, 3, 3), {"padding": 1, "stride": 2}),
]


@pytest.mark.parametrize(("x", "weight", "settings"), CONVOLUTIONS, ids=str)
def test_convolutions(x: tuple, weight: tuple, settings: dict) -> None:
    check(lambda x, w: getattr(F, f"conv{len(weight) - 2}d")(x, w, **settings), made(*x), made(*weight), tolerance=1e-4)


@pytest.mark.parametrize("name", ["SQUARE_TILE", "BROAD_TILE"])
def test_great_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of products too large for this machine, of sizes that no other test has: plans are kept."""
    tile = getattr(block, name)
    monkeypatch.setattr(block, "choose", lambda *_: tile)
    n = tile.width
    check(lambda a, w, c: F.linear(a, w, c), made(67, n + 1), made(5, n + 1), made(5), tolerance=1e-4, gradients=False)
    check(lambda x, w: F.conv2d(x, w, padding=1), made(2, 3, 11, n // 16), made(5, 3, 3, 3), tolerance=1e-4)


def test_transposed_convolutions() -> None:
    check(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        made(2, 5, 7, 6),
        made(5, 3, 3, 3),
        tolerance=1e-4,
    )


LAYERS = {
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1), "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 2)), "max_pool dilated": lambda x: F.max_pool2d(x, 2, 1, 1, 3),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (4, 5)),
    "avg_pool inside": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.5, mode="bilinear"),
    "batch_norm": lambda x: F.batch_norm(x, None, None, x[0, :, 0, 0], x[1, :, 0, 0], True),
    "layer_norm": lambda x: F.layer_norm(x, (13,), x[0, 0, 0], x[0, 1, 0]),
    "group_norm": lambda x: F.group_norm(x, 3, x[0, :, 0, 0], x[1, :, 0, 0]),
    "instance_norm": lambda x: F.instance_norm(x), "rms_norm": lambda x: F.rms_norm(x, (13,), x[0, 0, 0]),
    "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(-1),
    "pad": lambda x: F.pad(x, (2, 3, 1, 2), mode="reflect"), "unfold": lambda x: F.unfold(x, 3, padding=1),
    "gelu": lambda x: F.gelu(x) + F.silu(x) * F.softplus(x),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, :4], 2), "cdist": lambda x: numod.cdist(x[0], x[1], 1.5),
    "cumsum": lambda x: x.cumsum(2) + x.cumsum(1),
    "grid_sample": lambda x: F.grid_sample(x, x.permute(0, 2, 3, 1)[..., :2].tanh()),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_their_gradients(name: str) -> None:
    check(LAYERS[name], made(3, 6, 11, 13), tolerance=1e-3)


@pytest.mark.parametrize("depth, width, mask, dropped", [(20, 32, "allowed", 0.2), (100, 128, "causal", 0.0)])
def test_attention_by_tiles(depth: int, width: int, mask: str, dropped: float) -> None:
    heads = made(2, 70, 2, depth), made(2, 90, 2, depth), made(2, 90, 2, width)  # as layers have them
    allowed = numod.tensor(np.arange(70 * 90).reshape(70, 90) % 7 > 1) if mask == "allowed" else None

    def attend(query: numod.Tensor, key: numod.Tensor, value: numod.Tensor) -> numod.Tensor:
        numod.manual_seed(0)
        query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
        moved_mask = allowed if allowed is None else allowed.to(query.device)
        return F.scaled_dot_product_attention(query, key, value, moved_mask, dropped, mask == "causal")

    check(attend, *heads, tolerance=1e-4)


POOLS = [  # windows of which four neighbours lie in one, some, or more than are read at once
    lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, (2, 5), 1, (1, 2)),
    lambda x: F.max_pool2d(x, 2, 3), lambda x: F.max_pool2d(x, 3, (3, 1), 1, 2),
    lambda x: F.adaptive_max_pool2d(x, (4, 30)), lambda x: F.max_pool1d(x[0], 3, 2, 1),
    lambda x: F.max_pool3d(x, (2, 3, 3), (1, 2, 2), (1, 1, 0)),
]  # fmt: skip


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("width", [12, 3])
def test_gradients_of_max_pooling(pool: Callable, width: int) -> None:
    x = made(3, 6, 11, width).round()  # of many the first
    check(pool, x, tolerance=0)
    check(pool, x.double(), tolerance=0)


@pytest.mark.parametrize("n", [5, 100, 1000, 5000])
def test_rows_shared_by_teams(n: int) -> None:
    x, w, b = made(3, n), made(n) * 0.1 + 1, made(n)
    check(lambda x: (x.softmax(1), x.log_softmax(1)), x, tolerance=1e-4)
    check(lambda x, w, b: F.layer_norm(x, (n,), w, b), x, w, b, tolerance=1e-3)
    # fours that begin anywhere
    check(
        lambda x, w, b: (x[0, 1:].softmax(0), F.layer_norm(x[0, 1 : n - 3], (n - 4,), w[4:], b[: n - 4])),
        x,
        w,
        b,
        tolerance=1e-3,
    )
    check(
        lambda x: F.cross_entropy(x, numod.tensor([1, -100, n - 1], device=x.device), label_smoothing=0.1),
        x,
        tolerance=1e-4,
    )
    check(lambda x: (x.max(1)[0], x.logsumexp(1), x.cumsum(1)), x, tolerance=1e-3)


def test_batch_norms() -> None:
    for shape in ((2, 3, 900), (64, 5, 3, 3), (300, 7)):
        channels = made(shape[1]), made(shape[1])
        check(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), made(*shape), *channels, tolerance=1e-3)


LOSSES = {
    "mse": lambda x: F.mse_loss(x, x.detach().flip(0)), "l1": lambda x: F.l1_loss(x, x.detach().flip(0)),
    "huber": lambda x: F.huber_loss(x, x.detach().flip(0)),
    "kl": lambda x: F.kl_div(x.log_softmax(1), x.detach().softmax(1), reduction="batchmean"),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
    "nll": lambda x: F.nll_loss(x.log_softmax(1), (x[:, 0] > 0).long()),
    "cross_entropy": lambda x: F.cross_entropy(x, (x[:, 0] > 0).long(), x[0].detach().exp(), label_smoothing=0.1),
    "soft": lambda x: F.cross_entropy(x, x.detach().flip(0).softmax(1)),
    "hinge": lambda x: F.multi_margin_loss(x, (x[:, 0] > 0).long()),
    "cosine": lambda x: F.cosine_similarity(x, x.detach().flip(0)).sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    check(LOSSES[name], made(37, 19), tolerance=1e-4)


def test_ctc() -> None:
    targets, x = numod.tensor([[1, 2], [3, 3]]), made(9, 2, 5)
    check(
        lambda x: F.ctc_loss(x.log_softmax(2), targets.to(x.device), [9, 7], [2, 1], reduction="none"),
        x,
        tolerance=1e-4,
    )


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell"])
def test_recurrent(name: str) -> None:
    numod.manual_seed(0)
    layer = getattr(nn, name)(5, 9)
    moved = copy.deepcopy(layer).cuda()
    x = made(3, 5) if name.endswith("Cell") else made(4, 3, 5)
    actual, expected = moved(x.cuda()), layer(x)
    first = [result[0] if isinstance(result, tuple) else result for result in (actual, expected)]
    same(*first, 1e-5)
    for result in first:
        (result * result).sum().backward()
    for here, there in zip(moved.parameters(), layer.parameters()):
        same(here.grad, there.grad, 1e-4)


def test_gather_and_scatter() -> None:
    x, index, rows = made(37, 19), numod.randint(0, 37, (23, 19)), numod.randint(0, 37, (50,))
    for function in (
        lambda x, i, r: (
            x.gather(0, i),
            x.index_select(0, r),
            x[r],
            x.take_along_dim(i, 0),
            x[r, r % 19],
            F.embedding(r, x),
            x[x > 0.3],
            x.masked_fill(x > 0, 2.0),
        ),
        lambda x, i, r: (
            x.scatter_add(0, i, x[:23]),
            x.index_add(0, r[:37], x),
            x.scatter_reduce(0, i, x[:23], "prod"),
            x.scatter_reduce(0, i, x[:23], "amax"),
        ),
    ):
        check(lambda x, f=function: f(x, index.to(x.device), rows.to(x.device)), x, tolerance=1e-4)
    check(
        lambda x: (x.nonzero(), numod.bincount((x.abs() * 3).long().reshape(-1)), numod.histc(x, 7, -1.0, 1.0)),
        x,
        gradients=False,
    )
    check(
        lambda x: (
            numod.cat((x, x[:3] * 2), 0),
            numod.stack((x, x)),
            x.roll(3, 1),
            x.flip(0, 1),
            x.tril(),
            x.diagonal(),
            x.repeat(2, 3),
            x.repeat_interleave(2, 0),
        ),
        x,
    )
    check(lambda x: F.embedding_bag(rows.to(x.device), x, numod.tensor([0, 7, 30], device=x.device)), x)


@pytest.mark.parametrize("dtype", [numod.float32, numod.float64, numod.int64, numod.uint8, *HALVES], ids=str)
def test_sums_by_index(dtype: numod.dtype, machine: Machine) -> None:
    x, y, places = made(7, 33).to(dtype), made(300, 33).to(dtype), numod.randint(0, 7, (300,))

    def sums(x: numod.Tensor, y: numod.Tensor) -> tuple:
        r = places.to(x.device)
        put = x.clone().index_put_((r, r * 3), y[:, 0], accumulate=True)
        return (
            x.index_add(0, r, y),
            x.t().index_add(1, r, y.t()),
            x.scatter_add(0, (r[:, None] + r[:33]) % 7, y),
            x[:, 0].scatter_add(0, r, y[:, 1]),
            put,
        )

    check(sums, x, y, tolerance={numod.float16: 4e-2, numod.bfloat16: 3e-1, numod.float64: 1e-12}.get(dtype, 1e-4))
    at, flat = places.cuda(), y[:, 0].contiguous().cuda()
    numod.zeros(7, dtype=dtype, device="cuda").index_add_(0, at, flat)
    threads = 1 if dtype is numod.uint8 else 300
    assert dtype in HALVES or machine.last[1] * machine.last[2] >= threads


@pytest.mark.parametrize("dtype", [numod.float32, numod.bool], ids=str)
def test_the_last_one_stays(dtype: numod.dtype, machine: Machine) -> None:
    x = made(7, 33).to(dtype)
    y = made(300, 33).sign().clamp(min=0).to(dtype) if dtype is numod.bool else made(300, 33)
    places = numod.randint(0, 7, (300,))

    def written(x: numod.Tensor, y: numod.Tensor) -> tuple:
        r = places.to(x.device)
        put = x.clone().index_put_((r, r * 3), y[:, 0])
        return (
            x.index_copy(0, r, y),
            x.t().index_copy(1, r, y.t()),
            x.scatter(0, (r[:, None] + r[:33]) % 7, y),
            put,
            x[:, 0].contiguous().put_(r, y[:, 1]),
        )

    check(written, x, y, gradients=False, tolerance=0)
    at, source, target = places.cuda(), y[:, 0].contiguous().cuda(), numod.zeros(7, dtype=dtype, device="cuda")
    target.index_copy_(0, at, source)
    assert machine.last[1] * machine.last[2] >= 300


@pytest.mark.parametrize(
    "dtype", [numod.float32, numod.float64, numod.int32, numod.int64, numod.int8, numod.uint8, numod.float16], ids=str
)
def test_folds_by_index_have_a_thread_for_each_element(dtype: numod.dtype, machine: Machine) -> None:
    x, y, places = made(7, 3).to(dtype), made(300, 3).to(dtype), numod.randint(0, 7, (300, 3))
    if dtype.is_floating_point:
        x, y = x * 0.1 + 1, y * 0.01 + 1
        y[9, 1] = x[4, 2] = float("nan")
        y[19, 0] = 0

    def fold(x: numod.Tensor, y: numod.Tensor) -> tuple:
        at = places.to(x.device)
        return *(x.scatter_reduce(0, at, y, how) for how in ("prod", "amax", "amin")), x.index_reduce(
            0, at[:, 0], y, "amax", include_self=False
        )

    check(fold, x, y, gradients=False, tolerance={numod.float32: 1e-4, numod.float16: 2e-3}.get(dtype, 1e-12))
    assert any(
        "cas" in instruction.parts
        for kernel in machine.kernels
        if "scatter_reduce_prod" in kernel.name
        for instruction in kernel.program.code
    )


@pytest.mark.parametrize("dtype", [numod.int8, numod.uint8, numod.int16, numod.complex64, numod.complex128], ids=str)
def test_sums_by_index_of_what_is_not_added_at_once(dtype: numod.dtype, machine: Machine) -> None:
    x, y, places = (made(7, 3) * 9).to(dtype), (made(300, 3) * 9).to(dtype), numod.randint(0, 7, (300,))

    def sums(x: numod.Tensor, y: numod.Tensor) -> tuple:
        at = places.to(x.device)
        return (
            x.index_add(0, at, y),
            x.t().contiguous().index_add(1, at, y.t().contiguous()),
            x.scatter_add(0, at[:, None].expand(300, 3).contiguous(), y),
        )

    check(sums, x, y, gradients=False, tolerance=1e-4 if dtype is numod.complex64 else 1e-12)
    assert machine.last[1] * machine.last[2] >= 900  # threads


def test_sums_by_index_in_order_where_asked_for() -> None:
    y, places = made(300, 3), numod.randint(0, 7, (300,))

    def sums(device: str) -> list:
        moved, r = y.to(device), places.to(device)
        return [
            numod.zeros(7, 3, device=device).index_add_(0, r, moved).tolist(),
            numod.zeros(7, 3, device=device).scatter_add_(0, r[:, None].expand(300, 3).contiguous(), moved).tolist(),
            numod.ones(7, 3, device=device)
            .scatter_reduce(0, r[:, None].expand(300, 3).contiguous(), moved, "prod")
            .tolist(),
        ]

    # the machine's last threads add first
    assert all(actual != expected for actual, expected in zip(sums("cuda"), sums("cpu")))
    try:
        numod.use_deterministic_algorithms(True)
        assert sums("cuda") == sums("cpu")
    finally:
        numod.use_deterministic_algorithms(False)
    assert sums("cuda") != sums("cpu")


@pytest.mark.parametrize("n", [1, 33, 1000, 5000])
@pytest.mark.parametrize("dtype", [numod.float32, numod.int64], ids=str)
def test_order(n: int, dtype: numod.dtype) -> None:
    x = (made(3, n) * 5).to(dtype)
    if dtype is numod.float32 and n > 9:
        x[1, 4:9] = numod.tensor([float("nan"), 0.0, -0.0, float("inf"), float("nan")])
    k = min(n, 7)
    check(
        lambda x: (
            *x.sort(1),
            *x.sort(1, descending=True),
            *x.topk(k),
            x.kthvalue(1 + n // 2, 1)[0],
            *x.cummax(1),
            x.cumsum(1) if dtype is numod.int64 else x.nan_to_num(0, 0).cumsum(1),
        ),
        x,
        gradients=False,
        tolerance=1e-4,
    )
    if n < 2000:
        check(
            lambda x: (
                x.median(1)[0],
                x.nanmedian(1)[0],
                x.gather(1, x.median(1, True)[1]),
                x.median(),
                (x / (x[:1] * 0)).nanmedian(0)[0],
            ),
            x,
            gradients=False,
        )
    if dtype is numod.int64:
        check(
            lambda x: (
                *x.unique(return_inverse=True, return_counts=True),
                *x.mode(1),
                numod.searchsorted(x[0].sort()[0], x),
            ),
            x,
            gradients=False,
        )


@pytest.mark.parametrize("dtype", [numod.float32, numod.float64], ids=str)
def test_long_rows_sorted_by_digits(dtype: numod.dtype, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_digits, "suits", lambda *_: True)  # of less than what it is faster for
    x = (made(2, 9001) * 9).abs().to(dtype)
    if dtype is numod.float32:
        x[1, 4000:4005] = numod.tensor([float("nan"), 0.0, -0.0, float("inf"), float("nan")])
        x[0] = x[0].round()  # of many equal ones
    before = {kernel.name for kernel in machine.kernels}
    check(lambda x: (*x.sort(1), *x.sort(1, descending=True)), x, gradients=False)
    assert any("move_digits" in name for name in {kernel.name for kernel in machine.kernels} - before)
    result = counted(machine, x.cuda().sort)
    assert (
        result["shared loads passes"] <= 3 * result["shared loads"]
        and result["shared stores passes"] <= 4 * result["shared stores"]
    )


def test_running_totals() -> None:
    x = made(2, 3000)
    check(lambda x: (x.cumsum(1), x.logcumsumexp(1), x.cumsum(0)), x, tolerance=1e-3)
    check(lambda x: ((1 + x * 0.001).cumprod(1), *x.cummin(1)), x, tolerance=1e-3, gradients=False)
    x = made(70003).round()  # in parts
    x[50000] = float("nan")
    check(
        lambda x: (
            *x.cummax(0),
            *x[1:].cummin(0),
            x[:49999].cumsum(0),
            x[2:20001].long().cumsum(0),
            x[1:20001].logcumsumexp(0),
        ),
        x,
        gradients=False,
    )


def test_random_numbers_are_those_of_the_cpu() -> None:
    for make, exact in (
        (numod.rand, True),
        (numod.randn, False),
        (lambda *n, **where: numod.randint(0, 1000, n, **where), True),
        (lambda n, **where: numod.zeros(n, **where).bernoulli_(0.3), True),
        (lambda n, **where: F.dropout(numod.ones(n, **where), 0.4), True),
    ):
        results = []
        for device in ("cuda", "cpu"):
            numod.manual_seed(7)
            results.append(make(1033, device=device))
        same(*results, 0 if exact else 1e-6)
    for make, rates in (
        (numod._standard_gamma, [0.3, 2.0, 40.0]), (numod.poisson, [0.3, 4.0, 40.0]), (lambda p: numod.binomial(numod.full_like(p, 50.0), p), [0.1, 0.7, 0.4]),
    ):  # fmt: skip
        results = []
        for rate in (numod.tensor(rates).cuda(), numod.tensor(rates)):
            numod.manual_seed(3)
            results.append(make(rate))
        same(*results)


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD"]
)
def test_optimizers(name: str, machine: Machine) -> None:
    numod.manual_seed(0)
    x, y = made(37, 5), numod.arange(37) % 3
    model = nn.Sequential(nn.Linear(5, 14), nn.Tanh(), nn.Linear(14, 3))
    twin = copy.deepcopy(model).to("cuda")
    for network, inputs, target in ((model, x, y), (twin, x.cuda(), y.cuda())):
        optimizer = getattr(numod.optim, name)(
            network.parameters(), lr=0.01, **({"momentum": 0.9, "nesterov": True} if name == "SGD" else {})
        )
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(network(inputs), target).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            launches = machine.calls["cuLaunchKernelEx"]
            optimizer.step()
        # one for all parameters, once their state is there
        assert machine.calls["cuLaunchKernelEx"] - launches == (network is twin)
    for actual, expected in zip(twin.parameters(), model.parameters()):
        same(actual, expected, 1e-4)


def test_new_tensors_are_on_the_device() -> None:
    sequences = made(3, 2, 4)
    lstm = nn.LSTM(4, 3, bias=False)
    packed = nn.utils.rnn.pack_padded_sequence(sequences, [3, 2])
    assert numod.tensor(1.0).cuda().nonzero().is_cuda and sequences.cuda().share_memory_().is_shared()
    with numod.device("cuda"):
        assert numod.get_rng_state().device.type == "cpu"
        assert numod.func.vmap(lambda x: x * 2)(numod.ones(3)).tolist() == [2, 2, 2]
        ends = nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_sequence([numod.ones(3, 2), numod.ones(2, 2)]))
        assert ends[0].is_cuda and not ends[1].is_cuda
        here = lstm(packed)[0].data  # a network of the CPU's
    same(copy.deepcopy(lstm).cuda()(packed.to("cuda"))[0].data, here)


def test_a_compiled_step() -> None:
    numod.manual_seed(0)
    x, y = made(7, 1, 8, 9), numod.arange(7) % 3
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, bias=False),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 3),
    )
    twin = copy.deepcopy(model).to("cuda")
    losses = []
    for network, inputs, target in ((model, x, y), (twin, x.cuda(), y.cuda())):
        optimizer = numod.optim.AdamW(network.parameters(), lr=0.01)

        @numod.compile
        def step(
            inputs: numod.Tensor, target: numod.Tensor, network: nn.Module = network, optimizer: object = optimizer
        ) -> numod.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(network(inputs), target)
            loss.backward()
            optimizer.step()
            return loss

        losses.append([step(inputs, target) for _ in range(3)])
    for expected, actual in zip(*losses):
        same(actual, expected, 1e-4)
    for result, expected in zip(twin.state_dict().values(), model.state_dict().values()):
        same(result, expected, 1e-3)


def test_an_index_out_of_bounds_is_reported() -> None:
    x = made(5, 3).cuda()
    with pytest.raises(IndexError, match="CUDA_LAUNCH_BLOCKING"):
        x[numod.tensor([7]).cuda()].cpu()
    same(x + 0, x.cpu())


def test_checks_of_values_are_told_in_compiled_functions_too(machine: Machine) -> None:
    x, attention_weights = numod.arange(6).cuda(), numod.full((3,), 0.5, device="cuda")
    for function, right, wrong, message in (
        (lambda n: x // n, x + 1, x, "ZeroDivisionError"),
        (
            lambda p: F.binary_cross_entropy(p, attention_weights),
            attention_weights,
            attention_weights * 3,
            "between 0 and 1",
        ),
    ):
        for use in (function, numod.compile(function)):
            expected = use(right)
            copies = machine.calls["cuMemcpyDtoH_v2"]
            same(use(right), expected.cpu())
            assert machine.calls["cuMemcpyDtoH_v2"] == copies + 2  # what `same` reads: nothing waits for the check
            with pytest.raises(RuntimeError, match=message):
                use(wrong).cpu()


def counted(machine: Machine, function: Callable) -> Counter:
    """Instructions and memory traffic of what `function` launches, its kernels built before."""
    function()
    machine.counts = Counter()
    try:
        function()
        return machine.counts
    finally:
        machine.counts = None


def test_neighbouring_threads_share_sectors(machine: Machine) -> None:
    x = made(256, 128).cuda()
    least = x.numel() * 4 // 32
    copied = counted(machine, x.clone)
    assert copied["global loads sectors"] == copied["global stores sectors"] == least
    for view in (x.t(), x.reshape(16, 16, 128).permute(0, 2, 1), x.reshape(16, 16, 128).permute(2, 0, 1)):
        transpose_copies = counted(machine, view.contiguous)
        assert (
            transpose_copies["global loads sectors"] == 2 * least and transpose_copies["global stores sectors"] == least
        )
    places, images = numod.arange(256, device="cuda").flip(0), made(4, 3, 32, 32).cuda()
    # the indices are written, too, when they were checked
    assert counted(machine, lambda: x.index_select(0, places))["global stores sectors"] == least + 256 * 8 // 32
    # the four elements of a window in turn, which the L1 cache holds
    assert counted(machine, lambda: F.max_pool2d(images, 2))["global loads sectors"] <= 5 * images.numel() * 4 // 32
    assert (
        counted(machine, lambda: F.adaptive_avg_pool2d(images, 1))["global loads sectors"] == images.numel() * 4 // 32
    )
    pooled = F.max_pool2d(images.requires_grad_(), 3, 2, 1)
    back = counted(machine, lambda: numod.autograd.grad(pooled, images, pooled.detach(), retain_graph=True))
    # of two lines three windows, and both arrays
    assert (
        back["global stores sectors"] == images.numel() * 4 // 32
        and back["global loads"] <= 2 * 3 * 2 * images.numel() // 128
    )
    summed = counted(machine, lambda: x.sum(1))
    assert summed["global loads sectors"] == least and summed["shared loads passes"] == summed["shared loads"]


def test_four_elements_at_once(machine: Machine) -> None:
    x, y = made(4099).cuda(), made(4099, dtype=numod.float16).cuda()
    for n in (4096, 3):
        actual = counted(machine, lambda n=n: x[:n] * 2)
        assert (actual["global loads"], actual["global stores"]) == ((n // 128,) * 2 if n > 3 else (1, 1))
    for first in range(1, 5):  # places that are no multiples of 16 bytes, unless that is 4
        same(
            x[first:4091] * y[8 - first : 4099 - 2 * first], x.cpu()[first:4091] * y.cpu()[8 - first : 4099 - 2 * first]
        )
    z = x.clone()
    z[1:4098] *= y[2:]
    z[3:10] = 7
    expected = x.cpu().clone()
    expected[1:4098] *= y.cpu()[2:]
    expected[3:10] = 7
    same(z, expected)


def test_running_totals_read_and_write_four_elements_at_once(machine: Machine) -> None:
    x = made(8, 1024).cuda()
    # places take twice as many bytes, and accesses
    for function, results in ((lambda: x.cumsum(1), 1), (lambda: x.cummax(1), 3)):
        result = counted(machine, function)
        # the second time from the L1 cache
        assert (result["global loads"], result["global stores"]) == (2 * x.numel() // 128, results * x.numel() // 128)
        # of eight bytes a thread: no bank is waited for
        assert results > 1 or result["shared loads passes"] <= 2 * result["shared loads"]
    y = made(3, 1029).cuda()
    check(
        lambda y: (y[:, 1:].cumsum(1), *y[:, 2:].cummax(1), y[:, 1:1026].long().cumsum(1)),
        y.cpu(),
        tolerance=1e-4,
        gradients=False,
    )


def test_sums_read_four_elements_at_once(machine: Machine) -> None:
    x = made(70003).cuda()
    for n in (1 << 16, 70001):
        # of the last elements of sixteen blocks, one each
        assert counted(machine, x[:n].sum)["global loads"] <= n // 128 + 8 * 16 * 32
        for start in (0, 1, 2):
            check(lambda x: (x.sum(), x.amax(), (x * x).sum(), (x > 1).any()), x[start:n].cpu(), gradients=False)
    check(
        lambda x: (x.sum(1), x[:, 1:].prod(1), x[:, 2:2000].mean(1), x.sum((0, 1))),
        made(5, 2049) * 0.01 + 1,
        gradients=False,
    )


@pytest.mark.parametrize("dtype", [numod.float32, numod.complex64], ids=str)
def test_fourier_transforms(dtype: numod.dtype) -> None:
    x = made(3, 60, 5).to(dtype)
    check(lambda x: numod.fft.fft(x, dim=1), x, tolerance=1e-3, gradients=False)
    check(lambda x: numod.fft.irfft(x[..., :9], n=17), x.transpose(1, 2), tolerance=1e-3, gradients=False)
    check(
        lambda x: (numod.fft.ifft(x), numod.fft.irfft(x, n=80), numod.fft.rfft(x.real, n=50)),
        x.reshape(15, 60),
        tolerance=1e-3,
        gradients=False,
    )
    check(lambda x: numod.fft.rfft2(x.real), x, tolerance=1e-3, gradients=False)


@pytest.mark.parametrize("dtype", [numod.float32, numod.complex64], ids=str)
def test_factorizations(dtype: numod.dtype) -> None:
    a, b = made(18, 18).to(dtype), made(18, 3).to(dtype)  # a panel of 16 columns, and 2
    a = a + 1j * made(18, 18).tril() if dtype.is_complex else a
    p = a @ a.mH + 18 * numod.eye(18)
    functions = (
        lambda p, b: numod.linalg.cholesky(p), lambda p, b: numod.linalg.lu_solve(*numod.linalg.lu_factor(p), b),
        lambda p, b: numod.linalg.qr(p[:, :5]),
        lambda p, b: numod.linalg.eigvalsh(p[:4, :4]), lambda p, b: numod.linalg.pinv(p[:5, :3]),
    )  # fmt: skip
    for function in functions:
        check(function, p, b, tolerance=1e-3, gradients=False)


@pytest.mark.parametrize("dtype", [numod.float32, numod.complex64], ids=str)
def test_large_factorizations(dtype: numod.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several blocks for a matrix: panels of 32 columns and 5; runs of four rows, of which the last has one."""
    monkeypatch.setattr(linalg_cuda, "_SHARED_COLUMNS", 20)
    monkeypatch.setattr(linalg_cuda, "_JACOBI_ROWS", 4)
    a, b = made(37, 37).to(dtype), made(37, 3).to(dtype)
    a = a + 1j * made(37, 37).tril() if dtype.is_complex else a
    check(lambda p: numod.linalg.cholesky(p), a @ a.mH + numod.eye(37), tolerance=1e-3, gradients=False)
    for matrix in (a[:34], numod.stack((a[:26, :21], a[3:29, :21])))[: 1 if dtype.is_complex else 2]:
        actual, expected = numod.linalg.lu_factor(matrix.cuda()), numod.linalg.lu_factor(matrix)
        same(actual[1], expected[1])
        same(actual[0], expected[0], 1e-3)
    check(lambda a, b: numod.linalg.solve(a, b), a, b, tolerance=1e-3, gradients=False)
    for matrix in (a[:26, :21], numod.stack((a[:21], a[3:24]))[..., :27])[: 1 if dtype.is_complex else 2]:
        values = numod.linalg.svdvals(matrix.to(numod.complex128 if dtype.is_complex else numod.float64))
        u, actual, v = (tensor.cpu() for tensor in numod.linalg.svd(matrix.cuda(), full_matrices=False))
        assert ((actual - values).abs().amax() / values.amax() < 4e-7) and (
            (u * actual.unsqueeze(-2)) @ v - matrix
        ).abs().max() < 2e-5
        assert (u.mH @ u - numod.eye(21)).abs().max() < 1e-5
    for matrix in (a[:21, :21] + a[:21, :21].mH, numod.zeros(21, 21, dtype=dtype), -numod.ones(21, 21, dtype=dtype))[
        : 1 if dtype.is_complex else 3
    ]:
        expected = numod.linalg.eigvalsh(matrix.to(numod.complex128 if dtype.is_complex else numod.float64))
        values, vectors = (tensor.cpu() for tensor in numod.linalg.eigh(matrix.cuda()))
        same(numod.linalg.eigvalsh(matrix.tril().cuda()), values, 1e-5)
        assert (values - expected).abs().max() <= 8e-7 * expected.abs().max()
        assert (matrix @ vectors - vectors * values).abs().max() < 1e-4 and (
            vectors.mH @ vectors - numod.eye(21)
        ).abs().max() < 5e-6
    with pytest.raises(numod.linalg.LinAlgError, match="minor of order 36"):
        numod.linalg.cholesky(numod.diag(numod.cat((numod.ones(35), numod.tensor([-1.0, 1.0])))).to(dtype).cuda())
    for function in (numod.linalg.svdvals, numod.linalg.eigh):
        with pytest.raises(numod.linalg.LinAlgError, match="failed to converge"):
            function(numod.full((21, 21), float("nan"), dtype=dtype).cuda())
