"""Quantized tensors of 4 and 2 bits, whose bytes hold several integers. Side by side with PyTorch: the parity file."""

import copy
import io
import pickle

import pytest

import numod as torch
from numod import nn
from numod.ao import quantization

X = torch.tensor([[-1.0, -0.3, 0.05, 0.15, 0.2], [0.25, 0.35, 9.0, 0.0, -0.1]])
SCALES, ZEROS = torch.tensor([0.1, 0.5]), torch.tensor([3.0, 0.5])


def tensors():
    return [
        torch.quantize_per_tensor(X, 0.1, 3, torch.quint4x2),
        torch.quantize_per_tensor(X, 0.1, 1, torch.quint2x4),
        torch.quantize_per_channel(X, SCALES, ZEROS, 0, torch.quint4x2),
    ]


def test_a_byte_holds_two_or_four_integers_the_first_in_its_low_bits():
    first, second, rows = tensors()
    assert first.int_repr().tolist() == [0, 5 << 4 | 3, 5 << 4 | 5, 15 << 4 | 7, 2 << 4 | 3]
    assert first.untyped_storage().nbytes() == 5 and second.untyped_storage().nbytes() == 3
    assert second.int_repr().tolist() == [1 << 4 | 3 << 6, 3 | 3 << 2 | 3 << 4 | 3 << 6, 1]
    assert (rows.dequantize() - X).abs().max(1).values[0] <= 0.7  # of the row whose range is [-0.3, 1.2]
    assert first.shape == X.shape and first.element_size() == 1 and first.dtype is torch.quint4x2


@pytest.mark.parametrize("number", range(3))
def test_copies_and_files_keep_the_bytes(number):
    q = tensors()[number]
    copies = [copy.deepcopy(q), copy.copy(q), pickle.loads(pickle.dumps(q)), q.clone(), q.detach(), q.cpu(), q.data]
    torch.save({"q": q}, file := io.BytesIO())
    file.seek(0)
    copies.append(torch.load(file)["q"])
    for other in copies:
        assert torch.equal(other, q) and other.dtype is q.dtype and "size=(2, 5)" in repr(other)


def test_a_file_of_its_name_is_read_by_safetensors(tmp_path):
    state = dict(zip("abc", tensors()))
    torch.save(state, tmp_path / "state.safetensors")
    loaded = torch.load(tmp_path / "state.safetensors")
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def test_functions_return_packed_results_and_write_in_place():
    q = tensors()[0]
    assert torch.equal(q[1], torch.quantize_per_tensor(X[1], 0.1, 3, torch.quint4x2))
    assert torch.equal(q.t().T, q) and q.T.dtype is torch.quint4x2
    assert q.relu().dequantize().min() == 0 and q.max().dequantize() == q.dequantize().max()
    q[0] = 1.0
    assert (q[0].dequantize() == 1).all() and torch.equal(q[1].dequantize(), tensors()[0][1].dequantize())
    q.copy_(X)
    assert torch.equal(q, tensors()[0])
    q.fill_(0.5)
    assert torch.allclose(q.dequantize(), torch.tensor(0.5))


def test_empty_and_single_values():
    for value in (torch.ones(0, 3), torch.tensor(1.3)):
        q = torch.quantize_per_tensor(value, 0.1, 0, torch.quint4x2)
        assert q.shape == value.shape and torch.allclose(q.dequantize(), value)


@pytest.mark.parametrize("size", [8, 5])
def test_embeddings_look_up_packed_rows(size):
    model = nn.Sequential(nn.Embedding(7, size)).eval()
    quantized = quantization.quantize_dynamic(model, {nn.Embedding}, dtype=torch.quint4x2)
    table, indices = quantized[0].weight(), torch.tensor([[0, 6], [3, 3]])
    assert table.dtype is torch.quint4x2 and table.untyped_storage().nbytes() == (7 * size + 1) // 2
    assert torch.equal(quantized(indices), table.dequantize()[indices])
    assert torch.equal(torch.compile(quantized)(indices), quantized(indices))
    steps = table.q_per_channel_scales()[indices]
    assert ((quantized(indices) - model(indices)).abs() <= steps[..., None] * 0.51).all()
    with pytest.raises(RuntimeError, match="quantize that"):
        quantized.load_state_dict(model.state_dict())


