"""Assignment to quantized tensors, and parts of per-channel ones."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest

import numod
from numod.ao.quantization import quantize_dynamic


def per_tensor():
    return numod.quantize_per_tensor(numod.arange(12.0).reshape(3, 4), 0.5, 3, numod.quint8)


def per_channel(axis=1):
    x = numod.arange(24.0).reshape(2, 3, 4)
    count = x.shape[axis]
    return numod.quantize_per_channel(x, numod.arange(count) / 10 + 0.5, numod.arange(count), axis, numod.qint8)


def test_floats_are_assigned_with_the_scale_of_the_target():
    q = per_tensor()
    q[1, 2:] = numod.tensor([0.26, 200.0])
    q[0] = 1.0
    q[2][q.dequantize()[2] > 9.5] = numod.tensor(4.0)
    expected = [[5, 5, 5, 5], [11, 13, 4, 255], [19, 21, 11, 11]]
    assert q.int_repr().tolist() == expected and q.q_scale() == 0.5


def test_index_put_and_masked_fill():
    q = per_tensor()
    q.index_put_((numod.tensor([0, 2]), numod.tensor([1, 3])), numod.tensor([3.0, -9.0]))
    assert q.int_repr()[0, 1] == 9 and q.int_repr()[2, 3] == 0
    filled = q.masked_fill(q.dequantize() > 4, 2.0)
    assert (filled.int_repr() == q.int_repr().where(q.dequantize() <= 4, numod.tensor(7, dtype=numod.uint8))).all()
    q.masked_fill_(numod.tensor(True), 1.0)
    assert (q.int_repr() == 5).all()


@pytest.mark.parametrize("index", [0, slice(1, 2), (slice(None), 1), (0, slice(1, 3)), (..., None, 2), (1, 2, 3)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parts_of_per_channel_tensors(index, axis):
    q = per_channel(axis)
    part, expected = q[index], q.dequantize()[index]
    assert part.shape == expected.shape
    np.testing.assert_allclose(part.dequantize().numpy(), expected.numpy(), rtol=1e-6)


def test_parts_without_elements():
    q = per_channel()
    for index in ((slice(None), slice(0)), (..., slice(9, None)), slice(0), (0, slice(0)), (slice(0), 1)):
        part, expected = q[index], q.dequantize()[index]
        assert part.shape == expected.shape == part.dequantize().shape
    assert q.narrow(0, 0, 0).shape == (0, *q.shape[1:])


def test_a_row_of_a_table_with_float_zero_points(tmp_path):
    table = numod.quantize_per_channel(
        numod.ones(2, 3), numod.tensor([0.5, 0.5]), numod.tensor([3.0, 3.25]), 0, numod.quint8
    )
    assert type(table[0].q_zero_point()) is int and numod.equal(table[1].dequantize(), table.dequantize()[1])
    numod.save(table[0], tmp_path / "row.pt")
    assert numod.equal(numod.load(tmp_path / "row.pt"), table[0])
    with pytest.raises(RuntimeError, match="the zero point of a quantized tensor must be an integer, got 3.25"):
        numod.save(table[1], tmp_path / "row.pt")


def test_shapes_of_per_channel_tensors():
    q = per_channel()
    assert q.unsqueeze(0).q_per_channel_axis() == 2 and q.unsqueeze(-1).q_per_channel_axis() == 1
    assert q.unsqueeze(0).squeeze().q_per_channel_axis() == 1
    with pytest.raises(RuntimeError, match="Squeeze is only possible on non-axis dimension"):
        q[:, :1].squeeze(1)
    images = q.unsqueeze(-1).to(memory_format=numod.channels_last)
    assert images.is_contiguous(memory_format=numod.channels_last) and images.q_per_channel_axis() == 1
    q[0, 1] = numod.zeros(4)
    assert (q.int_repr()[0, 1] == 1).all()


def test_empty_quantized_tensors():
    q = numod._empty_affine_quantized([2, 3], scale=0.5, zero_point=4, dtype=numod.qint8, device="cpu").fill_(1.0)
    assert (q.int_repr() == 6).all()
    scales, zeros = numod.tensor([0.5, 1.0]), numod.tensor([0, 1])
    q = numod._empty_per_channel_affine_quantized([2, 3], scales=scales, zero_points=zeros, axis=0, dtype=numod.qint8)
    assert q.fill_(2.0).int_repr().tolist() == [[4] * 3, [3] * 3]
    assert numod._choose_qparams_per_tensor(numod.tensor([0.0, 25.5])) == (25.5 / 255, 0)


def test_programs_are_loaded_from_open_files():
    layer, x = numod.nn.Linear(3, 2), numod.randn(4, 3)
    buffer = io.BytesIO()
    numod.jit.save(numod.jit.trace(layer, (x,)), buffer)
    buffer.seek(0)
    numod.testing.assert_close(numod.jit.load(buffer)(x), layer(x))


PARTS = {
    "narrow": lambda x: x.narrow(0, 1, 2),
    "narrow of columns": lambda x: x.narrow(-1, 1, length=2),
    "chunk": lambda x: x.chunk(2, 0),
    "chunk of columns": lambda x: x.chunk(3, dim=1),
    "split": lambda x: x.split(3),
    "split by sizes": lambda x: x.split([1, 3], 0),
    "tensor_split": lambda x: x.tensor_split((1, 2)),
    "hsplit": lambda x: x.hsplit(2),
    "vsplit": lambda x: x.vsplit(2),
    "unbind": lambda x: x.unbind(),
    "unbind of columns": lambda x: x.unbind(1),
    "view": lambda x: x.view(4, 2, 3),
    "reshape": lambda x: x.reshape(1, 4, 6),
    "flatten": lambda x: x.view(4, 2, 3).flatten(1),
    "unflatten": lambda x: x.unflatten(1, (3, 2)),
    "view_as": lambda x: x.view_as(x.unsqueeze(-1)),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_and_views_of_channels_keep_their_scales(name):
    scales, zero_points = numod.tensor([0.1, 0.3, 0.02, 0.5]), numod.tensor([0, 3, -7, 1])
    x = numod.quantize_per_channel(numod.randn(4, 6), scales, zero_points, 0, numod.qint8)
    results, expected = PARTS[name](x), PARTS[name](x.dequantize())
    for result, values in zip(*(value if isinstance(value, tuple) else (value,) for value in (results, expected))):
        assert result.is_quantized
        assert numod.equal(result.dequantize(), values)


@pytest.mark.parametrize(
    "call", [lambda x: x.flatten(), lambda x: x.view(2, 2, 6), lambda x: x.mean(), lambda x: x.flip(0)]
)
def test_what_mixes_channels_is_refused(call):
    x = numod.quantize_per_channel(numod.randn(4, 6), numod.ones(4), numod.zeros(4), 0, numod.qint8)
    with pytest.raises(RuntimeError, match="dequantize"):
        call(x)


def test_functions_work_after_another_subclass_has_overridden_them():
    code = """
