"""An ONNX model of a graph, by the onnx package, and the files that it is written to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...export import polynomial
from ...version import release
from ..symbols import Extent, Size
from .graph import Graph, Initializer

IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}  # by opset: as low as it allows
MAX_MESSAGE_BYTES = 2_000_000_000  # bytes of a protobuf message that every reader takes
_ALIGNMENT, _SMALLEST = 4096, 1024  # of tensors in a file of their own; smaller ones stay in the model


@dataclass
class Variable:
    """An input or output of the model."""

    name: str
    element_type: int
    shape: tuple[Extent, ...]

    def sizes(self, labels: Sequence[str]) -> list[int | str]:
        """The sizes; those that vary as texts with the names of dynamic dimensions."""
        return [polynomial.text(n.terms, labels) if isinstance(n, Size) else n for n in self.shape]


@dataclass
class Model:
    """All that a file says. `labels`: the names of the dynamic dimensions. `weights`: the names of the state dict's
    tensors in the file, by their names in the state dict.
    """

    graph: Graph
    title: str
    inputs: list[Variable]
    outputs: list[Variable]
    labels: list[str]
    weights: dict[str, str]

    @property
    def nbytes(self) -> int:
        """The bytes of the weights."""
        return sum(len(item.data) for item in self.graph.initializers.values())

    def proto(self, onnx: Any, placed: dict[str, tuple[str, int]] | None = None) -> Any:
        """The ModelProto. `placed`: (file, offset) of tensors that are in a file of their own, by name."""
        helper, placed = onnx.helper, placed or {}
        graph = helper.make_graph(
            [_node(helper, node, k) for k, node in enumerate(self.graph.nodes)],
            self.title,
            [self._variable(helper, item) for item in self.inputs],
            [self._variable(helper, item) for item in self.outputs],
            [_tensor(onnx, name, item, placed.get(name)) for name, item in self.graph.initializers.items()],
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.graph.opset)],
            ir_version=IR_VERSIONS[self.graph.opset],
            producer_name="numod",
            producer_version=release,
        )

    def _variable(self, helper: Any, variable: Variable) -> Any:
        return helper.make_tensor_value_info(variable.name, variable.element_type, variable.sizes(self.labels))

    def save(self, onnx: Any, path: str | os.PathLike, external: bool) -> None:
        """Write the model to a file; the weights to `<path>.data` if `external`, or if they are too large.

        Files are written under other names first, so that a failure leaves what was there.
        """
        path = os.fspath(path)
        folder, name = os.path.split(os.path.abspath(path))
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder) as temporary:
            placed: dict[str, tuple[str, int]] = {}
            data_name = f"{name}.data"
            if external or self.nbytes > MAX_MESSAGE_BYTES:
                placed = self._write_data(os.path.join(temporary, data_name), data_name)
            model = self.proto(onnx, placed).SerializeToString()
            _write(os.path.join(temporary, name), [model])
            for file in [data_name] * bool(placed) + [name]:
                os.replace(os.path.join(temporary, file), os.path.join(folder, file))

    def _write_data(self, path: str, name: str) -> dict[str, tuple[str, int]]:
        """Write the large tensors to one file, aligned so that it can be mapped; where they are, by name."""
        placed, at, parts = {}, 0, []
        for key, item in self.graph.initializers.items():
            if len(item.data) >= _SMALLEST:
                gap = -at % _ALIGNMENT
                placed[key] = name, at + gap
                parts += [bytes(gap), item.data]
                at += gap + len(item.data)
        if placed:
            _write(path, parts)
        return placed


def _write(path: str, parts: Sequence[bytes]) -> None:
    with open(path, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _node(helper: Any, node: Any, number: int) -> Any:
    attributes = {key: _plain(value) for key, value in node.attributes.items()}
    name = node.outputs[0] if node.path else f"{node.op}_{number}"
    return helper.make_node(
        node.op, node.inputs, node.outputs, name=name, doc_string=node.location or None, **attributes
    )


def _plain(value: Any) -> Any:
    """An attribute as the onnx package takes it."""
    if isinstance(value, (list, tuple, range)):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, (np.integer, bool)) else value


def _tensor(onnx: Any, name: str, initializer: Initializer, location: tuple[str, int] | None) -> Any:
    tensor = onnx.TensorProto(name=name, data_type=initializer.element_type, dims=initializer.shape)
    if location is None:
        tensor.raw_data = initializer.data
        return tensor
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location[0]), ("offset", location[1]), ("length", len(initializer.data))):
        tensor.external_data.add(key=key, value=str(value))
    return tensor
