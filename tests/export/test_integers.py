"""Quantized networks without floats between their bytes: results within 1, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.ao.nn.quantized import FloatFunctional, QFunctional
from numod.export import ExportedProgram, aot_compile, export, load_native
from numod.export.integers import floats, without_floats
from numod.export.problems import ExportError
from numod.nn import functional as F

X = 16, 4, 6, 6


class Layer(nn.Module):
    """A convolution, then a function or a layer."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.conv, self.function = nn.Conv2d(4, 4, 1), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.conv(x))


class Arithmetic(nn.Module):
    """A function of FloatFunctional of two quantized tensors."""

    def __init__(self, name: str, *others: int) -> None:
        super().__init__()
        self.conv, self.arithmetic, self.name, self.others = nn.Conv2d(4, 4, 1), FloatFunctional(), name, others

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        function = getattr(self.arithmetic, self.name)
        return function([self.conv(x), x], *self.others) if self.name == "cat" else function(self.conv(x), x)


def quantized(model: nn.Module, x: torch.Tensor, engine: str = "qnnpack") -> tuple[nn.Module, torch.Tensor]:
    """(the quantized layers, a quantized input)."""
    wrapped = quantization.QuantWrapper(model.eval())
    wrapped.qconfig = quantization.get_default_qconfig(engine)
    prepared = quantization.prepare(wrapped)
    prepared(x)
    converted = quantization.convert(prepared)
    return converted.module, converted.quant(x[:2])


def programs(model: nn.Module, **options: object) -> tuple[ExportedProgram, ExportedProgram]:
    """(the program of a quantized network, the one without floats)."""
    torch.manual_seed(0)
    model, x = quantized(model, torch.randn(*X))
    program = export(model, (x,), **options).frozen()
    return program, without_floats(program.with_byte_constants())


def differences(program: ExportedProgram, integers: ExportedProgram) -> np.ndarray:
    """How far the results of two programs are apart, for random and for extreme bytes."""
    assert floats(integers.program) == []
    inputs = [*torch.randint(0, 256, (6, 2, *X[1:])).to(torch.uint8), *torch.zeros(1, 2, *X[1:], dtype=torch.uint8)]
    inputs.append(inputs[-1] + 255)
    pairs = [[one.module()(x).numpy().astype(int) for one in (program, integers)] for x in inputs]
    return abs(np.stack([first - second for first, second in pairs]))


