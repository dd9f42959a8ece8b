"""What an ONNX file contains: inputs, outputs, operators, parameters, and all that numod does not support."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from .build import Builder, problem_lines
from .checks import full_name
from .load import read_model


def summary(file: str | os.PathLike | bytes | object) -> str:
    """A description of an ONNX file, whether or not numod can load it.

    Raises ValueError for damaged files, and ImportError without the package `onnx`.
    """
    model, folder = read_model(file)
    builder = Builder(model, folder)
    module = builder.module()
    opsets = ", ".join(f"{value.domain or 'ai.onnx'} {value.version}" for value in model.opset_import)
    parameters, buffers = list(module.parameters()), list(module.buffers())
    lines = [
        f"model     {model.graph.name or 'without a name'}, by {model.producer_name or 'unknown'}"
        f" {model.producer_version}".rstrip(),
        f"format    IR {model.ir_version}, opset {opsets}",
        *_column("inputs", map(str, module.inputs)),
        *_column("outputs", map(str, module.outputs)),
        f"weights   {_amount(parameters, 'parameters')}, {_amount(buffers, 'buffers')}",
        *_column("operators", _operator_counts(model)),
    ]
    if builder.problems:
        lines += _column("missing", problem_lines(builder.problems))
    else:
        lines += ["numod supports all of it"]
    return "\n".join(map(printable, lines))


def printable(text: str) -> str:
    """`text` with "?" for characters that control a terminal: names in a file may have any."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _column(title: str, rows: Iterable[str]) -> list[str]:
    """The rows under each other, after a title."""
    return [f"{title if row_number == 0 else '':<10}{row}" for row_number, row in enumerate(rows)]


def _amount(tensors: list, name: str) -> str:
    return f"{sum(tensor.numel() for tensor in tensors):,} in {len(tensors)} {name}"


def _operator_counts(model: object) -> list[str]:
    """Each operator with how often it occurs, in functions and subgraphs too."""
    counts: Counter[str] = Counter()
    pending = [model.graph.node, *(function.node for function in model.functions)]
    while pending:
        for node in pending.pop():
            counts[full_name(node.domain, node.op_type)] += 1
            for attribute in node.attribute:
                pending += [graph.node for graph in (attribute.g, *attribute.graphs) if graph.node]
    return [f"{count:5} {name}" for name, count in sorted(counts.items())]
