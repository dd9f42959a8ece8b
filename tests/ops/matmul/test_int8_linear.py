"""Linear layers of integers against NumPy's 64-bit integers and formulas in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from selection import pairwise

import numod
from numod.core.apply import apply
from numod.device import target
from numod.kernel.registers import byte_tiles
from numod.ops.matmul import int8_linear

SHAPES = [(1, 5, 3), (2, 4, 64), (7, 33, 70), (1, 256, 130), (40, 101, 64), (3, 0, 4), (0, 4, 4)]
STATIC = [int8_linear.byte_linear, int8_linear.packed_byte_linear, int8_linear.packed_byte_row]
DYNAMIC = [int8_linear.dynamic_linear, int8_linear.packed_dynamic_linear]


def run(op, inputs, attributes):
    inputs = tuple(map(numod.from_numpy, inputs))
    packed = (
        (apply(int8_linear.pack_bytes, (inputs[1],), byte_tiles.packed_format(len(inputs[1]), op.compact)),)
        if len(op.inputs) == 5
        else ()
    )
    return apply(op, (*inputs, *packed), attributes)


def static_inputs(dtype, m, k, n):
    random, limits = np.random.default_rng(k), np.iinfo(dtype)
    x = random.integers(limits.min, limits.max, (m, k), dtype, endpoint=True)
    weight = random.integers(-128, 127, (n, k), "int8", endpoint=True)
    return x, weight, random.integers(-1000, 1000, n, "int32"), (random.random(n) / 200).astype("float32")


def static_reference(x, weight, offset, multiplier, zero, low, high):
    total = x.astype("int64") @ weight.astype("int64").T + offset
    return np.clip(np.rint(total.astype("float32") * multiplier) + zero, low, high)


@pytest.mark.parametrize("op, shape, limits", pairwise(
    list(STATIC), list(SHAPES), [("uint8", (3, 3, 255)), ("int8", (-4, -128, 127))], others=pytest.mark.fuzz
))  # fmt: skip
def test_integers_are_those_of_the_formula(op, shape, limits):
    dtype, attributes = limits
    inputs = static_inputs(dtype, *shape)
    result = run(op, inputs, attributes)
    assert result.dtype is getattr(numod, dtype)
    np.testing.assert_array_equal(result.numpy(), static_reference(*inputs, *attributes))


def dynamic_reference(x, weight, scale, bias, last):
    x = x.astype("float64")
    if last:
        low, high = min(x.min(), 0), max(x.max(), 0)
        step = (high - low) / last
        zero = round(-low / step)
        values = (np.clip(np.round(x / step + zero), 0, last) - zero) * step
    else:
        step = np.abs(x).max(1, keepdims=True) / 127
        values = np.clip(np.round(x / step), -127, 127) * step
    return values @ (weight * scale[:, None].astype("float64")).T + bias


@pytest.mark.parametrize("op", DYNAMIC)
@pytest.mark.parametrize("shape", SHAPES[:5])
@pytest.mark.parametrize("last", [0, 127, 255])
def test_floats_are_quantized_by_their_range(op, shape, last):
    (m, k, n), random = shape, np.random.default_rng(1)
    x = random.standard_normal((m, k)).astype("float32")
    weight = random.integers(-128, 127, (n, k), "int8", endpoint=True)
    scale, bias = (random.random(n).astype("float32") / 100 for _ in range(2))
    result = run(op, (x, weight, scale, bias), (last,)).numpy()
    # one tie of a row of x may round to the other integer in float32
    step = np.abs(x).max() * 2 / (last or 127)
    np.testing.assert_allclose(
        result, dynamic_reference(x, weight, scale, bias, last), rtol=1e-4, atol=1e-5 + step * 1.28
    )
    assert np.median(np.abs(result - dynamic_reference(x, weight, scale, bias, last))) < 1e-4


@pytest.mark.parametrize("last", [0, 127])
def test_zeros_give_the_bias(last):
    weight, scale = np.full((4, 6), 127, "int8"), np.ones(4, "float32")
    result = run(DYNAMIC[1], (np.zeros((2, 6), "float32"), weight, scale, np.arange(4, dtype="float32")), (last,))
    np.testing.assert_array_equal(result.numpy(), np.tile(np.arange(4), (2, 1)))


def test_threads_share_it_alike():
    inputs, before = static_inputs("uint8", 70, 300, 500), numod.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            numod.set_num_threads(count)
            results.append(run(STATIC[1], inputs, (3, 0, 255)))
    finally:
        numod.set_num_threads(before)
    assert (results[0] == results[1]).all()


@pytest.mark.usefixtures("without_vnni")
def test_pairs_of_sixteen_bits_give_the_same():
    inputs = static_inputs("int8", 21, 67, 60)
    result = run(int8_linear.ByteLinear("byte_linear_pairs"), inputs, (0, -128, 127))
    np.testing.assert_array_equal(result.numpy(), static_reference(*inputs, 0, -128, 127))


def test_frozen_programs_pack_the_weight_once():
    layer = numod.ao.quantization.quantize_dynamic(numod.nn.Sequential(numod.nn.Linear(32, 70)))
    x = numod.randn(3, 32)
    compiled = numod.compile(layer, options={"freezing": True}, fullgraph=True)
    assert (compiled(x) == layer(x)).all()


def test_compiled_networks_pack_weights_of_bytes_once():
    """Also without freezing, and again after a write."""
    layer = numod.ao.quantization.quantize_dynamic(numod.nn.Sequential(numod.nn.Linear(32, 70)))
    x, compiled = numod.randn(3, 32), numod.compile(layer, fullgraph=True)
    assert (compiled(x) == layer(x)).all() and "Frozen: " in compiled.explain()
    layer[0].weight()._integers.fill_(3)
    assert (compiled(x) == layer(x)).all()
    floats = numod.compile(numod.nn.Linear(32, 70).requires_grad_(False), fullgraph=True)
    floats(x)
    assert "Frozen: " not in floats.explain()


def test_calls_that_do_not_fit_are_refused_in_programs():
    from numod.ops import contract

    parts = [numod.from_numpy(part)._layout for part in static_inputs("uint8", 2, 4, 3)]
    with pytest.raises(ValueError, match="must be integers of"):
        contract.check(STATIC[0], parts, (0, -1, 255))
    contract.check(STATIC[0], parts, (0, 0, 255))


@pytest.mark.parametrize("form", [(4, 16), (4, 64), (2, 4), (2, 24)])
@pytest.mark.parametrize("shape", [(5, 3), (64, 33), (70, 8)])
def test_weights_are_packed_for_other_processors(form, shape):
    """Panels of so many columns, of words with so many bytes or 16-bit numbers, then the sums of the rows."""
    group, panel = form
    columns, inner = shape
    weight = np.random.default_rng(0).integers(-128, 127, shape, "int8", endpoint=True)
    padded = np.zeros((-(-columns // panel) * panel, -(-inner // group) * group), {4: "int8", 2: "int16"}[group])
    padded[:columns, :inner] = weight
    words = padded.view("int32").reshape(-1, panel, padded.shape[1] // group).swapaxes(1, 2)
    packed = apply(int8_linear.pack_bytes, (numod.from_numpy(weight),), form).numpy()
    np.testing.assert_array_equal(packed, [*words.flatten(), *padded.sum(1, dtype="int32")])


def test_the_format_of_this_processor_follows_from_its_features():
    machine = target.Machine(target.triple(), target.processor(), target.features())
    for columns, compact in itertools.product((1, 10, 16, 17, 48, 64, 1000), (False, True)):
        assert byte_tiles.packed_format(columns, compact, machine) == byte_tiles.packed_format(columns, compact)


def test_a_row_reads_the_packed_weight_of_rows_where_their_words_are_equal():
    parts = [numod.from_numpy(part)._layout for part in static_inputs("uint8", 3, 40, 20)]
    row = numod.zeros(1, 40, dtype=numod.uint8)._layout, *parts[1:]
    rows_packing, row_packing = (int8_linear.byte_linear.prepack(layouts, (0, 0, 255)) for layouts in (parts, row))
    are_equal = byte_tiles.group() == byte_tiles.group(compact=True)
    assert (rows_packing.op, rows_packing.attributes) == (row_packing.op, row_packing.attributes) or not are_equal
    assert row_packing.product is int8_linear.packed_byte_row
