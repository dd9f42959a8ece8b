"""Checks of graphs and nodes, and what nodes, opsets and declared types say."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .library import onnx
from .program import UNUSED
from .registry import Operator
from .tensors import dtype_name

NEWEST_OPSET = 28


def in_checked_order(nodes: list, known: set[str]) -> Iterable:
    """The nodes, whose inputs must be known names when their turn comes.

    Raises ValueError for inputs that are made later, which is a cycle or a wrong order, or nowhere.
    """
    known = {*known, ""}
    for node in nodes:
        check_text(node.name, node.op_type, node.domain, *node.input, *node.output)
        for name in node.input:
            if name not in known:
                later = any(name in other.output for other in nodes)
                reason = "is made later: a cycle, or nodes in the wrong order" if later else "is made nowhere"
                raise ValueError(f"{label_of(node)}: its input '{name}' {reason}")
        for name in node.output:
            if name and name in known:
                raise ValueError(f"{label_of(node)}: its output '{name}' is the name of another value")
            known.add(name)
        yield node


def check_arguments(row: Operator, node: object, version: int) -> None:
    """Raises ValueError for numbers of inputs and outputs that the operator does not have."""
    count = len(node.input)
    if count < row.required or (count > len(row.inputs) and not row.variadic):
        expected = f"at least {row.required}" if row.variadic else f"{row.required} to {len(row.inputs)}"
        raise ValueError(f"has {count} inputs, expected {expected}")
    for name, value in zip(row.inputs[: row.required], node.input):
        if not value:
            raise ValueError(f"input '{name}' is missing")
    if not node.output:
        raise ValueError("has no output")
    schema = _schema(domain_of(node.domain), row.name, version)
    if schema is not None and len(node.output) > schema.max_output:
        raise ValueError(f"has {len(node.output)} outputs, expected at most {schema.max_output}")


def check_text(*names: object) -> None:
    """Raises ValueError for names that are no text, for which the package gives bytes, or that contain "\\0"."""
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"the name {name!r} is not UTF-8")
        if "\0" in name:
            raise ValueError(f"the name {name!r} contains a null character")


def schema_function(domain: str, name: str, version: int) -> object | None:
    """The body that the ONNX standard gives for an operator, where it does not depend on types."""
    schema = _schema(domain, name, version)
    return schema.function_body if schema is not None and schema.has_function else None


def _schema(domain: str, name: str, version: int) -> object | None:
    """The standard's description of an operator, or None if it has no such operator."""
    newest = onnx().defs.onnx_opset_version()
    try:
        return onnx().defs.get_schema(name, version if domain else min(version, newest), domain)
    except Exception:  # onnx.defs.SchemaError
        return None


def domain_of(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def read_opsets(imports: Iterable) -> dict[str, int]:
    opsets = {domain_of(opset.domain): opset.version for opset in imports}
    for domain, version in opsets.items():
        if version < 1 or (not domain and version > NEWEST_OPSET):
            raise ValueError(
                f"opset {version} of domain '{domain or 'ai.onnx'}' is unknown; known are 1 to {NEWEST_OPSET}"
            )
    return opsets


def full_name(domain: str, name: str) -> str:
    """An operator's name, with its domain unless that is the standard's."""
    return f"{domain}::{name}" if domain else name


def label_of(node: object) -> str:
    return f"node '{node.name or ', '.join(node.output)}' ({full_name(domain_of(node.domain), node.op_type)})"


def scope_of(node: object) -> str:
    """The path of the module that PyTorch's exporters note for a node; "" where the file has none.

    Raises ValueError for a note that is not UTF-8.
    """
    check_text(*[entry.value for entry in node.metadata_props])
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":  # such as ['', 'encoder', 'encoder.lstm', 'lstm_1']
            scopes = re.findall(r"'([^']*)'", entry.value)
            return scopes[-2] if len(scopes) > 1 else ""
    *parts, _ = node.name.split("/")  # such as /encoder/encoder.lstm/LSTM, where a part may repeat the one before
    path = ""
    for part in parts[1:]:
        path = part if not path or part.startswith(path + ".") else f"{path}.{part}"
    return path if node.name.startswith("/") else ""


def output_names(node: object) -> tuple[str, ...]:
    return tuple(name or UNUSED for name in node.output)


def declared_type(proto: object) -> tuple[str, tuple | None]:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return dtype_name(proto.tensor_type.elem_type), declared_shape(proto.tensor_type)
    if kind in ("sequence_type", "optional_type"):
        inner, _ = declared_type(getattr(proto, kind).elem_type)
        return f"{kind.removesuffix('_type')}({inner})", None
    return kind or "unknown", None


def declared_shape(tensor: object) -> tuple[int | str, ...] | None:
    if not tensor.HasField("shape"):
        return None
    return tuple(size.dim_value if size.HasField("dim_value") else size.dim_param or "?" for size in tensor.shape.dim)