import numod
numod.dequantize, numod.int_repr, numod.q_scale
class Other(numod.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})
numod.ones(2).as_subclass(Other) + 1
q = numod.quantize_per_tensor(numod.ones(2), 0.5, 3, numod.qint8)
assert numod.dequantize(q).tolist() == numod.dequantize([q, q])[1].tolist() == [1, 1]
assert numod.int_repr(q).tolist() == [5, 5] and numod.q_scale(q) == 0.5
assert numod.Tensor.dequantize(q).tolist() == [1, 1] and numod.q_zero_point(input=q) == 3
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_quantized_memory_is_shared_with_processes():
    q = per_channel()
    assert q.share_memory_() is q and q.is_shared()
    layer = quantize_dynamic(numod.nn.Sequential(numod.nn.Linear(4, 3)), {numod.nn.Linear}).share_memory()
    assert layer(numod.ones(1, 4)).shape == (1, 3)
    process = os.fork()
    if not process:
        q._integers.fill_(7)
        os._exit(0)
    os.waitpid(process, 0)
    assert (q.int_repr() == 7).all()


def test_functional_call_says_how_quantized_states_are_loaded():
    layer = quantize_dynamic(numod.nn.Sequential(numod.nn.Linear(4, 3)), {numod.nn.Linear})
    with pytest.raises(TypeError, match="is not an instance of Tensor; .* with load_state_dict"):
        numod.func.functional_call(layer, dict(layer.state_dict()), (numod.ones(1, 4),))


def test_a_copy_brings_its_scale_into_compiled_functions():
    model, other = (quantize_dynamic(numod.nn.Sequential(numod.nn.Linear(8, 4)))[0] for _ in range(2))
    x, function = numod.randn(3, 8), numod.compile(model)
    function(x)
    model.weight().copy_(other.weight())
    numod.testing.assert_close(function(x), model(x))
    assert model.weight().q_scale() == other.weight().q_scale()


