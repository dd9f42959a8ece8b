"""Attributes of nodes, as Python values of the types that an operator's function declares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .checks import check_text
from .library import onnx
from .registry import Operator
from .tensors import read_tensor, to_dtype

# the AttributeProto.AttributeType for each annotation
_KINDS = {
    "int": "INT",
    "bool": "INT",
    "dtype": "INT",
    "float": "FLOAT",
    "str": "STRING",
    "np.ndarray": "TENSOR",
    "Program": "GRAPH",
    "ElementType": "TYPE_PROTO",
    "list[int]": "INTS",
    "list[float]": "FLOATS",
    "list[str]": "STRINGS",
}


def read_attributes(
    node: object, operator: Operator, read_graph: Callable[[object], object], folder: Path | None
) -> dict[str, object]:
    """The keyword arguments of the operator's function for a node. `folder` may contain external data.

    Raises ValueError for attributes that are unknown, missing or of a wrong type.
    """
    values = {}
    for attribute in node.attribute:
        check_text(attribute.name)
        row = operator.attributes.get(attribute.name)
        if row is None:
            if not attribute.name.startswith("_"):  # notes of tools
                raise ValueError(f"attribute '{attribute.name}' is unknown in version {operator.since}")
            continue
        _check_kind(attribute, row.kind)
        values[attribute.name] = _convert(attribute, row.kind, read_graph, folder)
    missing = [name for name, row in operator.attributes.items() if row.required and name not in values]
    if missing:
        raise ValueError(f"attribute '{missing[0]}' is missing")
    return values


def kind_name(attribute: object) -> str:
    """The type of an attribute: INT, FLOATS, GRAPH …"""
    try:
        return onnx().AttributeProto.AttributeType.Name(attribute.type)
    except ValueError:
        return f"number {attribute.type}"


def _check_kind(attribute: object, kind: str) -> None:
    expected, actual = _KINDS[kind], kind_name(attribute)
    if actual != expected:
        raise ValueError(f"attribute '{attribute.name}' must be of type {expected}, got {actual}")


def _convert(attribute: object, kind: str, read_graph: Callable[[object], object], folder: Path | None) -> object:
    """The value of an ONNX attribute as the `kind` of an operator's parameter."""
    if kind == "dtype":
        return to_dtype(attribute.i)
    if kind == "ElementType":
        return None
    if kind == "Program":
        return read_graph(attribute.g)
    if kind == "np.ndarray":
        return read_tensor(attribute.t, folder)
    if kind == "str":
        return _text(attribute.s)
    if kind == "list[str]":
        return [_text(text) for text in attribute.strings]
    if kind in ("int", "bool"):
        return attribute.i
    if kind == "float":
        return attribute.f
    return list(attribute.ints if kind == "list[int]" else attribute.floats)


def _text(text: bytes) -> str:
    return text.decode("utf-8", "replace")
