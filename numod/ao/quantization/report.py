"""`report`: what each layer of a quantized model holds, how long it takes, and how far it is from the float model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...autograd import no_grad
from ...core import Tensor
from ...nn.linear import Identity
from ...nn.module import Module
from ..nn import quantized as nnq
from .fake_quantize import FakeQuantizeBase
from .measure import in_evaluation
from .observer import ObserverBase


@dataclass
class LayerReport:
    """One layer: its weights' dtype and bytes, seconds of a call, SQNR in dB against the float model, and a note."""

    path: str
    kind: str
    dtype: str
    nbytes: int
    seconds: float | None = None
    sqnr: float | None = None
    note: str = ""

    def columns(self) -> tuple[str, ...]:
        """The columns of the table."""
        seconds = "-" if self.seconds is None else f"{self.seconds * 1e3:.3f}"
        sqnr = "-" if self.sqnr is None else f"{self.sqnr:.1f}"
        return self.path, self.kind, self.dtype, str(self.nbytes), seconds, sqnr, self.note


_RUNS = 5  # timed runs of the model
_TITLES = ("layer", "kind", "weights", "bytes", "ms", "SQNR dB", "note")


def report(
    model: Module, data: Any, reference: Module | None = None, *, kwargs: dict[str, Any] | None = None
) -> list[LayerReport]:
    """Run the model on `data` (an input, or a tuple of inputs) and the inputs by name in `kwargs`, in evaluation mode.
    Print a table of its layers, and return its rows.

    `reference` is the float model: with it, the signal-to-noise ratio of each layer's result is shown, of fused layers
    against the last of their parts. Notes name observers that have seen no data, layers that were not called, and why a
    layer stayed float. Times are those of single layers called one by one, the fastest of five.
    """
    decisions = getattr(model, "quantization_decisions", {})
    results, seconds = _run(model, data, kwargs or {})
    expected = {} if reference is None else _run(reference, data, kwargs or {})[0]
    rows: list[LayerReport] = []
    reason = decisions.get("", "")  # of all float layers
    reason = reason if reason.startswith("float") else ""
    if not reason and any(map(_is_quantized, (layer for _, layer in _layers(model)))):
        reason = "float: no quantized form was asked for"
    for path, layer in _layers(model):
        of_reference = path.removesuffix(".layer")  # the float layer in a FloatLayer
        if _is_fused(layer, reference, path):
            if rows:  # the result of the fused layer is compared with that of its last part
                rows[-1].sqnr = _sqnr(results.get(path), expected.get(path))
            continue
        dtype, nbytes = _weights(layer)
        row = LayerReport(path, layer._get_name(), dtype, nbytes, seconds.get(path))
        value = expected.get(of_reference)
        row.sqnr = _sqnr(results.get(path), value.relu() if value is not None and "ReLU" in row.kind else value)
        notes = ["not called"] if path not in results else []
        decision = decisions.get(of_reference, "")
        has_floats = dtype in ("float32", "float64") and not isinstance(layer, nnq.Quantize)  # which has a scale
        if not decision and has_floats and not row.kind.startswith("Quantized"):
            decision = reason
        notes += [decision] if decision.startswith("float") else []
        notes += ["observer has seen no data"] if any(map(_is_uncalibrated, layer.modules())) else []
        row.note = ", ".join(notes)
        rows.append(row)
    print(_table([_TITLES, *(row.columns() for row in rows)]))
    return rows


def _is_fused(layer: Module, reference: Module | None, path: str) -> bool:
    """Whether a layer is the identity in the place of one that was fused with the layer before it."""
    if type(layer) is not Identity:
        return False
    before = dict(reference.named_modules()).get(path) if reference is not None else None
    return before is None or type(before) is not Identity


def _is_quantized(layer: Module) -> bool:
    return "int" in _weights(layer)[0] or layer._get_name().startswith("DynamicQuantized")


def _layers(model: Module) -> Iterator[tuple[str, Module]]:
    """The layers without submodules, where observers and packed parameters do not count as layers. A model that is a
    layer itself has the path "".
    """

    def is_part(module: Module) -> bool:
        return isinstance(module, (ObserverBase, FakeQuantizeBase)) or type(module).__name__.endswith("PackedParams")

    for path, module in model.named_modules():
        inside = any(is_part(ancestor) for ancestor in _above(model, path))
        if not inside and all(map(is_part, module.children())):
            yield path, module


def _above(model: Module, path: str) -> list[Module]:
    """The modules along a path, below the model."""
    names = path.split(".")
    return [model.get_submodule(".".join(names[: k + 1])) for k in range(len(names))]


def _weights(layer: Module) -> tuple[str, int]:
    """(dtype of the largest tensor, bytes of all) of a layer's state."""
    tensors = [
        tensor for value in layer.state_dict().values() for tensor in (value if type(value) is tuple else (value,))
    ]
    tensors = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    if not tensors:
        return "-", 0
    largest = max(tensors, key=lambda tensor: tensor.numel())
    return largest.dtype.name, sum((tensor._memory if tensor.is_quantized else tensor).nbytes for tensor in tensors)


def _run(model: Module, data: Any, kwargs: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The first result of each layer, and the seconds of its fastest call."""
    results: dict[str, Tensor] = {}
    seconds: dict[str, float] = {}
    starts: dict[str, float] = {}

    def before(path: str) -> Any:
        return lambda *_: starts.__setitem__(path, time.perf_counter())

    def after(path: str) -> Any:
        def keep(module: Module, inputs: Any, output: Any) -> None:
            seconds[path] = min(seconds.get(path, math.inf), time.perf_counter() - starts[path])
            first = output[0] if isinstance(output, tuple) else output
            if isinstance(first, Tensor) and path not in results:
                # calls that no graph mode looks for among those of its model
                results[path] = first.dequantize() if first.is_quantized else first.clone()

        return keep

    args = data if isinstance(data, tuple) else (data,)
    model = model._uncompiled() if hasattr(model, "_uncompiled") else model  # a compiled one would record the hooks
    with in_evaluation(model), no_grad():
        model(*args, **kwargs)  # compiles kernels
        handles = [
            handle
            for path, module in model.named_modules()
            for handle in (module.register_forward_pre_hook(before(path)), module.register_forward_hook(after(path)))
        ]
        try:
            for _ in range(_RUNS):
                model(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
    return results, seconds


def _sqnr(result: Tensor | None, expected: Tensor | None) -> float | None:
    """The ratio of signal to noise in dB; None where there is nothing to compare. In float64: squares of floats may be
    too large for float32.
    """
    if result is None or expected is None or result.shape != expected.shape:
        return None
    result, expected = result.double(), expected.double()
    noise, signal = float((result - expected).square().sum()), float(expected.square().sum())
    if noise == 0:
        return math.inf
    return 10 * (math.log10(signal) - math.log10(noise)) if signal else -math.inf


def _is_uncalibrated(module: Module) -> bool:
    low = getattr(module, "min_val", None)
    return isinstance(low, Tensor) and (low.numel() == 0 or float(low.flatten()[0]) == math.inf)


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(_TITLES))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join(lines)