def _image():
    return numod.quantize_per_tensor(numod.arange(32.0).reshape(1, 2, 4, 4), 1.0, 3, numod.quint8)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (numod.transpose, {"dim0": 0, "dim1": 1}),
        (numod.reshape, {"shape": (2, 16)}),
        (numod.sigmoid, {}),
        (numod.nn.functional.relu, {"inplace": False}),
        (numod.nn.functional.max_pool2d, {"kernel_size": 2}),
        (numod.nn.functional.avg_pool2d, {"kernel_size": 2}),
        (numod.nn.functional.adaptive_avg_pool2d, {"output_size": 1}),
        (numod.nn.functional.interpolate, {"scale_factor": 2}),
        (numod.mean, {"dim": (2, 3)}),
        (numod.clamp, {"min": 2.0, "max": 5.0}),
    ],
)
def test_the_input_by_name(function, parameters):
    result, expected = function(**parameters, input=_image()), function(_image(), **parameters)
    assert result.equal(expected) and result.q_scale() == expected.q_scale()


def test_tensors_by_name():
    x, weight = numod.randn(2, 3), numod.quantize_per_tensor(numod.randn(4, 3), 0.1, 0, numod.qint8)
    assert numod.eq(input=_image(), other=_image()).all() and numod.equal(input=_image(), other=_image())
    assert numod.cat(dim=1, tensors=[_image(), _image()]).equal(numod.cat([_image(), _image()], 1))
    linear = numod.nn.functional.linear
    assert linear(weight=weight, input=x).equal(linear(x, weight))
    with pytest.raises(NotImplementedError, match="aten::sigmoid.out"):
        numod.sigmoid(_image(), out=_image())


@pytest.mark.parametrize(
    ("name", "values", "parameters"),
    [
        ("transpose", (0, 2), {"dim0": 0, "dim1": 2}),
        ("select", (0, 1), {"index": 1, "dim": 0}),
        ("unsqueeze", (1,), {"dim": 1}),
        ("permute", (2, 0, 1), {"dims": (2, 0, 1)}),
        ("squeeze", (0,), {"dim": 0}),
        ("chunk", (2, -1), {"chunks": 2, "dim": -1}),
    ],
)
def test_views_of_channels_by_name(name, values, parameters):
    expected, result = (getattr(per_channel(), name)(*a, **k) for a, k in ((values, {}), ((), parameters)))
    for one, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (result, expected)), strict=True):
        assert one.q_per_channel_axis() == other.q_per_channel_axis() and one.dequantize().equal(other.dequantize())


def test_data_brings_its_scale():
    q, other = per_tensor(), numod.quantize_per_tensor(numod.ones(2), 0.25, 1, numod.quint8)
    q.data = other
    assert q.equal(other) and q.shape == (2,) and q.q_scale() == 0.25
    other.fill_(2.0)
    assert q.dequantize().tolist() == [2.0, 2.0]
    for target, value in ((q, numod.ones(2)), (numod.ones(2), q)):
        with pytest.raises(RuntimeError, match="incompatible tensor type"):
            target.data = value


@pytest.mark.parametrize("dtype", [numod.quint8, numod.qint8, numod.qint32])
@pytest.mark.parametrize("name, size", [("max_pool", 2), ("adaptive_max_pool", 3)])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_maxima_of_windows_are_elements_of_the_input(name, size, ndim, dtype):
    numod.manual_seed(0)
    x = numod.quantize_per_tensor(numod.randn(2, 3, *[6] * ndim), 0.03, 5, dtype)
    function = getattr(numod.nn.functional, f"{name}{ndim}d")
    result = function(x, size)
    assert result.dtype is dtype and result.q_scale() == x.q_scale()
    assert result.dequantize().equal(function(x.dequantize(), size))
    values, indices = function(x, size, return_indices=True)
    assert values.int_repr().equal(result.int_repr()) and indices.dtype is numod.int64


def test_plain_integers_have_no_one_dimensional_maxima():
    with pytest.raises(NotImplementedError, match="\"max_pool1d\" not implemented for 'Byte'"):
        numod.nn.functional.max_pool1d(numod.ones(1, 2, 4).byte(), 2)
