"""float16 and bfloat16: conversions bit by bit, arithmetic in float32 rounded once, and ops that have only float32
loops.
"""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import numod
from numod import dtypes, nn

pytestmark = pytest.mark.on_cuda

HALVES = [numod.float16, numod.bfloat16]


def bfloat16_bits(x: np.ndarray) -> np.ndarray:
    """The bfloat16 bits nearest to float32 numbers (not NaN), halves to even: by exact arithmetic in float64."""
    bits = x.view(np.uint32).astype(np.uint64)
    low, up = bits & 0xFFFF, bits >> 16
    return (up + ((low > 0x8000) | ((low == 0x8000) & (up & 1 == 1)))).astype(np.uint16)


@pytest.mark.on_cuda(simulator=False)
def test_every_float16_becomes_its_float32() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(numod.from_numpy(bits).float().numpy(), bits.astype(np.float32))


@pytest.mark.on_cuda(simulator=False)
def test_every_bfloat16_survives_float32() -> None:
    numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    back = numod.from_numpy(numbers).bfloat16().float().numpy()
    np.testing.assert_array_equal(back, numbers)


@pytest.mark.cpu_only
def test_rounding_of_float32() -> None:
    x = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate(
        [
            x[np.isfinite(x)],
            np.float32([0, -0.0, 65504, 65519.99, 65520, 1e-8, 2**-24, 2**-25, 6.1e-5, np.inf, -np.inf]),
        ]
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(numod.from_numpy(x).half().numpy(), x.astype(np.float16))
    result = pickle.loads(pickle.dumps(numod.from_numpy(x).bfloat16())).float().numpy().view(np.uint32) >> 16
    np.testing.assert_array_equal(result, bfloat16_bits(x))


@pytest.mark.parametrize("dtype", HALVES)
def test_ops_round_float32_results_once(dtype: numod.dtype) -> None:
    numod.manual_seed(0)
    a, b = numod.randn(5, 6).to(dtype), numod.randn(5, 6).to(dtype)
    for op in [
        lambda x, y: x + y, lambda x, y: (x * y).exp(), lambda x, y: x @ y.T, lambda x, y: x.sum(0), lambda x, y: x.mean(), lambda x, y: x.softmax(-1),
        lambda x, y: numod.cat([x, y], 1), lambda x, y: x.amax(1), lambda x, y: x.cumsum(1)[:, :1], lambda x, y: x[x > 0], lambda x, y: x[1:, ::2], lambda x, y: x.norm(),
        lambda x, y: nn.functional.mse_loss(x, y), lambda x, y: x.gather(1, numod.tensor([[0]])), lambda x, y: x.index_add(0, numod.tensor([1, 1]), y[:2]),
    ]:  # fmt: skip
        result, wide = op(a, b), op(a.float(), b.float())
        assert result.dtype is dtype
        assert numod.equal(result, wide.to(dtype)) or numod.allclose(
            result.float(), wide, rtol=2 * numod.finfo(dtype).eps
        )
    assert (a > b).tolist() == (a.float() > b.float()).tolist()
    assert a.argmax().item() == a.float().argmax().item()


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("dtype", HALVES)
def test_a_network_trains(dtype: numod.dtype) -> None:
    numod.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)
    x, y = numod.randn(16, 4).to(dtype), numod.zeros(16, 1, dtype=dtype)
    optimizer = numod.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert net[0].weight.grad.dtype is dtype and losses[-1] < losses[0] / 4


@pytest.mark.parametrize("dtype", HALVES)
def test_in_place_and_copies(dtype: numod.dtype) -> None:
    x = numod.ones(4, dtype=dtype)
    x.add_(0.5).mul_(2)
    x[1] = 7
    x.index_add_(0, numod.tensor([0, 0]), numod.ones(2, dtype=dtype))
    assert x.tolist() == [5.0, 7.0, 3.0, 3.0] and x.sum().item() == 18.0
    assert copy.deepcopy(x).tolist() == pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    assert numod.tensor(x.tolist(), dtype=dtype).element_size() == 2


def test_promotion() -> None:
    assert numod.promote_types(numod.float16, numod.bfloat16) is numod.float32
    assert numod.promote_types(numod.float16, numod.int64) is numod.float16
    assert numod.promote_types(numod.bfloat16, numod.float64) is numod.float64
    assert (numod.ones(2, dtype=numod.half) + 1.5).dtype is numod.float16
    assert (numod.ones(2, dtype=numod.half) + numod.ones(2)).dtype is numod.float32


@pytest.mark.cpu_only
def test_printing_and_limits() -> None:
    assert repr(numod.tensor([1.5, 2.25], dtype=numod.bfloat16)) == "tensor([1.5000, 2.2500], dtype=numod.bfloat16)"
    assert repr(numod.tensor([1.0, 2.0]).half()) == "tensor([1., 2.], dtype=numod.float16)"
    limits = numod.finfo(numod.bfloat16)
    assert (limits.bits, limits.eps, limits.max) == (16, 0.0078125, 3.3895313892515355e38)


