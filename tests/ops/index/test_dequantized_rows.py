"""Rows of tables of small integers as floats, against NumPy."""

import numpy as np
import pytest

import numod as torch
from numod.ops.index.dequantized_rows import dequantized_rows

pytestmark = pytest.mark.on_cuda
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("rows", [0, 1, 9])
@pytest.mark.parametrize("columns", [4, 40])
@pytest.mark.parametrize("dtype, bits", [("uint8", 8), ("int8", 8), ("uint8", 4), ("uint8", 2)])
def test_rows(dtype, bits, columns, rows):
    low = -128 if dtype == "int8" else 0
    integers = RANDOM.integers(low, low + 2**bits, (7, columns))
    shifts = np.arange(0, 8, bits)
    table = (integers.reshape(7, -1, len(shifts)) << shifts).sum(2).astype(dtype)
    scale, zero = RANDOM.random((2, 7)).astype("float32") * [[0.1], [9]]
    scale, zero, index = scale.astype("float32"), zero.astype("float32"), RANDOM.integers(0, 7, rows)
    result = dequantized_rows.apply(tuple(map(torch.tensor, (table, scale, zero, index))), (bits,))
    expected = (integers[index].astype("float32") - zero[index, None]) * scale[index, None]
    assert result.dtype is torch.float32 and np.array_equal(result.cpu().numpy(), expected)


def test_what_is_no_table():
    table = torch.zeros(2, 3, dtype=torch.int8)
    assert "in uint8" in dequantized_rows.check((table,), (4,), {})
    assert "2, 4 or 8" in dequantized_rows.check((table,), (3,), {})


@pytest.mark.on_cuda(gpu=False, simulator=False)
@pytest.mark.parametrize("dtype", [torch.quint8, torch.quint4x2])
@pytest.mark.parametrize("columns", [6, 5])  # five integers of 4 bits end within a byte
def test_lookups_are_the_dequantized_rows(dtype, columns):
    values, scale = torch.tensor(RANDOM.standard_normal((8, columns))), torch.tensor(RANDOM.random(8)) + 0.1
    weight = torch.quantize_per_channel(values.float(), scale, scale * 3, 0, dtype)
    layer = torch.nn.quantized.Embedding(8, columns, _weight=weight, dtype=dtype)
    for index in (torch.tensor([[3, 0], [7, 7]]), torch.tensor([1], dtype=torch.int32), torch.tensor(2)):
        assert (layer(index) == weight.dequantize()[index.long()]).all()
    compiled = torch.compile(layer)
    assert (compiled(torch.tensor([4, 1])) == weight.dequantize()[[4, 1]]).all()
    for outside in (8, -1):
        with pytest.raises(RuntimeError, match=f"quantized embedding: index {outside} is out of bounds"):
            layer(torch.tensor([outside]))
    with pytest.raises(RuntimeError, match="found Short instead"):
        layer(torch.tensor([1], dtype=torch.int16))


@pytest.mark.on_cuda(gpu=False, simulator=False)
def test_tables_whose_rows_have_no_scales():
    """The kernel would read beyond the scales."""
    values, ones, zeros = torch.zeros(8, 4), torch.ones(4), torch.zeros(4)
    for weight in (
        torch.quantize_per_channel(values, ones, zeros, 1, torch.quint8),
        torch.quantize_per_channel(values, ones, zeros, 1, torch.quint4x2),
        torch.quantize_per_tensor(values, 0.5, 0, torch.quint8),
        torch._make_per_channel_quantized_tensor(values.to(torch.uint8), ones, zeros, 0),
    ):
        with pytest.raises(RuntimeError, match="scales and zero points of its 8 rows"):
            torch.nn.quantized.Embedding(8, 4, _weight=weight)(torch.tensor([7]))


@pytest.mark.on_cuda(gpu=False, simulator=False)
def test_a_table_without_rows():
    layer = torch.nn.quantized.Embedding(0, 4)
    assert layer(torch.zeros(0, dtype=torch.int64)).shape == (0, 4)
    with pytest.raises(RuntimeError, match="out of bounds"):
        layer(torch.tensor([0]))