@pytest.mark.parametrize("axis", ["T", "mT"])
def test_transposed_attributes_of_all_quantized_tensors_are_quantized(axis):
    q = torch.quantize_per_channel(X, SCALES, ZEROS.long(), 0, torch.qint8)
    transposed = getattr(q, axis)
    assert transposed.is_quantized and transposed.q_per_channel_axis() == 1
    assert torch.equal(transposed.dequantize(), q.dequantize().T)


def test_a_search_cuts_outliers_off():
    row = torch.tensor([0.0, 0.11, 0.22, 0.29, 0.41, 0.52, 0.61, 0.7, 0.79, 0.92, 1.01, 1.1, 1.2])
    high, low = torch.choose_qparams_optimized(row, 13, 200, 0.16, 2)
    assert (low.item(), high.item()) == pytest.approx((0.036, 1.05))  # PyTorch's
    for values in ([0.0, 1e-44], [1e8, 1e8 + 16], [float("nan"), 1.0], [0.0, float("inf")]):  # the search ends
        torch.choose_qparams_optimized(torch.tensor(values), 2, 200, 0.16, 4)
    with pytest.raises(RuntimeError, match="numel"):
        torch.choose_qparams_optimized(row, 14, 200, 0.16, 4)


@pytest.mark.parametrize(("bits", "error"), [("byte", 0.003), ("4bit", 0.04), ("2bit", 0.18)])
def test_rows_of_bytes(bits, error):
    ops, table = torch.ops.quantized, torch.linspace(0, 1, 12).reshape(3, 4)
    prepack, unpack, bag = (
        getattr(ops, f"embedding_bag_{bits}_{name}") for name in ("prepack", "unpack", "rowwise_offsets")
    )
    rows = prepack(table)
    assert rows.dtype is torch.uint8 and (unpack(rows) - table).abs().max() <= error
    indices, offsets = torch.tensor([0, 2, 1]), torch.tensor([0, 2])
    torch.testing.assert_close(bag(rows, indices, offsets)[0], unpack(rows)[[0, 2]].sum(0))
    mapping = torch.tensor([2, 1, 0], dtype=torch.int32)
    pruned = bag(rows, indices, offsets, pruned_weights=True, compressed_indices_mapping=mapping)
    torch.testing.assert_close(pruned[1], unpack(rows)[1])
    mapping[0] = -1  # that row was removed
    pruned = bag(rows, indices, offsets, pruned_weights=True, compressed_indices_mapping=mapping)
    torch.testing.assert_close(pruned[0], unpack(rows)[0])
    whole = bag(rows, indices, offsets, pruned_weights=True, compressed_indices_mapping=torch.zeros(1).int())
    torch.testing.assert_close(whole, bag(rows, indices, offsets))


@pytest.mark.parametrize("bits", ["4bit", "2bit"])
def test_one_row_of_bytes_whose_scale_is_at_an_odd_offset(bits):
    ops, table = torch.ops.quantized, torch.linspace(0, 1, 12).reshape(1, 12)
    rows = getattr(ops, f"embedding_bag_{bits}_prepack")(table[:, : 12 if bits == "2bit" else 10])
    assert rows.shape[1] % 2
    values = getattr(ops, f"embedding_bag_{bits}_unpack")(rows)
    bag = getattr(ops, f"embedding_bag_{bits}_rowwise_offsets")
    torch.testing.assert_close(bag(rows, torch.tensor([0]), torch.tensor([0])), values)


def test_bags_of_a_pruned_table():
    table = torch.quantize_per_channel(X, SCALES, ZEROS, 0, torch.quint4x2)
    layer = torch.nn.quantized.EmbeddingBag(*X.shape, _weight=table, dtype=torch.quint4x2)
    indices, offsets, mapping = torch.tensor([3, 0, 2]), torch.tensor([0, 2]), torch.tensor([1, -1, -1, 0]).int()
    assert torch.equal(layer(indices[1:] - indices[1:], torch.tensor([0]), None, mapping)[0], 2 * table[0].dequantize())
    layer.pruned_weights = True
    expected = torch.stack([table.dequantize()[0] + table.dequantize()[1], torch.zeros(X.shape[1])])
    torch.testing.assert_close(layer(indices, offsets, None, mapping), expected)