@pytest.mark.on_cuda(gpu=False)
def test_errors_are_clear() -> None:
    with pytest.raises(TypeError, match=r"unsupported ScalarType BFloat16.*\.float\(\)"):
        numod.ones(2, dtype=numod.bfloat16).numpy()
    with pytest.raises(RuntimeError, match="same dtype"):
        numod.ones(2, 2, dtype=numod.half) @ numod.ones(2, 2)


@pytest.mark.parametrize("dtype", HALVES)
def test_moved_elements_keep_their_bits(dtype: numod.dtype) -> None:
    """The 16 bits of NaNs among them, which conversions would change."""
    bits = np.random.default_rng(3).integers(0, 1 << 16, (20, 33)).astype(np.uint16)
    x = numod.from_numpy(bits.view(np.int16)).view(dtype)

    def bits_of(y: numod.Tensor) -> np.ndarray:
        return y.contiguous().view(numod.int16).numpy().view(np.uint16)

    np.testing.assert_array_equal(bits_of(x.mT), bits.T)
    np.testing.assert_array_equal(bits_of(x[:, ::2]), bits[:, ::2])
    np.testing.assert_array_equal(bits_of(numod.cat([x, x.flip(0)], 1)), np.concatenate([bits, bits[::-1]], 1))
    np.testing.assert_array_equal(bits_of(x.roll(5, 1)), np.roll(bits, 5, 1))
    one = numod.tensor(1.0, dtype=dtype).view(numod.int16).item()
    np.testing.assert_array_equal(
        bits_of(numod.nn.functional.pad(x, (2, -1, 0, 1), value=1.0)),
        np.pad(bits[:, :-1], ((0, 1), (2, 0)), constant_values=one),
    )


def test_sums_written_to_a_wider_tensor_are_rounded_first() -> None:
    x = numod.tensor([33000.0], dtype=numod.float16)
    assert numod.add(x, x, out=numod.empty(1, dtype=numod.float64)).item() == float("inf")


def test_reductions_are_taken_in_the_dtype_of_what_they_are_written_to() -> None:
    x = numod.tensor([40000.0, 40000.0], dtype=numod.float16)
    assert (
        numod.sum(x, 0, out=numod.empty((), dtype=numod.float32)).item() == 80000
        and numod.cumsum(x, 0, out=numod.empty(2, dtype=numod.float32))[1].item() == 80000
    )
    assert numod.sum(numod.tensor([2**62, 2**62]), 0, out=numod.empty((), dtype=numod.float64)).item() == 2.0**63


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_all_halves_are_rounded_as_numpy_rounds_them(name: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[~np.isnan(every)]
    actual, expected = getattr(numod, name)(numod.tensor(every)).numpy(), getattr(np, name)(every)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


@pytest.mark.parametrize("dtype", HALVES)
def test_products_of_vectors_are_summed_wide(dtype: numod.dtype) -> None:
    ones, small = numod.ones(5000, dtype=dtype, requires_grad=True), numod.full((5000,), 0.5, dtype=dtype)
    total = ones.dot(small)
    total.backward()
    assert (
        total.dtype is dtype and total.item() == 2496 + 4 * (dtype is numod.float16) and numod.equal(ones.grad, small)
    )


@pytest.mark.parametrize("name", sorted(dtypes.ABSENT))
def test_dtypes_without_tensors_are_names_that_say_so(name: str) -> None:
    kind = getattr(numod, name)
    assert isinstance(kind, numod.dtype) and repr(kind) == f"numod.{name}" and kind not in dtypes.ALL.values()
    assert copy.deepcopy(kind) is kind is pickle.loads(pickle.dumps(kind)) and not hasattr(kind, "nothing")
    numod.save({"kind": kind}, file := io.BytesIO())
    file.seek(0)
    assert numod.load(file)["kind"] is kind
    x = numod.ones(2)
    for use in (
        lambda: x.to(kind), lambda: x.view(kind), lambda: numod.zeros(2, dtype=kind), lambda: numod.arange(3, dtype=kind), lambda: x.sum(dtype=kind),
        lambda: numod.nn.Linear(2, 2).to(kind), lambda: numod.promote_types(kind, numod.float32), lambda: numod.set_default_dtype(kind), lambda: x.type(kind),
    ):  # fmt: skip
        with pytest.raises(
            TypeError, match=f"numod has no tensors of dtype {name}; use numod|only floating-point types"
        ):
            use()


@pytest.mark.cpu_only
def test_limits_of_dtypes_without_tensors() -> None:
    largest = {
        "float8_e4m3fn": 1.75 * 2**8,
        "float8_e4m3fnuz": 1.875 * 2**7,
        "float8_e8m0fnu": 2.0**127,
        "float8_e5m2": 1.75 * 2**15,
    }
    for name, value in largest.items():
        assert numod.finfo(getattr(numod, name)).max == value and numod.finfo(getattr(numod, name)).bits == 8
    assert [numod.iinfo(getattr(numod, f"uint{bits}")).max for bits in (16, 32, 64)] == [
        2**16 - 1,
        2**32 - 1,
        2**64 - 1,
    ]
    with pytest.raises(TypeError, match="use numod.finfo"):
        numod.iinfo(numod.float8_e5m2)
