"""Methods of quantized tensors that change the shape in place, and those that return parts of the class."""

import pytest

import numod as torch

VALUES = torch.arange(6.0)


def tensors(shape, dtype):
    x = VALUES.reshape(shape)
    yield torch.quantize_per_tensor(x, 0.5, 3, dtype)
    zeros = torch.zeros(3, dtype=torch.float32 if dtype is torch.quint4x2 else torch.int64)
    if shape[-1] == 3:
        yield torch.quantize_per_channel(x, torch.tensor([0.5, 1.0, 2.0]), zeros, len(shape) - 1, dtype)


@pytest.mark.parametrize("dtype", [torch.quint8, torch.quint4x2], ids=str)
@pytest.mark.parametrize(
    ("shape", "name", "arguments"),
    [
        ((2, 3), "t", ()),
        ((2, 3), "transpose", (0, 1)),
        ((2, 3), "swapaxes", (1, 0)),
        ((2, 3), "unsqueeze", (1,)),
        ((2, 1, 3), "squeeze", ()),
        ((2, 1, 3), "squeeze", (1,)),
    ],
)
def test_the_shape_changes_with_the_integers(shape, name, arguments, dtype):
    for q in tensors(shape, dtype):
        expected = getattr(q, name)(*arguments)
        assert getattr(q, f"{name}_")(*arguments) is q
        assert q.shape == expected.shape and torch.equal(q, expected)
        assert torch.equal(q.dequantize(), expected.dequantize())


def test_resize_and_detach():
    q = next(tensors((2, 3), torch.quint8))
    assert q.detach_() is q and q.resize_(3, 2).shape == (3, 2)
    assert torch.equal(q.dequantize().flatten(), VALUES)
    with pytest.raises(RuntimeError, match="per-channel"):
        list(tensors((2, 3), torch.quint8))[1].resize_(3, 2)


def test_type_and_empty_like():
    q = next(tensors((2, 3), torch.quint8))
    assert q.type() == "numod.quantized.QUInt8Tensor" and q.type(torch.quint8) is q
    assert torch.empty_like(q, dtype=torch.quint8).q_scale() == 0.5
    with pytest.raises(RuntimeError, match="no other dtype"):
        q.type(torch.float32)
    with pytest.raises(RuntimeError, match="empty_like"):
        torch.empty_like(q, dtype=torch.qint8)


@pytest.mark.parametrize("name", ["sigmoid_", "tanh_"])
def test_functions_with_a_fixed_scale_are_not_in_place(name):
    q = torch.quantize_per_tensor(VALUES, 0.5, 3, torch.quint8)
    with pytest.raises(NotImplementedError, match=f"aten::{name}.*dequantize"):
        getattr(q, name)()
    assert torch.equal(q.dequantize(), VALUES)


def test_gelu_and_the_standard_deviation_keep_the_scale():
    q = torch.quantize_per_tensor(VALUES, 0.5, 3, torch.quint8)
    assert q.std().dequantize().item() == 2.0 and q.std().q_scale() == 0.5
    assert torch.nn.functional.gelu(q, approximate="tanh").q_scale() == 0.5


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("relu", ()), ("relu6", ()), ("leaky_relu", (0.1,)), ("hardtanh", (-0.5, 0.5)), ("hardsigmoid", ())],
)
def test_activations_in_place(name, arguments):
    function = getattr(torch.nn.functional, name)
    for in_place in ((*arguments, True), arguments):
        q = torch.quantize_per_tensor(VALUES - 3, 0.5, 6, torch.quint8)
        expected = function(q.clone(), *arguments)
        view = q[2:]
        result = function(q, *in_place) if in_place != arguments else function(q, *arguments, inplace=True)
        assert result is q and torch.equal(q, expected) and q.q_scale() == expected.q_scale()
        assert name == "hardsigmoid" or torch.equal(view, expected[2:])  # its scale is another one

    def both(x):
        q = torch.quantize_per_tensor(x, 0.5, 6, torch.quint8)
        return function(q, *arguments, inplace=True).dequantize(), q.dequantize()

    for values in torch.compile(both)(VALUES - 3):
        assert torch.equal(values, expected.dequantize())