EXACT = {
    **{
        kind.__name__: kind
        for kind in (
            nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.Hardsigmoid, nn.ELU, nn.GELU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh,
            nn.CELU, nn.ReLU, nn.PReLU, nn.Dropout,
        )
    },
    "slopes": lambda: nn.PReLU(4), "average": lambda: nn.AvgPool2d(2), "greatest": lambda: nn.MaxPool2d(2),
    "clamp": lambda: lambda x: x.clamp(-0.5, 0.5), "threshold": lambda: lambda x: F.threshold(x, 0.1, 0.2),
    "zeros": lambda: lambda x: F.pad(x, (1, 2)), "mirror": lambda: lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "nearest": lambda: lambda x: F.interpolate(x, scale_factor=2),
    "several": lambda: nn.Sequential(nn.Tanh(), nn.ELU(), nn.Sigmoid()),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:PReLU")
@pytest.mark.parametrize("name", EXACT)
def test_functions_of_one_byte_are_equal(name: str) -> None:
    assert differences(*programs(Layer(EXACT[name]()))).max() == 0


NEAR = {
    "add": lambda: Arithmetic("add"), "add_relu": lambda: Arithmetic("add_relu"), "mul": lambda: Arithmetic("mul"),
    "matmul": lambda: Arithmetic("matmul"), "norm": lambda: Layer(nn.BatchNorm2d(4)),
    "means": lambda: Layer(lambda x: x.mean([2, 3])), "rows": lambda: Layer(lambda x: x.mean(-1, keepdim=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_sums_and_products_are_within_one(name: str) -> None:
    apart = differences(*programs(NEAR[name]()))
    assert apart.max() <= 1 and apart.mean() < 0.01


@pytest.mark.parametrize("dim", [1, 3])
def test_joined_tensors_are_equal(dim: int) -> None:
    program, integers = programs(Arithmetic("cat", dim))
    assert differences(program, integers).max() == 0


def test_a_table_of_a_table_is_one_table() -> None:
    _, integers = programs(Layer(EXACT["several"]()))
    assert [step.op.name for step in integers.program.steps].count("byte_table") == 1


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x.flatten(0, 1))[0]


@pytest.mark.filterwarnings("ignore:must run observer")
def test_a_recurrent_network() -> None:
    program, integers = programs(Recurrent())
    assert differences(program, integers).max() <= 1


def test_sizes_may_be_dynamic() -> None:
    shapes = {"x": {0: torch.export.Dim("batch", max=4)}}
    program, integers = programs(Layer(nn.Sequential(nn.Hardswish(), nn.BatchNorm2d(4))), dynamic_shapes=shapes)
    x = torch.randint(0, 256, (3, *X[1:])).to(torch.uint8)
    assert (program.module()(x).int() - integers.module()(x).int()).abs().max() <= 1
    assert floats(integers.program) == []


def bytes_of(function: Callable, x: torch.Tensor, **options: object) -> tuple[ExportedProgram, ExportedProgram]:
    """(the program of a function of one quantized tensor, the one without floats)."""

    class Function(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    program = export(Function(), (x,), **options).frozen()
    return program, without_floats(program.with_byte_constants())


def product(scale: float, name: str = "matmul") -> Callable:
    """matmul(x.T, x), or another function of FloatFunctional of x and a part of it."""
    functional = QFunctional()
    functional.scale, functional.zero_point = scale, 7
    function = getattr(functional, name)
    return lambda x: function(x.transpose(1, 2), x) if name == "matmul" else function(x, x[:, :, :1])


def requantized(function: Callable, scale: float = 0.3) -> Callable:
    return lambda x: torch.quantize_per_tensor(function(x.dequantize()), scale, 7, torch.quint8)


LINES = {  # functions over a dynamic dimension -> the ops of it that stay floats
    "sum": (requantized(lambda x: x.sum(1)), []),
    "mean": (lambda x: x.mean(1), []),
    "scaled_mean": (requantized(lambda x: x.mean(1)), ["mean"]),  # the multiplier depends on the size
    "quotient": (requantized(lambda x: x / x.shape[1], 0.03), ["div"]),  # a table would be that of one size
    "product": (product(50.0), []),
}


@pytest.mark.parametrize("name", LINES)
def test_a_dynamic_dimension_may_be_summed(name: str) -> None:
    function, refused = LINES[name]
    example = torch.quantize_per_tensor(torch.zeros(2, 4, 3), 0.1, 100, torch.quint8)
    sizes = {"x": {1: torch.export.Dim("size", max=8)}}
    program, integers = bytes_of(function, example, dynamic_shapes=sizes)
    assert [line.split(": ")[1] for line in floats(integers.program)][-1:] == refused
    for size in (1, 2, 7, 8):
        x = torch.randint(0, 256, (2, size, 3)).to(torch.uint8)
        first, second = [one.module()(x).int() for one in (program, integers)]
        assert (first - second).abs().max() <= 1


def test_sums_that_a_dynamic_size_makes_too_large_stay_floats() -> None:
    example = torch.quantize_per_tensor(torch.zeros(1, 4, 2), 0.1, 0, torch.quint8)
    for greatest, fits in ((33_000, True), (40_000, False)):
        sizes = {"x": {1: torch.export.Dim("size", max=greatest)}}
        _, integers = bytes_of(product(1e6), example, dynamic_shapes=sizes)
        assert (floats(integers.program) == []) is fits


@pytest.mark.parametrize("function", [product(1e-38, "mul"), product(1e-6, "add"), lambda x: x[:, :0].mean(1)])
def test_extreme_layers_keep_their_floats(function: Callable) -> None:
    example = torch.quantize_per_tensor(torch.zeros(2, 4, 3), 1e6, 3, torch.quint8)
    program, integers = bytes_of(function, example)
    (line,) = floats(integers.program)
    assert "computed in floats" in line
    x = torch.randint(0, 256, (2, 4, 3)).to(torch.uint8)
    assert program.module()(x).equal(integers.module()(x))


@pytest.mark.export
def test_all_targets_have_the_same_integers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = quantized(Arithmetic("add"), torch.randn(*X))
    program = export(model, (x,)).frozen()
    options = {"integer_only": True}
    artifact = aot_compile(program, tmp_path, targets=("native", "cortex-m0", "cortex-m4"), options=options)
    integers = without_floats(program.with_byte_constants()).module()
    for x in torch.randint(0, 256, (4, 2, *X[1:])).to(torch.uint8):
        np.testing.assert_array_equal(load_native(artifact.folder).run(x.numpy()), integers(x).numpy())


def test_what_needs_floats_is_refused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(*X)
    model, integers = quantized(Layer(nn.LayerNorm(6)), x)
    options, targets = {"integer_only": True}, ("cortex-m0",)
    with pytest.raises(ExportError, match=r"test_integers\.py:\d+: .*row_norm: computed in floats; use a quantized"):
        aot_compile(export(model, (integers,)).frozen(), tmp_path, targets=targets, options=options)
    wrapped = quantization.QuantWrapper(nn.Sequential(nn.Linear(6, 3)))
    wrapped.qconfig = quantization.get_default_qconfig("qnnpack")
    prepared = quantization.prepare(wrapped.eval())
    prepared(x)
    program = export(quantization.convert(prepared), (x,)).frozen()
    with pytest.raises(ExportError, match="export the network without its QuantStub") as error:
        aot_compile(program, tmp_path, targets=targets, options=options)
    assert "DeQuantStub" in str(error.value)
    assert not list(tmp_path.iterdir())


def test_the_advice_names_what_computes_in_floats() -> None:
    x = torch.quantize_per_tensor(torch.zeros(2, 4, 3), 0.1, 3, torch.quint8)
    wide = lambda x: torch.quantize_per_tensor(x.dequantize(), 0.3, 7, torch.qint32)  # noqa: E731
    (line,) = floats(bytes_of(wide, x)[1].program)
    assert "copy, sub, mul, quantize_int32: computed in floats; use" in line  # neither end is a stub
    (line,) = floats(bytes_of(product(1e-30, "add"), x)[1].program)
    assert "add: computed in floats, since its scale is far finer" in line
    (line,) = floats(bytes_of(lambda x: x * 2, x.dequantize())[1].program)
    assert "mul: computed in floats; use" in line
