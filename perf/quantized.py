"""Rows of quantized products beside PyTorch's quantized ones, and of weight-only products beside its float ones."""

from __future__ import annotations

import importlib
from collections.abc import Callable


from .networks import draw
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


def rows() -> list[Row]:
    """Static and dynamic layers, and a row of a batch times packed weights."""
    results = []
    for m, k, n in ((1024, 1024, 1024), (1, 4096, 4096), (32, 512, 512)):
        for kind, dynamic in (("quantized", False), ("dynamic", True)):
            contenders = {
                name: lambda library=library, m=m, k=k, n=n, dynamic=dynamic: _linear(library, m, k, n, dynamic)
                for name, library in (("numod", "numod"), ("PyTorch", "torch"))
            }
            results.append(RoundedRow(f"{kind} linear {m}×{k}×{n}", contenders, Bar(0.9, None, "PyTorch")))
    for bits, ratio in ((8, 0.3), (4, 0.2)):
        name = f"weight-only int{bits} 1×4096×4096, PyTorch float32"
        results.append(RoundedRow(name, _weight_only(bits, 4096), Bar(ratio, None, "PyTorch")))
    return results
