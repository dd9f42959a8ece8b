"""Quantized tensors of 4 and 2 bits side by side with PyTorch's: bytes, values, files, embeddings, operators."""

import io

import numpy as np
import pytest

import numod

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
DTYPES = pytest.mark.parametrize("dtype", ["quint4x2", "quint2x4"])


def floats(*shape):
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 2
    values.flat[:4] = np.float32([0.45, 0.15, -0.15, 0.75])[: values.size]  # ties
    return values


def both(values):
    return (torch, torch.from_numpy(values)), (numod, numod.from_numpy(values))


def quantized(lib, x, dtype, scheme):
    kind = getattr(lib, dtype)
    if scheme == "tensor":
        return lib.quantize_per_tensor(x, 0.3, 1, kind)
    size = x.shape[int(scheme)]
    scales, zeros = (lib.arange(size) + 1.0) * 0.15, lib.arange(size) * 0.7 - 1
    return lib.quantize_per_channel(x, scales, zeros, int(scheme), kind)


@DTYPES
@pytest.mark.parametrize("scheme", ["tensor", "0", "1"])
@pytest.mark.parametrize("shape", [(3, 8), (3, 5), (1, 1), (2, 3, 4)])
def test_bytes_values_and_texts(dtype, scheme, shape):
    theirs, ours = (quantized(lib, x, dtype, scheme) for lib, x in both(floats(*shape)))
    assert np.array_equal(theirs.int_repr().numpy(), ours.int_repr().numpy())
    np.testing.assert_allclose(theirs.dequantize().numpy(), ours.dequantize().numpy(), rtol=1e-6)
    assert repr(theirs).replace("torch.", "numod.") == repr(ours)
    assert tuple(theirs.shape) == tuple(ours.shape) and theirs.stride() == ours.stride()
    assert theirs.element_size() == ours.element_size()


@DTYPES
@pytest.mark.parametrize("scheme", ["tensor", "0"])
@pytest.mark.parametrize("shape", [(4, 8), (3, 5)])
def test_files_in_both_directions(dtype, scheme, shape):
    theirs, ours = (quantized(lib, x, dtype, scheme) for lib, x in both(floats(*shape)))
    torch.save({"q": theirs}, file := io.BytesIO())
    file.seek(0)
    loaded = numod.load(file)["q"]
    assert loaded.dtype is ours.dtype and numod.equal(loaded, ours)
    numod.save({"q": ours}, file := io.BytesIO())
    file.seek(0)
    loaded = torch.load(file)["q"]
    assert loaded.dtype is theirs.dtype
    assert np.array_equal(loaded.dequantize().numpy(), theirs.dequantize().numpy())


def layers(lib, kind):
    layer = (lib.nn.Embedding if kind == "Embedding" else lib.nn.EmbeddingBag)(6, 8)
    layer.weight.data = lib.from_numpy(floats(6, 8))
    layer.qconfig = lib.ao.quantization.float_qparams_weight_only_qconfig_4bit
    return lib.ao.quantization.convert(lib.ao.quantization.prepare(lib.nn.Sequential(layer)))


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_layers_and_their_states(kind):
    theirs, ours = layers(torch, kind), layers(numod, kind)
    states = [model.state_dict() for model in (theirs, ours)]
    assert list(states[0]) == list(states[1])
    torch.save(states[0], file := io.BytesIO())
    file.seek(0)
    fresh = numod.nn.Sequential(getattr(numod.ao.nn.quantized, kind)(6, 8))
    fresh.load_state_dict(numod.load(file))
    indices = numod.tensor([[0, 5, 5], [2, 1, 3]])
    scale = 1 if kind == "Embedding" else 3  # the float bag takes means; PyTorch's quantized one sums
    numod.testing.assert_close(fresh(indices), layers(numod, kind)(indices) * scale)
    table = theirs[0].weight().dequantize().numpy()
    assert np.array_equal(table, ours[0].weight().dequantize().numpy())
    if kind == "Embedding":
        assert np.array_equal(ours(indices).numpy(), table[indices.numpy()])  # PyTorch's own layer raises here


