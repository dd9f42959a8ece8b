"""`numod.ops.quantized` and `numod.ops.quantized_decomposed` beside PyTorch's operators: integers within one."""

import copy
import pickle
from importlib import import_module

import numpy as np
import pytest

import numod

torch = pytest.importorskip("torch")

import_module("torch.ao.quantization.fx._decomposed")  # it registers the operators
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
RANDOM = np.random.default_rng(3)
X, Y, IMAGE = (RANDOM.standard_normal(shape).astype(np.float32) * 2 for shape in ((4, 6), (4, 6), (2, 4, 7, 7)))
SQUARE, WEIGHT, FILTERS, BIAS, VECTOR = (
    RANDOM.standard_normal(shape).astype(np.float32) for shape in ((6, 5), (5, 6), (6, 4, 3, 3), 6, 4)
)
TABLE = RANDOM.standard_normal((10, 8)).astype(np.float32)


class Values:
    """The arguments of calls, made by one of the libraries."""

    def __init__(self, lib):
        self.lib, self.ops = lib, lib.ops.quantized
        quantize = lib.quantize_per_tensor
        tensors = {name: lib.from_numpy(globals()[name.upper()].copy()) for name in "x y image square".split()}
        for name, value in tensors.items():
            setattr(self, name, quantize(value, 0.05, 120, lib.quint8))
        self.floats = lib.from_numpy(X.copy())
        self.weight = self.rows(WEIGHT)
        self.filters, self.bias = self.rows(FILTERS), lib.from_numpy(BIAS.copy())
        self.ones, self.vector = lib.ones(4), lib.from_numpy(VECTOR.copy())
        self.slopes = quantize(lib.from_numpy(VECTOR.copy()), 0.01, 3, lib.quint8)
        self.table = lib.quantize_per_channel(
            lib.from_numpy(TABLE.copy()), lib.full((10,), 0.02), lib.full((10,), 100.0), 0, lib.quint8
        )

    def rows(self, array):
        scales = self.lib.full((len(array),), 0.02)
        values = self.lib.from_numpy(array.copy())
        return self.lib.quantize_per_channel(
            values, scales, self.lib.zeros(len(array), dtype=self.lib.int32), 0, self.lib.qint8
        )

    def layer(self, name):
        if name == "Linear":
            layer, weight, bias = self.lib.ao.nn.quantized.Linear(6, 5), self.weight, self.bias[:5].clone()
        else:
            layer, weight, bias = self.lib.ao.nn.quantized.Conv2d(4, 6, 3, stride=2), self.filters, self.bias
        layer.set_weight_bias(weight, bias)
        return layer

    def linear(self):
        return self.ops.linear_prepack(self.weight, self.lib.from_numpy(BIAS[:5].copy()))

    def square_rows(self):
        scales = self.lib.full((6,), 0.02)
        values = self.lib.from_numpy(np.concatenate([SQUARE, SQUARE[:, :1]], 1))
        return self.lib.quantize_per_channel(values, scales, self.lib.zeros(6, dtype=self.lib.int32), 0, self.lib.qint8)

    def half(self):
        return self.ops.linear_prepack_fp16(self.weight.dequantize(), self.bias[:5].clone())

    def conv(self, groups=1):
        weight = self.filters if groups == 1 else self.rows(FILTERS[:4, : 4 // groups].copy())
        bias = self.bias if groups == 1 else self.bias[:4].clone()
        return self.ops.conv2d_prepack(weight, bias, [2, 1], [1, 1], [1, 1], groups)

    def transposed(self):
        weight = self.lib.quantize_per_tensor(self.lib.from_numpy(FILTERS[:4].copy()), 0.02, 0, self.lib.qint8)
        return self.ops.conv_transpose2d_prepack(weight, self.bias[:4].clone(), [2, 2], [1, 1], [1, 1], [1, 1], 1)


CALLS = {
    "add": lambda v, o: o.add(v.x, v.y, 0.1, 100),
    "add of a number": lambda v, o: o.add(v.x, 1.7),
    "add of a number first": lambda v, o: o.add(1.7, v.x),
    "add_scalar": lambda v, o: o.add_scalar(v.x, -9.5),
    "add_scalar_relu": lambda v, o: o.add_scalar_relu(v.x, 0.3),
    "add_relu": lambda v, o: o.add_relu(v.x, v.y, scale=0.1, zero_point=10),
    "add_out": lambda v, o: o.add_out(v.x, v.y, v.x.clone()),
    "mul": lambda v, o: o.mul(v.x, v.y, 0.1, 100),
    "mul_relu": lambda v, o: o.mul_relu(v.x, v.y, 0.1, 7),
    "mul_scalar": lambda v, o: o.mul_scalar(v.x, 2.5),
    "mul of a negative number": lambda v, o: o.mul(v.x, -2.5),
    "matmul": lambda v, o: o.matmul(v.x, v.square, 0.2, 100),
    "cat": lambda v, o: o.cat([v.x, v.y], 1, 0.07, 90),
    "cat by the first": lambda v, o: o.cat([v.x, v.y], dim=0, scale=None, zero_point=None),
    "cat_relu": lambda v, o: o.cat_relu([v.x, v.y], 1, 0.07, 90),
    "hardswish": lambda v, o: o.hardswish(v.x, 0.05, 40),
    "sigmoid": lambda v, o: o.sigmoid(v.x, 0.01, 3),
    "celu": lambda v, o: o.celu(v.x, 0.05, 40, 1.3),
    "elu": lambda v, o: o.elu(v.x, 0.05, 40, 1.3),
    "leaky_relu": lambda v, o: o.leaky_relu(v.x, 0.2, False, 0.05, 40),
    "prelu": lambda v, o: o.prelu(v.image, v.slopes, 0.05, 40),
    "softmax": lambda v, o: o.softmax(v.x, -1, 1 / 256, 0),
    "dropout": lambda v, o: o.dropout(v.x, 0.05, 120, 0.5, False),
    "relu6": lambda v, o: o.relu6(v.x, False),
    "threshold": lambda v, o: o.threshold(v.x, 0.5, 0.1),
    "clamp": lambda v, o: o.clamp(v.x, -0.5, 1.5),
    "max_pool2d": lambda v, o: o.max_pool2d(v.image, [3, 3], [2, 2], [1, 1], [1, 1], False),
    "batch_norm": lambda v, o: o.batch_norm(v.image, v.vector, v.vector, v.vector, v.ones, 1e-5, 0.06, 100),
    "batch_norm2d": lambda v, o: o.batch_norm2d(v.image, v.vector, v.vector, v.vector, v.ones, 1e-5, 0.06, 100),
    "batch_norm2d_relu": lambda v, o: o.batch_norm2d_relu(v.image, v.vector, v.vector, v.vector, v.ones, 1e-5, 0.06, 9),
    "layer_norm": lambda v, o: o.layer_norm(v.x, [6], v.bias, v.bias, 1e-5, 0.04, 110),
    "group_norm": lambda v, o: o.group_norm(v.image, 2, v.vector, v.vector, 1e-5, 0.04, 110),
    "instance_norm": lambda v, o: o.instance_norm(v.image, v.vector, v.vector, 1e-5, 0.04, 110),
    "linear": lambda v, o: o.linear(v.x, v.linear(), 0.1, 100),
    "linear_relu": lambda v, o: o.linear_relu(v.x, v.linear(), 0.1, 10),
    "linear_dynamic": lambda v, o: o.linear_dynamic(v.floats, v.linear()),
    "linear_relu_dynamic": lambda v, o: o.linear_relu_dynamic(v.floats, v.linear(), False),
    "linear_dynamic_fp16": lambda v, o: o.linear_dynamic_fp16(v.floats, v.half()),
    "linear_unpack": lambda v, o: o.linear_unpack(v.linear())[0],
    "conv2d": lambda v, o: o.conv2d(v.image, v.conv(), 0.1, 100),
    "conv2d of groups": lambda v, o: o.conv2d(v.image, v.conv(2), 0.1, 100),
    "conv2d_relu": lambda v, o: o.conv2d_relu(v.image, v.conv(), 0.1, 10),
    "conv2d_unpack": lambda v, o: o.conv2d_unpack(v.conv())[0],
    "conv_transpose2d": lambda v, o: o.conv_transpose2d(v.image, v.transposed(), 0.1, 100),
    "embedding_byte": lambda v, o: o.embedding_byte(
        o.embedding_bag_prepack(v.table), v.lib.tensor([1, 3, 9], dtype=v.lib.int32)
    ),
    "embedding_bag_byte": lambda v, o: o.embedding_bag_byte(
        o.embedding_bag_prepack(v.table), v.lib.tensor([1, 3, 9, 2]), v.lib.tensor([0, 3])
    ),
    "default": lambda v, o: o.relu6.default(v.x),
    "bias of packed parameters": lambda v, o: v.linear().bias(),
    "unpack of packed parameters": lambda v, o: v.linear().unpack()[0],
    "linear of a layer": lambda v, o: o.linear(v.x, v.layer("Linear")._packed_params._packed_params, 0.1, 100),
    "conv2d of a layer": lambda v, o: o.conv2d(v.image, v.layer("Conv2d")._packed_params, 0.1, 100),
    "conv2d_unpack of a layer": lambda v, o: o.conv2d_unpack(v.layer("Conv2d")._packed_params)[1],
    "upsample_nearest": lambda v, o: v.lib.nn.functional.upsample_nearest(v.image, scale_factor=2),
    "upsample_bilinear": lambda v, o: v.lib.nn.functional.upsample_bilinear(v.image, scale_factor=2),
}


def array(value):
    return (value.int_repr() if value.is_quantized else value).numpy()


@pytest.mark.parametrize("name", CALLS)
def test_operators_of_quantized_tensors(name):
    results = [CALLS[name](Values(lib), lib.ops.quantized) for lib in (torch, numod)]
    assert results[0].is_quantized == results[1].is_quantized
    if not results[0].is_quantized:
        np.testing.assert_allclose(array(results[1]), array(results[0]), rtol=2e-3, atol=2e-2)
        return
    if results[0].qscheme() is torch.per_tensor_affine:
        assert results[1].q_scale() == pytest.approx(results[0].q_scale(), rel=1e-6)
        assert results[1].q_zero_point() == results[0].q_zero_point()
    assert np.abs(array(results[1]).astype(int) - array(results[0])).max() <= 1


DECOMPOSED = {
    "quantize": lambda lib, o, x: o.quantize_per_tensor(x, 0.05, 3, -128, 127, lib.int8),
    "of tensors": lambda lib, o, x: o.quantize_per_tensor.tensor(x, lib.tensor(0.05), lib.tensor(3), 0, 200, lib.uint8),
    "of halves": lambda lib, o, x: o.quantize_per_tensor(x.half(), 0.05, 3, -128, 127, lib.int8),
    "dequantize": lambda lib, o, x: o.dequantize_per_tensor.default(
        (x * 20).to(lib.int8), 0.05, 3, -128, 127, lib.int8, out_dtype=lib.float16
    ),
    "choose": lambda lib, o, x: o.choose_qparams.tensor(x, -128, 127, 1e-5, lib.int8)[0],
    "choose zero": lambda lib, o, x: o.choose_qparams.tensor(x, -128, 127, 1e-5, lib.int8)[1],
    "choose symmetric": lambda lib, o, x: o.choose_qparams_symmetric.tensor(x, -128, 127, 1e-5, lib.int8)[0],
    "channels": lambda lib, o, x: o.quantize_per_channel(
        x, lib.arange(1, 7) / 50, lib.arange(6), 1, -128, 127, lib.int8
    ),
    "back from channels": lambda lib, o, x: o.dequantize_per_channel(
        (x * 20).to(lib.int8), lib.arange(1, 7) / 50, lib.arange(6), 1, -128, 127, lib.int8
    ),
    "rounded channels": lambda lib, o, x: o.fake_quant_per_channel(
        x, lib.arange(1, 7) / 50, lib.arange(6), 1, -128, 127
    ),
    "scales of rows": lambda lib, o, x: o.choose_qparams_per_token(x, lib.int8)[0],
    "scales of ranges": lambda lib, o, x: o.choose_qparams_per_token_asymmetric(x, lib.int8)[0],
    "zeros of ranges": lambda lib, o, x: o.choose_qparams_per_token_asymmetric(x, lib.int8)[1],
    "rows": lambda lib, o, x: o.quantize_per_token(
        x, *o.choose_qparams_per_token_asymmetric(x, lib.int8), -128, 127, lib.int8
    ),
    "back from rows": lambda lib, o, x: o.dequantize_per_token(
        (x * 20).to(lib.int8), *o.choose_qparams_per_token_asymmetric(x, lib.int8), -128, 127, lib.int8, lib.float32
    ),
    "groups": lambda lib, o, x: o.quantize_per_channel_group(
        x, lib.full((4, 2), 0.05), lib.ones(4, 2), -128, 127, lib.int8, 3
    ),
    "back from groups": lambda lib, o, x: o.dequantize_per_channel_group(
        (x * 20).to(lib.int8), lib.full((4, 2), 0.05), lib.ones(4, 2), -128, 127, lib.int8, 3, lib.float32
    ),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_operators_of_plain_integers(name):
    results = [
        DECOMPOSED[name](lib, lib.ops.quantized_decomposed, lib.from_numpy(X.copy())).numpy() for lib in (torch, numod)
    ]
    assert results[0].dtype == results[1].dtype
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, o, x: o.quantize_per_tensor(x, 0.1, 0, -129, 127, lib.int8),
        lambda lib, o, x: o.quantize_per_tensor(x.double(), 0.1, 0, -128, 127, lib.int8),
        lambda lib, o, x: o.dequantize_per_tensor(x, 0.1, 0, -128, 127, lib.int8),
        lambda lib, o, x: o.quantize_per_channel(x, lib.ones(6), lib.zeros(6), 2, -128, 127, lib.int8),
        lambda lib, o, x: o.quantize_per_channel_group(x, lib.ones(4, 2), lib.ones(4, 2), -128, 127, lib.int8, 4),
        lambda lib, o, x: o.choose_qparams_per_token(x, lib.uint8),
    ],
)
def test_errors_are_of_the_same_type(call):
    kinds = []
    for lib in (torch, numod):
        with pytest.raises(Exception) as caught:
            call(lib, lib.ops.quantized_decomposed, lib.from_numpy(X.copy()))
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


MISTAKES = {
    "no scale": lambda v: v.ops.add(v.x, v.y),
    "a scale only": lambda v: v.ops.mul(v.x, v.y, 0.1),
    "a float": lambda v: v.ops.add(v.floats, v.x, 0.1, 0),
    "floats": lambda v: v.ops.add_relu(v.floats, v.floats, 0.1, 0),
    "out of floats": lambda v: v.ops.mul_out(v.x, v.y, v.floats),
    "a weight of floats": lambda v: v.ops.linear_prepack(v.floats, None),
    "a weight that is not packed": lambda v: v.ops.linear(v.x, v.floats, 0.1, 0),
    "as many rows as a pair": lambda v: v.ops.linear_dynamic(v.floats, v.floats[:2]),
    "an input of floats": lambda v: v.ops.sigmoid(v.floats, 0.1, 0),
    "a norm of floats": lambda v: v.ops.layer_norm(v.floats, [6], None, None, 1e-5, 0.1, 0),
    "unpacked again": lambda v: v.ops.linear_unpack(v.floats),
    "a product of two dtypes": lambda v: v.ops.matmul(v.x, v.weight.t(), 0.1, 0),
    "a product of rows with scales": lambda v: v.ops.matmul(v.weight, v.square_rows(), 0.1, 0),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_have_the_same_type(name):
    types = []
    for lib in (torch, numod):
        with pytest.raises(Exception) as error:
            MISTAKES[name](Values(lib))
        types.append(error.type)
    assert types[0] is types[1]


@pytest.mark.parametrize("packed", ["conv", "transposed"])
def test_settings_of_packed_convolutions(packed):
    settings = []
    for lib in (torch, numod):
        value, name = getattr(Values(lib), packed)(), "conv2d" if packed == "conv" else "conv_transpose2d"
        names = "stride padding output_padding dilation groups transpose".split()
        settings.append([getattr(value, setting)() for setting in names])
        assert [getattr(lib.ops.quantized, f"{name}_{setting}")(value) for setting in names] == settings[-1]
    assert settings[0] == settings[1]


def test_packed_parameters_of_layers_are_copied_and_saved(tmp_path):
    for name in ("Linear", "Conv2d"):
        layer = Values(numod).layer(name)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert numod.equal(other.weight(), layer.weight()) and numod.equal(other.bias(), layer.bias())
    image = numod.from_numpy(IMAGE.copy())
    dynamic = numod.ops.quantized.conv2d_dynamic(image, layer._packed_params)
    expected = numod.nn.functional.conv2d(image, layer.weight().dequantize(), layer.bias(), 2)
    coarse = numod.ops.quantized.conv2d_dynamic(image, layer._packed_params, True)
    assert (dynamic - expected).abs().max() < 0.3 < (coarse - expected).abs().max()
    packed = pickle.loads(pickle.dumps(layer._packed_params))
    assert packed.stride() == [2, 2] and numod.equal(packed.bias(), layer.bias())
    same = numod.ao.nn.quantized.Conv2d(3, 4, (3, 1), padding="same", dilation=2)
    assert same._packed_params.padding() == [2, 0]


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "hardsigmoid"])
def test_functions_with_a_scale_of_their_own(name):
    for kind in ("quint8", "qint8", "qint32"):
        results = []
        for lib in (torch, numod):
            x = lib.quantize_per_tensor(lib.from_numpy(X.copy()), 0.05, 3, getattr(lib, kind))
            function = lib.nn.functional.hardsigmoid if name == "hardsigmoid" else getattr(lib, name)
            results.append(function(x))
        theirs, ours = results
        assert (ours.q_scale(), ours.q_zero_point()) == (theirs.q_scale(), theirs.q_zero_point())
        difference = array(ours).astype(np.int64) - array(theirs)
        assert np.abs(difference).max() <= (256 if kind == "qint32" else 1)  # of 2**32: the last bits of a float32


def test_numbers_by_name():
    for lib in (torch, numod):
        values = Values(lib)
        for function in (values.ops.add_scalar, values.ops.add):
            assert function(values.x, b=2).q_scale() == values.ops.add_scalar(values.x, 2).q_scale()
