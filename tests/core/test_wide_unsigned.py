"""uint16, uint32 and uint64: what PyTorch does with them, and what it refuses."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

import numod
from numod.serialization.safetensors import load_file, save_file

KINDS = [numod.uint16, numod.uint32, numod.uint64]
wide = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def example(kind: numod.dtype) -> tuple[numod.Tensor, np.ndarray]:
    """Numbers up to the greatest one, as a tensor and as an array."""
    values = np.array([[3, np.iinfo(kind.name).max, 0], [7, np.iinfo(kind.name).max // 2 + 1, 3]], kind.name)
    return numod.from_numpy(values.copy()), values


@wide
def test_creation_and_limits(kind: numod.dtype) -> None:
    greatest = 2 ** (8 * kind.itemsize) - 1
    assert numod.iinfo(kind).max == greatest and numod.iinfo(kind).min == 0 and not kind.is_signed
    assert numod.tensor([greatest, 1], dtype=kind).tolist() == [greatest, 1]
    assert numod.full((1,), -1, dtype=kind).item() == greatest
    assert numod.zeros(2, dtype=kind).sum().dtype is numod.int64
    assert repr(numod.tensor([greatest], dtype=kind)) == f"tensor([{greatest}], dtype=numod.{kind.name})"
    assert numod.randint(0, 9, (5,), dtype=kind).dtype is kind
    with pytest.raises((RuntimeError, OverflowError)):
        numod.tensor([greatest + 1], dtype=kind)
    with pytest.raises(RuntimeError, match="floating point"):
        numod.zeros(1, dtype=kind, requires_grad=True)


def test_uint64_values_are_python_ints() -> None:
    for values, error in (([-1], OverflowError), ([1.5], TypeError), ([2**64], OverflowError)):
        with pytest.raises(error):
            numod.tensor(values, dtype=numod.uint64)


@wide
def test_conversions(kind: numod.dtype) -> None:
    x, array = example(kind)
    for target in ("float32", "float64", "int64", "uint8", "uint16", "uint64", "bool", "complex64"):
        assert np.array_equal(x.to(getattr(numod, target)).numpy(), array.astype(target)), target
    floats = numod.tensor([-1.0, 3.7, 300.0], dtype=numod.float64)
    assert floats.to(kind).tolist() == [numod.iinfo(kind).max, 3, 300]
    assert x.view(numod.uint8).shape == (2, 3 * kind.itemsize)
    assert np.from_dlpack(x).dtype == array.dtype and numod.from_dlpack(array).dtype is kind


def test_floats_from_2_to_the_63_on_become_uint64() -> None:
    x = numod.tensor([1e19, 2.0**63, -1.0, float("inf")], dtype=numod.float64)
    assert x.to(numod.uint64).tolist() == [10**19, 2**63, 2**64 - 1, 0]


@wide
def test_arithmetic_comparison_and_order(kind: numod.dtype) -> None:
    (x, a), (y, b) = example(kind), (example(kind)[0].flip(0), example(kind)[1][::-1])
    for ours, numpys in (
        (x * y, a * b), (x & y, a & b), (x | y, a | b), (x ^ y, a ^ b), (x == y, a == b), (x != 3, a != 3),
        (numod.where(x == y, x, y), np.where(a == b, a, b)), (x.sort().values, np.sort(a)), (x.unique(), np.unique(a)),
        (x.sort(descending=True).values, np.sort(a)[:, ::-1]), (numod.cat([x, y]), np.concatenate([a, b])),
        (x[:, 1:], a[:, 1:]), (x[x == 3], a[a == 3]), (x[numod.tensor([1, 0])], a[[1, 0]]), (x.roll(1, 0), np.roll(a, 1, 0)),
        (x.any(1), a.any(1)), (x.all(1), a.all(1)), (x.repeat(2, 1), np.tile(a, (2, 1))), (x.t().contiguous(), a.T),
    ):  # fmt: skip
        assert np.array_equal(ours.numpy(), numpys)
    assert x.clone().mul_(2).dtype is kind and (x / 2).dtype is numod.float32
    assert numod.tensor([1, 2, 3], dtype=kind).sum().item() == 6 and x.cumsum(0).dtype is numod.int64


@wide
def test_other_operations_are_refused(kind: numod.dtype) -> None:
    x, _ = example(kind)
    for use in (
        lambda: x + 1, lambda: x - x, lambda: x // 2, lambda: x % 2, lambda: x < 2, lambda: x.max(), lambda: x.argmax(),
        lambda: ~x, lambda: -x, lambda: x << 1, lambda: abs(x), lambda: x @ x.t(), lambda: x.clamp(1, 2), lambda: x**2,
        lambda: numod.arange(3, dtype=kind), lambda: numod.maximum(x, x), lambda: x.scatter(0, x.long() * 0, x),
        lambda: numod.ones(2).sum(dtype=kind), lambda: x.gather(0, x.long() * 0), lambda: x.clone().add_(1),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match="not implemented for 'UInt"):
            use()
    with pytest.raises(RuntimeError, match="Got: UInt"):
        x.mean()
    with pytest.raises(IndexError):
        numod.arange(4)[numod.tensor([1], dtype=kind)]


@wide
def test_scalars_as_indices(kind: numod.dtype) -> None:
    x, index = numod.arange(10), numod.tensor(3, dtype=kind)
    assert x[index].item() == 3 and numod.eye(5)[index, numod.tensor([1, 3])].tolist() == [0, 1]
    x[index] = 7
    assert x.tolist() == [0, 1, 2, 7, *range(4, 10)]
    assert numod.compile(lambda x, k: x[k] + 1)(x, index).item() == 8
    with pytest.raises(IndexError, match="out of (bounds|range)"):  # 2**64 - 1 is no -1
        x[numod.full((), -1, dtype=kind)]


@wide
def test_draws_need_a_bound(kind: numod.dtype) -> None:
    x = numod.zeros(50, dtype=kind)
    with pytest.raises(NotImplementedError, match="pass one"):
        x.random_()
    assert set(x.random_(3).tolist()) == {0, 1, 2}


@wide
def test_products_with_complex_numbers(kind: numod.dtype) -> None:
    x = numod.tensor([1, 2**16 - 1], dtype=kind) * 1j
    assert x.dtype is numod.complex64 and x.tolist() == [1j, 65535j]


@wide
def test_promotion(kind: numod.dtype) -> None:
    for other in (numod.float16, numod.bfloat16, numod.float32, numod.float64):
        assert numod.promote_types(kind, other) is other is numod.promote_types(other, kind)
    for other in (numod.bool, numod.uint8, numod.int8, numod.int64, numod.complex64, *KINDS):
        if other is not kind:
            with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
                numod.promote_types(kind, other)
    x = numod.tensor([1, 2], dtype=kind)
    assert (x * numod.tensor(2)).dtype is kind and (x * True).dtype is kind and (x * 1.5).dtype is numod.float32
    with pytest.raises(RuntimeError, match="Promotion"):
        x * numod.ones(2, dtype=numod.int32)
    with pytest.raises(RuntimeError, match="Promotion"):
        numod.ones(2, dtype=numod.bool) * x[0]
    assert numod.result_type(x, 1j) is numod.complex64


@wide
def test_files(kind: numod.dtype, tmp_path) -> None:
    x, array = example(kind)
    numod.save({"whole": x, "row": x[1]}, file := io.BytesIO())
    file.seek(0)
    loaded = numod.load(file)
    assert numod.equal(loaded["whole"], x) and loaded["row"].dtype is kind
    assert loaded["row"].data_ptr() == loaded["whole"].data_ptr() + 3 * kind.itemsize
    save_file({"x": x}, tmp_path / "x.safetensors")
    assert numod.equal(load_file(tmp_path / "x.safetensors")["x"], x)
    np.save(tmp_path / "x.npy", x.numpy())
    assert numod.equal(numod.from_numpy(np.load(tmp_path / "x.npy")), x)
    assert numod.equal(copy.deepcopy(x), x)


@wide
def test_compiled_functions_and_programs(kind: numod.dtype) -> None:
    class Mixed(numod.nn.Module):
        def forward(self, x: numod.Tensor, y: numod.Tensor) -> tuple:
            return (x * y ^ x).sort().values, x == y, x.float() * 2, numod.where(x == y, x, y)

    x, y = example(kind)[0], example(kind)[0].flip(0)
    expected, compiled = Mixed()(x, y), numod.compile(Mixed(), fullgraph=True)
    for _ in range(2):
        for actual, wanted in zip(compiled(x, y), expected):
            assert numod.equal(actual, wanted)
    program = numod.export.export(Mixed(), (x, y))
    numod.export.save(program, file := io.BytesIO())
    file.seek(0)
    for actual, wanted in zip(numod.export.load(file).module()(x, y), expected):
        assert numod.equal(actual, wanted)
