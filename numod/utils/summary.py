"""`numod.utils.summary`: the layers of a model with output shapes, parameters and multiply-adds of a forward pass."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

from .. import notebook
from ..autograd import no_grad
from ..core import Tensor
from ..core.listeners import listeners
from ..core.create.random import rand
from ..nn import Module
from ..ops import cost

_COLUMNS = {
    "output_size": "Output Shape", "input_size": "Input Shape", "num_params": "Param #", "mult_adds": "Mult-Adds",
    "memory": "Memory (MB)", "time": "Time (ms)", "trainable": "Trainable",
}  # fmt: skip
_MEGABYTE = 1e6


@dataclass
class Layer:
    """A module in the summary. Multiply-adds and seconds are summed over its calls, including its submodules."""

    name: str
    module: Module
    depth: int
    index: int
    parameters: int
    trainable: int
    repeated: bool  # whether it occurred earlier in the tree, where it is counted
    input_size: list[int] | None = None
    output_size: list[int] | None = None
    output_bytes: int = 0
    mult_adds: int = 0
    seconds: float = 0.0
    children: list[Layer] = field(default_factory=list)

    def text(self, column: str) -> str:
        """The text of a column."""
        if column == "num_params":
            return "(recursive)" if self.repeated else f"{self.parameters:,}" if self.parameters else "--"
        if column == "trainable":
            if not self.parameters:
                return "--"
            if self.trainable == self.parameters:
                return "True"
            if self.trainable:
                return "Partial"
            return "False"
        if column == "mult_adds":
            return f"{self.mult_adds:,}" if self.mult_adds else "--"
        if column == "memory":
            return f"{self.output_bytes / _MEGABYTE:.2f}" if self.output_bytes else "--"
        if column == "time":
            return f"{1e3 * self.seconds:.2f}" if self.seconds else "--"
        value = getattr(self, column)
        return "--" if value is None else str(value)

    def as_dict(self) -> dict[str, Any]:
        """The layer without its children, for JSON."""
        names = "name", "depth", "parameters", "trainable", "input_size", "output_size", "output_bytes", "mult_adds"
        return {"type": type(self.module).__name__, **{name: getattr(self, name) for name in names}}


@dataclass
class ModelStatistics:
    """The result of `summary`, which prints as a table.

    Sizes are in bytes; `total_mult_adds` counts multiply-adds of one forward pass.
    """

    root: Layer
    depth: int
    columns: tuple[str, ...]
    row_settings: tuple[str, ...]
    total_params: int
    trainable_params: int
    total_mult_adds: int
    total_input: int
    total_output_bytes: int
    total_param_bytes: int

    @property
    def summary_list(self) -> list[Layer]:
        """All layers, parents before children."""
        return list(_walk(self.root))

    def as_dict(self) -> dict[str, Any]:
        """The totals, and the layers down to `depth` as a list of dicts, for JSON."""
        layers = [layer.as_dict() for layer in self.summary_list if layer.depth <= self.depth]
        sizes = "total_params", "trainable_params", "total_mult_adds", "total_input", "total_output_bytes"
        return {**{name: getattr(self, name) for name in (*sizes, "total_param_bytes")}, "layers": layers}

    def _rows(self) -> list[tuple[str, ...]]:
        """The table's head and its rows."""
        return [("Layer (type:depth-idx)", *(_COLUMNS[column] for column in self.columns))] + [
            (label, *(layer.text(column) for column in self.columns))
            for label, layer in self._labelled(self.root, "", "")
        ]

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return notebook.table(head, rows, f"{self.total_params:,} parameters, {self.total_mult_adds:,} multiply-adds")

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[k]) for row in rows) + 4 for k in range(len(rows[0]))]
        lines = ["".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        rule = "=" * sum(widths)
        sizes = [
            ("Input size", self.total_input),
            ("Forward/backward pass size", 2 * self.total_output_bytes),
            ("Params size", self.total_param_bytes),
        ]
        sizes.append(("Estimated Total Size", sum(size for _, size in sizes)))
        totals = [
            f"Total params: {self.total_params:,}", f"Trainable params: {self.trainable_params:,}",
            f"Non-trainable params: {self.total_params - self.trainable_params:,}",
            f"Total mult-adds: {self.total_mult_adds:,}",
        ]  # fmt: skip
        return "\n".join(
            [
                rule,
                lines[0],
                rule,
                *lines[1:],
                rule,
                *totals,
                rule,
                *(f"{name} (MB): {size / _MEGABYTE:.2f}" for name, size in sizes),
                rule,
            ]
        )

    def _labelled(self, layer: Layer, before: str, branch: str) -> Iterator[tuple[str, Layer]]:
        name = type(layer.module).__name__ + (
            f" ({layer.name})" if layer.name and "var_names" in self.row_settings else ""
        )
        yield before + branch + name + (f": {layer.depth}-{layer.index}" if layer.depth else ""), layer
        if layer.depth < self.depth:
            inner = before + ("" if not branch else "│    " if branch == "├─" else "     ")
            for child in layer.children:
                yield from self._labelled(child, inner, "└─" if child is layer.children[-1] else "├─")


def summary(
    model: Module,
    input_size: Sequence | None = None,
    input_data: Any = None,
    *,
    batch_dim: int | None = None,
    col_names: Sequence[str] | None = None,
    depth: int = 3,
    device: Any = None,
    dtypes: Sequence[Any] | None = None,
    mode: str = "same",
    row_settings: Sequence[str] = (),
    verbose: int | None = None,
    **kwargs: Any,
) -> ModelStatistics:
    """Run `model` once, without gradients, and list each layer's output shape, parameters and multiply-adds.

    `input_size` is a shape or a list of shapes for uniform random inputs of `dtypes`; `batch_dim` inserts a batch of
    one. `input_data` is the input itself: a tensor, a tuple, or a dict of keyword arguments. `kwargs` are passed to the
    model. The columns are output_size, input_size, num_params, mult_adds, memory (of the output), time (of a second
    pass, since the first may compile) and trainable. Shared modules are counted once. The result is printed unless
    `verbose` is 0; by default not in a notebook, which shows it itself. Raises ValueError for unknown columns and
    modes.
    """
    columns = tuple(col_names) if col_names is not None else ("output_size", "num_params", "mult_adds")
    unknown = [column for column in columns if column not in _COLUMNS]
    if unknown or mode not in ("same", "train", "eval"):
        problem = (
            f"column {unknown[0]!r} is unknown; choose from {', '.join(_COLUMNS)}"
            if unknown
            else f"mode must be 'same', 'train' or 'eval', got {mode!r}"
        )
        raise ValueError(f"summary: {problem}")
    if input_size is not None and input_data is not None:
        raise ValueError("summary: give input_size or input_data, not both")
    arguments, keywords = _inputs(input_size, input_data, batch_dim, device, dtypes)
    root = _tree(model)
    layers = {id(layer.module): layer for layer in reversed(list(_walk(root)))}
    _run(model, layers, mode, arguments, {**keywords, **kwargs}, "time" in columns)
    parameters = {id(parameter): parameter for parameter in model.parameters()}.values()
    counted = [layer for layer in _walk(root) if not layer.children and not layer.repeated]
    result = ModelStatistics(
        root, depth, columns, tuple(row_settings), sum(parameter.numel() for parameter in parameters),
        sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        root.mult_adds,
        sum(_bytes(tensor) for tensor in _tensors((arguments, keywords))), sum(layer.output_bytes for layer in counted),
        sum(map(_bytes, parameters)),
    )  # fmt: skip
    if not notebook.in_notebook() if verbose is None else verbose:
        print(result)
    return result


def _inputs(
    size: Any, data: Any, batch_dim: int | None, device: Any, kinds: Sequence[Any] | None
) -> tuple[tuple, dict]:
    """The (positional, keyword) arguments of the model's call."""
    if isinstance(data, Mapping):
        return (), dict(data)
    if data is not None:
        return (tuple(data) if isinstance(data, (tuple, list)) else (data,)), {}
    if size is None:
        return (), {}
    sizes = [size] if all(isinstance(entry, int) for entry in size) else list(size)
    tensors = []
    for k, entry in enumerate(sizes):
        shape = list(entry)
        if batch_dim is not None:
            shape.insert(batch_dim, 1)
        values = rand(tuple(shape), device=device)
        tensors.append(values.to(kinds[k]) if kinds else values)
    return tuple(tensors), {}


def _tree(model: Module) -> Layer:
    """The model and its submodules as a tree of rows."""
    seen: set[int] = set()
    numbers: dict[int, int] = {}

    def layer_of(name: str, module: Module, depth: int) -> Layer:
        numbers[depth] = numbers.get(depth, 0) + 1
        parameters = {id(parameter): parameter for parameter in module.parameters()}.values()
        repeated = id(module) in seen
        seen.add(id(module))
        layer = Layer(
            name,
            module,
            depth,
            numbers[depth],
            sum(parameter.numel() for parameter in parameters),
            sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
            repeated,
        )
        if not repeated:
            layer.children = [
                layer_of(key, child, depth + 1) for key, child in module._modules.items() if child is not None
            ]
        return layer

    return layer_of("", model, 0)


def _walk(layer: Layer) -> Iterator[Layer]:
    yield layer
    for child in layer.children:
        yield from _walk(child)


def _run(model: Module, layers: dict[int, Layer], mode: str, arguments: tuple, keywords: dict, twice: bool) -> None:
    """Run one forward pass, or two if `twice`. Multiply-adds are added to all enclosing modules."""
    stack: list[tuple[Layer, float]] = []

    def count(op: Any, inputs: tuple, parameters: tuple, outputs: tuple, in_place: bool) -> None:
        multiply_adds = cost.multiply_adds(
            op,
            tuple(getattr(input, "_layout", type(input)) for input in inputs),
            parameters,
            tuple(output._layout for output in outputs),
        )
        for layer, _ in stack if multiply_adds else ():
            layer.mult_adds += multiply_adds

    def before_forward(module: Module, args: tuple) -> None:
        layer = layers[id(module)]
        layer.input_size = next((list(tensor.shape) for tensor in _tensors(args)), None)
        stack.append((layer, time.perf_counter()))

    def after_forward(module: Module, args: tuple, result: Any) -> None:
        layer, start = stack.pop()
        layer.seconds += time.perf_counter() - start
        results = list(_tensors(result))
        layer.output_size, layer.output_bytes = (list(results[0].shape) if results else None), sum(map(_bytes, results))

    count.thread = get_ident()  # ignore ops of other threads
    before = [(module, module.training) for module in model.modules()]
    with ExitStack() as exits, no_grad():
        exits.callback(lambda: [setattr(module, "training", mode_before) for module, mode_before in before])
        if mode != "same":
            model.train(mode == "train")
        if twice:
            model(*arguments, **keywords)
        for module in model.modules():
            exits.enter_context(module.register_forward_pre_hook(before_forward))
            exits.enter_context(module.register_forward_hook(after_forward))
        listeners.append(count)
        exits.callback(listeners.remove, count)
        model(*arguments, **keywords)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
