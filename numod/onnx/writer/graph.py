"""An ONNX graph under construction: nodes, initializers, and arithmetic on sizes. It does not need the onnx package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import dtypes
from ...core.tensor import Tensor
from ...dtypes import dtype as DType
from ..symbols import Extent, Ratio, Size

UNSUPPORTED = "?"  # the op of a node that cannot be exported
ELEMENT_TYPES = {  # TensorProto.DataType
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip


class Unsupported(Exception):
    """A step that ONNX cannot express; the text says why and what to do."""


@dataclass
class Node:
    """An ONNX node. `location` is the user's line, `path` the module's."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    location: str = ""
    path: str = ""


@dataclass
class Initializer:
    """A constant tensor: little-endian bytes."""

    element_type: int
    shape: tuple[int, ...]
    data: bytes


@dataclass
class Graph:
    """Nodes and initializers. `opset` is the version of the default domain.

    `dimensions`: for each dynamic dimension, the input from which its size is read, as (input's name, dimension,
    factor, offset) with input.shape[dimension] = factor * size + offset.
    """

    opset: int
    dimensions: list[tuple[str, int, int, int]]
    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, Initializer] = field(default_factory=dict)
    location: str = ""  # of the next nodes
    path: str = ""

    def __post_init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._constants: dict[tuple, str] = {}
        self._sizes: dict[Any, str] = {}
        self._taken: set[str] = set()

    # ---- names

    def unique(self, hint: str) -> str:
        """A name that no tensor of the graph has."""
        name = hint
        while name in self._taken:
            self._counts[hint] = self._counts.get(hint, 0) + 1
            name = f"{hint}_{self._counts[hint]}"
        self._taken.add(name)
        return name

    # ---- nodes

    def node(self, op: str, *inputs: str, outputs: int = 1, name: str = "", **attributes: Any) -> Any:
        """Append a node; its output's name, or a tuple of them if there are several."""
        hint = name or (f"{self.path}/{op}" if self.path else op)
        results = tuple([self.unique(hint if k == 0 else f"{hint}_{k}") for k in range(outputs)])
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(Node(op, inputs, results, attributes, self.location, self.path))
        return results[0] if outputs == 1 else results

    def refuse(self, reason: str, outputs: int, inputs: Sequence[str] = ()) -> tuple[str, ...]:
        """A node that stands for a step which cannot be exported. It is reported if a result depends on it."""
        results = tuple([self.unique("unsupported") for _ in range(outputs)])
        self.nodes.append(Node(UNSUPPORTED, tuple(inputs), results, {"reason": reason}, self.location, self.path))
        return results

    def prune(self, outputs: Sequence[str]) -> None:
        """Remove nodes and initializers on which no output depends."""
        needed, remaining = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                remaining.append(node)
        self.nodes = remaining[::-1]
        self.initializers = {name: initializer for name, initializer in self.initializers.items() if name in needed}

    # ---- constants

    def constant(self, value: Any, dtype: DType = dtypes.int64) -> str:
        """The name of a constant: a number or a (nested) list of numbers. Equal ones are shared."""
        array = np.asarray(value, dtype=_array_dtype(dtype))
        data = _bfloat16(array) if dtype is dtypes.bfloat16 else array.tobytes()
        key = (dtype.name, array.shape, data)
        if key not in self._constants:
            name = self._constants[key] = self.unique("constant")
            self.initializers[name] = Initializer(element_type(dtype), array.shape, data)
        return self._constants[key]

    def tensor(self, tensor: Tensor, name: str) -> str:
        """The name of an initializer with a tensor's elements."""
        dense = tensor.detach().contiguous()
        elements = dense._storage.data[dense._offset : dense._offset + dense.numel()]
        name = self.unique(name)
        self.initializers[name] = Initializer(element_type(dense.dtype), tuple(dense.shape), elements.tobytes())
        return name

    # ---- sizes

    def sizes(self, extents: Sequence[Extent]) -> str:
        """The name of a vector of int64 with these sizes."""
        extents = tuple(extents)
        if not any(isinstance(size, Size) for size in extents):
            return self.constant(np.asarray(extents, np.int64).reshape(-1))
        if extents not in self._sizes:
            parts = [self._vector(size) for size in extents]
            self._sizes[extents] = parts[0] if len(parts) == 1 else self._node_of_sizes("Concat", *parts, axis=0)
        return self._sizes[extents]

    def number(self, value: Any, dtype: DType) -> str:
        """The name of a scalar: a number, a size, or a number divided by a size."""
        if isinstance(value, Ratio):
            divisor = self.number(value.size, dtype)
            return self.node("Div", self.constant(value.numerator, dtype), divisor)
        if not isinstance(value, Size):
            return self.constant(value, dtype)
        scalar = self.node("Squeeze", self.sizes([value]), self.constant([0]))
        return scalar if dtype is dtypes.int64 else self.cast(scalar, dtype)

    def _vector(self, size: Extent) -> str:
        """A vector with one size."""
        if not isinstance(size, Size):
            return self.constant([size])
        if size not in self._sizes:
            self._sizes[size] = self._sum(size)
        return self._sizes[size]

    def _sum(self, size: Size) -> str:
        total = ""
        for coefficient, powers in size.terms:
            factors = [self._symbol(k) for k, power in enumerate(powers) for _ in range(power)]
            if coefficient != 1 or not factors:
                factors.append(self.constant([coefficient]))
            term = factors[0]
            for factor in factors[1:]:
                term = self._node_of_sizes("Mul", term, factor)
            total = self._node_of_sizes("Add", total, term) if total else term
        return total

    def _symbol(self, number: int) -> str:
        """A vector with the size of a dynamic dimension."""
        key = ("symbol", number)
        if key not in self._sizes:
            name, dimension, factor, offset = self.dimensions[number]
            size = self._node_of_sizes("Shape", name, start=dimension, end=dimension + 1)
            if offset:
                size = self._node_of_sizes("Sub", size, self.constant([offset]))
            self._sizes[key] = self._node_of_sizes("Div", size, self.constant([factor])) if factor != 1 else size
        return self._sizes[key]

    def _node_of_sizes(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node whose value all steps share: it has no module and no line."""
        path, location, self.path, self.location = self.path, self.location, "", ""
        try:
            return self.node(op, *inputs, name=f"sizes/{op}", **attributes)
        finally:
            self.path, self.location = path, location

    # ---- conversions of dtype and shape

    def cast(self, name: str, dtype: DType) -> str:
        """A tensor in another dtype."""
        return self.node("Cast", name, to=element_type(dtype))

    def reshape(self, name: str, old: Sequence[Extent], new: Sequence[Extent]) -> str:
        """A tensor of shape `old` in the shape `new`; sizes are written as 0 and -1 where these are exact."""
        if tuple(old) == tuple(new):
            return name
        if 0 in new:
            return self.node("Reshape", name, self.sizes(new), allowzero=1)
        targets: list[Extent] = [
            0 if isinstance(size, Size) and k < len(old) and old[k] == size else size for k, size in enumerate(new)
        ]
        dynamic = [k for k, size in enumerate(targets) if isinstance(size, Size)]
        if dynamic:
            targets[dynamic[-1]] = -1
        return self.node("Reshape", name, self.sizes(targets))

    def expand(self, name: str, old: Sequence[Extent], new: Sequence[Extent]) -> str:
        """A tensor of shape `old` broadcast to the shape `new`."""
        return name if tuple(old) == tuple(new) else self.node("Expand", name, self.sizes(new))

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """A tensor with permuted dimensions."""
        return name if list(order) == sorted(order) else self.node("Transpose", name, perm=list(order))

    def squeeze(self, name: str, dims: Sequence[int]) -> str:
        """A tensor without dimensions of size 1."""
        return self.node("Squeeze", name, self.constant(list(dims))) if dims else name

    def unsqueeze(self, name: str, dims: Sequence[int]) -> str:
        """A tensor with more dimensions of size 1."""
        return self.node("Unsqueeze", name, self.constant(list(dims))) if dims else name

    def slice(self, name: str, dim: int, start: Extent, stop: Extent, step: int = 1) -> str:
        """Elements from `start` to `stop` along a dimension."""
        bounds = [self.sizes([start]), self.sizes([stop]), self.constant([dim])]
        return self.node("Slice", name, *bounds, *([] if step == 1 else [self.constant([step])]))

    def reduce(self, op: str, name: str, dims: Sequence[int], keepdims: bool = True) -> str:
        """A reduction, whose dimensions are an attribute before opset 18 and an input from then on."""
        if not dims:
            return name
        if self.opset < 18 and op != "ReduceSum":
            return self.node(op, name, axes=list(dims), keepdims=int(keepdims))
        return self.node(op, name, self.constant(list(dims)), keepdims=int(keepdims))


def element_type(dtype: DType) -> int:
    """The number of a dtype in ONNX. Raises Unsupported for complex ones."""
    if dtype.name not in ELEMENT_TYPES:
        raise Unsupported(f"{dtype} is no type of ONNX's operators; use real and imaginary parts as float tensors")
    return ELEMENT_TYPES[dtype.name]


def _array_dtype(dtype: DType) -> Any:
    return np.dtype("float32" if dtype is dtypes.bfloat16 else dtype.name)


def _bfloat16(array: np.ndarray) -> bytes:
    """float32 numbers rounded to bfloat16."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).reshape(-1)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array).reshape(-1), 0x7FC0, rounded).astype(np.uint16).tobytes()