def test_operators_of_packed_tables():
    results = []
    for lib, x in both(floats(6, 8)):
        ops, observer = lib.ops.quantized, lib.ao.quantization.default_float_qparams_observer_4bit()
        observer(x)
        packed = ops.embedding_bag_prepack(lib.quantize_per_channel(x, *observer.calculate_qparams(), 0, lib.quint4x2))
        indices, offsets = lib.tensor([1, 0, 5, 5]), lib.tensor([0, 1])
        weights = lib.tensor([1.0, 2.0, 3.0, 4.0])
        results.append(
            [
                ops.embedding_4bit(packed, indices),
                ops.embedding_bag_4bit(packed, indices, offsets),
                ops.embedding_bag_4bit(packed, indices, offsets, per_sample_weights=weights),
                ops.embedding_bag_4bit(packed, indices, lib.tensor([0, 1, 4]), include_last_offset=True),
                ops.embedding_bag_unpack(packed).dequantize(),
            ]
        )
    for theirs, ours in zip(*results, strict=True):  # PyTorch rounds scales to float16 there
        np.testing.assert_allclose(theirs.numpy(), ours.numpy(), atol=2e-2)


def odd_rows():
    rows = floats(7, 8)
    rows[0], rows[1], rows[2], rows[3], rows[4, 1] = 0, 1, rows[2] * 1e-9, rows[3] * 1e-6, 1000
    return rows


@pytest.mark.parametrize("bits", ["byte", "4bit", "2bit"])
def test_operators_of_rows_of_bytes(bits):
    results = []
    for lib, x in both(odd_rows()):
        prepack, unpack, bag = (
            getattr(lib.ops.quantized, f"embedding_bag_{bits}_{name}")
            for name in ("prepack", "unpack", "rowwise_offsets")
        )
        rows = prepack(x)
        results.append([rows, unpack(rows), bag(rows, lib.tensor([1, 4, 4, 6]), lib.tensor([0, 1])), prepack(x.half())])
    assert np.array_equal(*[part[0].numpy() for part in results])
    assert np.array_equal(*[np.delete(part[3].numpy(), 2, 0) for part in results])  # row 2 is -0.0, in float16
    for number in (1, 2):
        np.testing.assert_allclose(*[part[number].numpy() for part in results], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_searched_ranges(bits):
    for row in [*floats(8, 40), np.zeros(4, np.float32), np.full(3, 2.5, np.float32)]:
        theirs, ours = (lib.choose_qparams_optimized(x, len(row), 200, 0.16, bits) for lib, x in both(row))
        np.testing.assert_allclose([float(end) for end in theirs], [float(end) for end in ours], rtol=1e-5)
    if bits < 8:
        name = f"embedding_bag_{bits}bit_prepack"
        theirs, ours = (getattr(lib.ops.quantized, name)(x, True) for lib, x in both(floats(8, 40)))
        assert np.array_equal(theirs.numpy(), ours.numpy())


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.quantize_per_tensor_dynamic(lib.ones(2), lib.quint4x2, False),
        lambda lib: lib.ops.quantized.embedding_bag_prepack(
            lib.quantize_per_tensor(lib.ones(2, 2), 1, 0, lib.quint4x2)
        ),
        lambda lib: lib.ops.quantized.embedding_bag_4bit_prepack(lib.ones(2, 3)),
        lambda lib: lib.ops.quantized.embedding_bag_2bit_prepack(lib.ones(2, 6)),
        lambda lib: lib.ops.quantized.embedding_bag_byte_prepack(lib.ones(2, 6).double()),
        lambda lib: lib.ao.nn.quantized.Embedding(2, 4, dtype=lib.quint2x4),
        lambda lib: lib.quantize_per_tensor(lib.ones(2).double(), 1, 0, lib.quint4x2),
    ],
)
def test_mistakes(call):
    kinds = []
    for lib in (torch, numod):
        with pytest.raises((RuntimeError, NotImplementedError)) as error:
            call(lib)
        kinds.append(error.type)
    assert kinds[0] is kinds[1]
