"""Rows of quantized layers beside PyTorch's quantized ones; weight-only and sparse products beside its floats.

Whole networks are beside ONNX Runtime's, quantized by its quantizer, and beside numod's floats.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable


from . import peers
from .networks import draw, lenet, resnet18
from .row import Bar, Row, Timed


class RoundedRow(Row):
    """A row whose contenders differ by the rounding of quantization: tests/ao compares the values, within a step."""


def _linear(library: str, m: int, k: int, n: int, dynamic: bool) -> Timed:
    torch = importlib.import_module(library)
    layer = torch.nn.Linear(k, n)
    layer.load_state_dict({"weight": torch.tensor(draw(n, k, seed=1)), "bias": torch.tensor(draw(n, seed=2))})
    quantization, x = torch.ao.quantization, torch.tensor(draw(m, k))
    if dynamic:
        model = quantization.quantize_dynamic(torch.nn.Sequential(layer))
        return Timed("model(x)", {"model": model, "x": x}, lambda: [model(x).detach().numpy()])
    model = torch.nn.Sequential(quantization.QuantStub(), layer).eval()
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared = quantization.prepare(model)
    prepared(x)
    quant, product = quantization.convert(prepared)
    q = quant(x)
    return Timed("model(x)", {"model": product, "x": q}, lambda: [product(q).dequantize().numpy()])


def _weight_only(bits: int, size: int) -> dict[str, Callable[[], Timed]]:
    def numod() -> Timed:
        torch = importlib.import_module("numod")
        model = torch.nn.Sequential(torch.nn.Linear(size, size, bias=False))
        quantization = torch.ao.quantization
        configs = {8: quantization.Int8WeightOnlyConfig(), 4: quantization.Int4WeightOnlyConfig(group_size=128)}
        quantization.quantize_(model, configs[bits])
        return Timed("model(x)", {"model": model, "x": torch.tensor(draw(1, size))})

    def pytorch() -> Timed:
        torch = importlib.import_module("torch")
        model = torch.nn.Linear(size, size, bias=False).requires_grad_(False)
        return Timed("model(x)", {"model": model, "x": torch.tensor(draw(1, size))})

    return {"numod": numod, "PyTorch": pytorch}


def _convolution(library: str, channels: int, size: int, groups: int) -> Timed:
    torch = importlib.import_module(library)
    layer, quantization = torch.nn.Conv2d(channels, channels, 3, padding=1, groups=groups), torch.ao.quantization
    weight = torch.tensor(draw(*layer.weight.shape, seed=1))
    layer.load_state_dict({"weight": weight, "bias": torch.tensor(draw(channels, seed=2))})
    model = torch.nn.Sequential(quantization.QuantStub(), layer).eval()
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared, x = quantization.prepare(model), torch.tensor(draw(1, channels, size, size))
    prepared(x)
    quant, convolution = quantization.convert(prepared)
    q = quant(x)
    return Timed("model(x)", {"model": convolution, "x": q}, lambda: [convolution(q).dequantize().numpy()])


def _recurrent(library: str, kind: str) -> Timed:
    torch = importlib.import_module(library)
    layer = getattr(torch.nn, kind)(128, 128)
    values = {name: torch.tensor(draw(*value.shape) / 9) for name, value in layer.state_dict().items()}
    layer.load_state_dict(values)
    model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(layer), {type(layer)})
    x = torch.tensor(draw(32, 1, 128))
    return Timed("model(x)", {"model": model, "x": x}, lambda: [model(x)[0].detach().numpy()])


def _sparse(library: str, batch: int) -> Timed:
    """A linear layer of 90 % zeros: numod's leaves them out, PyTorch's is dense."""
    torch, size = importlib.import_module(library), 1024
    layer, weight = torch.nn.Linear(size, size, bias=False).requires_grad_(False), draw(size, size, seed=1)
    weight[draw(size, size, seed=2) < 1.28] = 0
    layer.load_state_dict({"weight": torch.tensor(weight)})
    x, model = torch.tensor(draw(batch, size)), layer
    if library == "numod":
        model = torch.compile(layer, options={"freezing": True, "sparsity": True})
    model(x)
    return Timed("model(x)", {"model": model, "x": x}, lambda: [model(x).numpy()])


def _network(make: Callable) -> dict[str, Callable[[], Timed]]:
    """A network of bytes (activations use all 256), compiled by numod and quantized by ONNX Runtime; and of floats."""

    def numod(quantized: bool) -> Timed:
        torch, quantization = importlib.import_module("numod"), importlib.import_module("numod.ao.quantization")
        model, (x,) = peers.network(make, "numod")
        model, x = model.eval().requires_grad_(False), torch.tensor(x)
        if quantized:
            fx = importlib.import_module("numod.ao.quantization.quantize_fx")
            model = fx.prepare_fx(model, quantization.get_default_qconfig_mapping("onednn"), (x,))
            model(x)
            model = fx.convert_fx(model)
        compiled = torch.compile(model, options={"freezing": True})
        return Timed("model(x)", {"model": compiled, "x": x}, lambda: [compiled(x).numpy()])

    def in_onnx() -> Timed:
        model, inputs = peers.network(make, "torch")
        return peers.quantized_session(model.eval().requires_grad_(False), inputs)

    return {"numod": lambda: numod(True), "numod float32": lambda: numod(False), "ONNX Runtime": in_onnx}


def _contenders(make: Callable, *arguments: object) -> dict[str, Callable[[], Timed]]:
    return {name: lambda library=library: make(library, *arguments) for name, library in _LIBRARIES.items()}


_LIBRARIES = {"numod": "numod", "PyTorch": "torch"}


def rows() -> list[Row]:
    """Static and dynamic layers, a row of a batch times packed weights, weights of zeros, and whole networks."""
    results = []
    for m, k, n in ((1024, 1024, 1024), (1, 4096, 4096), (32, 512, 512)):
        for kind, dynamic in (("quantized", False), ("dynamic", True)):
            contenders = _contenders(_linear, m, k, n, dynamic)
            results.append(RoundedRow(f"{kind} linear {m}×{k}×{n}", contenders, Bar(0.9, None, "PyTorch")))
    for groups in (1, 64):
        name = f"quantized conv2d 3×3, 64→64 at 56²{', depthwise' if groups > 1 else ''}"
        results.append(RoundedRow(name, _contenders(_convolution, 64, 56, groups), Bar(0.9, None, "PyTorch")))
    for kind in ("LSTM", "GRU"):
        name = f"dynamic {kind}(128, 128), T=32 B=1"
        results.append(RoundedRow(name, _contenders(_recurrent, kind), Bar(0.8, None, "PyTorch")))
    for bits, ratio in ((8, 0.3), (4, 0.2)):
        name = f"weight-only int{bits} 1×4096×4096, PyTorch float32"
        results.append(RoundedRow(name, _weight_only(bits, 4096), Bar(ratio, None, "PyTorch")))
    for batch, ratio in ((1, 0.3), (32, 0.6)):
        name = f"linear 1024×1024 of 90 % zeros, batch {batch}, PyTorch dense"
        results.append(Row(name, _contenders(_sparse, batch), Bar(ratio, None, "PyTorch")))
    for name, make in (("ResNet-18 (CIFAR)", resnet18(1)), ("LeNet", lenet(1, "ReLU", "MaxPool2d"))):
        name = f"int8 {name} inference, compiled, batch 1, frozen"
        results.append(RoundedRow(name, _network(make), Bar(0.9, None, "ONNX Runtime")))
    return results
