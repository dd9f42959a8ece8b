"""Nested containers described in JSON next to their tensors, and rebuilt from it. `safetensors` has the file format.

null, bools, numbers, strings and lists are written as they are. Everything else is an object with one tag: `{"tensor":
"model.0.weight"}`, `{"tuple": [1, 2]}`, `{"dict": {"lr": 0.1}}`, `{"items": [[0, "a"]]}` (a dict with keys that are not
text), `{"float": "nan"}`. Overlapping tensors are views of one stored tensor: `{"tensor": name, "view": [offset, shape,
strides]}`.

Security. Reading a description builds plain data, with memory proportional to its length, and views of the file's
tensors, checked to lie within them.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np

from .. import dtypes
from ..core.tensor import Tensor, wrap
from ..device import Size
from ..device.device import Device
from ..device.layout import layout
from ..nn.parameter import Parameter
from .keys import checked_key
from .refusal import CheckpointError, shorten
from .saveable import MAPPINGS, SETS, quantized_parts, tensors_of
from .torch_objects import number_dtype, quantized_tensor, window

_CLASSES = {kind.__name__: kind for kind in (OrderedDict, Counter, tuple, set, frozenset)}
_MAX_INTEGER = 1 << 63  # largest int in JSON; larger ones are written in hexadecimal


class Description:
    """An object as JSON text, and the tensors it refers to by name. Equal views of one storage share a name."""

    def __init__(self, obj: object) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._nodes: dict[tuple, dict[str, Any]] = {}
        tensors = tensors_of(obj)
        self._paths = {path for path, _ in tensors}
        self._name_tensors(tensors)
        self.text = json.dumps(self._encode(obj), separators=(",", ":"), allow_nan=False)

    def is_flat_dict_of(self, names: list[str]) -> bool:
        """Whether the object is just a dict of these tensors by name, so that the file needs no description."""
        return self.text == json.dumps({"dict": {name: {"tensor": name} for name in names}}, separators=(",", ":"))

    def _name_tensors(self, tensors: list[tuple[str, Tensor]]) -> None:
        """Choose what to store under which name.

        A view that overlaps no other is stored as it is. Overlapping views are stored as the memory that they span.
        """
        first: dict[tuple, tuple[int, str, Tensor]] = {}
        for position, (path, tensor) in enumerate(tensors):
            first.setdefault(_window_of(tensor), (position, path, tensor))
        groups: list[list] = []
        group_end = 0  # end of the last group in the storage
        for key, (position, path, tensor) in sorted(first.items(), key=lambda item: (item[0][0], item[1][2]._offset)):
            if not groups or groups[-1][0][3]._storage is not tensor._storage or tensor._offset >= group_end:
                groups.append([])
                group_end = 0
            groups[-1].append((position, key, path, tensor))
            group_end = max(group_end, tensor._offset + tensor._layout.extent)
        in_order = [sorted(group, key=itemgetter(0)) for group in groups]
        for group in sorted(in_order, key=lambda group: group[0][0]):
            self._name_group(group)

    def _name_group(self, group: list[tuple[int, tuple, str, Tensor]]) -> None:
        _, key, path, tensor = group[0]
        if len(group) == 1:
            self._nodes[key] = {"tensor": self._add(path, tensor)}
            return
        begin = min(view._offset for *_, view in group)
        end = max(view._offset + view._layout.extent for *_, view in group)
        while path in self._paths:  # the views may be stored under their paths as well, so choose an unused name
            path += ".storage"
        name = self._add(path, wrap(tensor._storage, layout((end - begin,), tensor.dtype, tensor.device), begin))
        for _, key, _, view in group:
            self._nodes[key] = {"tensor": name, "view": [view._offset - begin, list(view.shape), list(view.stride())]}

    def _add(self, path: str, tensor: Tensor) -> str:
        name = path = path.encode("utf-8", "replace").decode()
        while name in self.tensors or name == "__metadata__":
            name = f"{path}#{len(self.tensors)}"
        self.tensors[name] = tensor
        return name

    def _encode(self, value: object) -> Any:
        kind = type(value)
        if isinstance(value, Tensor) and value.is_quantized:
            return {"quantized": self._encode(quantized_parts(value))}
        if isinstance(value, Tensor):
            return self._encode_tensor(value)
        if kind in MAPPINGS:
            return self._encode_mapping(value)
        if kind is list:
            return [self._encode(item) for item in value]
        if kind is tuple or kind in SETS:
            return {kind.__name__: [self._encode(item) for item in value]}
        return _encode_plain(value)

    def _encode_tensor(self, tensor: Tensor) -> dict[str, Any]:
        node = dict(self._nodes[_window_of(tensor)])
        if tensor.device.type != "cpu":
            node["device"] = str(tensor.device)
        if tensor.requires_grad:
            node["requires_grad"] = True
        if isinstance(tensor, Parameter):
            node["parameter"] = True
        return node

    def _encode_mapping(self, value: dict) -> dict[str, Any]:
        tag = {} if type(value) is dict else {"class": type(value).__name__}
        if hasattr(value, "_metadata"):
            tag["_metadata"] = self._encode(value._metadata)
        if all(type(key) is str for key in value):
            return {"dict": {key: self._encode(item) for key, item in value.items()}, **tag}
        return {"items": [[self._encode(key), self._encode(item)] for key, item in value.items()], **tag}


def _window_of(tensor: Tensor) -> tuple:
    return id(tensor._storage), tensor._offset, tensor._layout


def _encode_plain(value: Any) -> Any:
    kind = type(value)
    if kind in (bool, str, type(None)):
        return value
    if kind is int:
        return value if abs(value) < _MAX_INTEGER else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if kind in (bytes, bytearray):
        return {kind.__name__: base64.b64encode(value).decode()}
    if kind is Size:
        return {"Size": list(value)}
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    if kind is Device:
        return {"device": str(value)}
    if isinstance(value, np.dtype):
        return {"numpy": value.newbyteorder("<").str}
    return _encode_numpy(value)


def _encode_numpy(value: np.generic | np.ndarray) -> dict[str, Any]:
    little = np.asarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
    node = {"numpy": little.dtype.str, "data": base64.b64encode(little.tobytes()).decode()}
    return {**node, "shape": list(value.shape)} if isinstance(value, np.ndarray) else node


def build_object(text: str, tensor_of: Callable[[str, str], tuple[Tensor, tuple]]) -> Any:
    """The object that a text describes.

    `tensor_of(name, device)` returns a stored tensor's flat values and its shape. Raises ValueError for an invalid
    text.
    """
    try:
        return _Builder(tensor_of).decode(json.loads(text, parse_constant=_refuse_constant))
    except RecursionError:
        raise ValueError("the structure is nested too deeply") from None
    except CheckpointError:
        raise
    except (TypeError, LookupError, AttributeError, OverflowError, RuntimeError) as error:
        raise ValueError(f"the structure is not valid: {error}") from None


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


class _Builder:
    """Rebuilds an object from its description, tag by tag."""

    def __init__(self, tensor_of: Callable[[str, str], tuple[Tensor, tuple]]) -> None:
        self.tensor_of = tensor_of
        self.makers: dict[str, Callable[[dict], Any]] = {
            "tensor": self._tensor,
            "dict": lambda node: self._mapping(node, node["dict"].items()),
            "items": lambda node: self._mapping(node, [(self.decode(key), value) for key, value in node["items"]]),
            "tuple": lambda node: tuple(self._list(node["tuple"])),
            "set": lambda node: {checked_key(member) for member in self._list(node["set"])},
            "frozenset": lambda node: frozenset(checked_key(member) for member in self._list(node["frozenset"])),
            "int": lambda node: int(node["int"], 16),
            "float": lambda node: float(node["float"]),
            "complex": lambda node: complex(*map(float, node["complex"])),
            "bytes": lambda node: _data(node["bytes"]),
            "bytearray": lambda node: bytearray(_data(node["bytearray"])),
            "Size": lambda node: Size(_integers(node["Size"])),
            "dtype": lambda node: {**dtypes.ALL, **dtypes.QUANTIZED}[node["dtype"]],
            "quantized": lambda node: _quantized(self.decode(node["quantized"])),
            "numpy": _numpy,
            "device": lambda node: Device(node["device"]),
        }

    def decode(self, node: Any) -> Any:
        """The object described by a node."""
        if isinstance(node, list):
            return self._list(node)
        if not isinstance(node, dict):
            return node
        for tag in self.makers:
            if tag in node:
                return self.makers[tag](node)
        raise ValueError(f"{shorten(node)} has no tag that this version of numod supports")

    def _list(self, nodes: list) -> list:
        if not isinstance(nodes, list):
            raise ValueError(f"expected a list, got {shorten(nodes)}")
        return [self.decode(node) for node in nodes]

    def _mapping(self, node: dict, pairs: Any) -> dict:
        kind = dict if "class" not in node else _CLASSES[node["class"]]
        if kind not in MAPPINGS:
            raise ValueError(f"{shorten(node['class'])} is not a dict class")
        result = kind()
        for key, value in pairs:
            result[checked_key(key)] = self.decode(value)
        if "_metadata" in node and kind is OrderedDict:
            result._metadata = self.decode(node["_metadata"])
        return result

    def _tensor(self, node: dict) -> Tensor:
        values, shape = self.tensor_of(node["tensor"], node.get("device", "cpu"))
        offset, shape, strides = node.get("view", (0, shape, None))
        tensor = window(values, offset, shape, strides)
        requires_grad = node.get("requires_grad") is True
        return (
            Parameter(tensor, requires_grad) if node.get("parameter") is True else tensor.requires_grad_(requires_grad)
        )


def _quantized(parts: object) -> Tensor:
    names = {"integers", "dtype", "scheme", "scale", "zero_point", "axis"}
    if not isinstance(parts, dict) or parts.keys() - {"shape"} != names:
        raise ValueError(f"expected the parts of a quantized tensor, got {shorten(parts)}")
    return quantized_tensor(**parts)


def _data(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _integers(values: list) -> list[int]:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError(f"expected integers, got {shorten(values)}")
    return values


def _numpy(node: dict) -> np.dtype | np.generic | np.ndarray:
    kind = number_dtype(node["numpy"])
    if "data" not in node:
        return kind
    values = np.frombuffer(_data(node["data"]), kind).astype(kind.newbyteorder("="))
    return values.reshape(_integers(node["shape"])) if "shape" in node else values[0]
