"""A recorded program in one file: its steps as JSON, its tensors as safetensors. Loading executes no code and does not need the model's Python code.

The file is a safetensors file whose metadata contains the program under the key `numod.program`; each storage of a captured tensor is a flat tensor.
The program is written as recorded, op by op; graph passes and compilation happen after loading. Optimizer steps are refused: their scalars come from Python.
Files are checked for validity, but not for safety: a program's index checks run only if the file contains them. Run only files you trust.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from typing import Any

from .. import dtypes
from ..core.random import Draw, default_generator
from ..core.tensor import Tensor, wrap
from ..device import Layout, Size
from ..device.device import Device
from ..device.layout import layout
from ..graph.program import EMPTY, Check, Program, Step, Value
from ..graph.verify import verify
from ..ops import pointwise, reduction
from ..ops.op import Op
from ..ops.reduction import Closing
from ..ops.update import Update
from .safetensors import load_file, load_metadata, save_file

KEY, FORMAT = "numod.program", 1
_LIMIT = 1 << 20  # maximum number of steps accepted from a file
_Drawn = dict[int, int]  # the number of each draw, by its id


def save_program(program: Program, filename: str | os.PathLike) -> None:
    """Write a program that `numod.graph.trace` recorded. Raises ValueError for steps that depend on this process, such as an optimizer's scalars."""
    storages: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    held = []
    for value, tensor in program.held.items():
        storage = tensor._storage
        if id(storage) not in storages:
            storages[id(storage)] = f"storage{len(storages)}"
            whole = layout((len(storage.data),), tensor.dtype, tensor.device)
            tensors[storages[id(storage)]] = wrap(storage, whole, 0)
        held.append([value.number, storages[id(storage)], tensor._offset])
    drawn: _Drawn = {}
    text = {
        "format": FORMAT, "inputs": [each.number for each in program.inputs], "shared": program.shared, "held": held,
        "layouts": [[value.number, each.dtype.name, list(each.shape), list(each.strides)] for value, each in program.layouts.items()],
        "steps": [_step(each, drawn) for each in program.steps],
        "gradients": [[leaf.number, None if each is None else each.number] for leaf, each in program.gradients.items()], "outputs": _written(program.outputs),
    }  # fmt: skip
    save_file(tensors, filename, {KEY: json.dumps(text, separators=(",", ":"))})


def load_program(filename: str | os.PathLike) -> Program:
    """The program in a file, checked by `verify`. Raises ValueError for any other file.

    Call it to run it op by op; `numod.graph.Executable(program)` compiles it.
    """
    text = load_metadata(filename).get(KEY)
    if text is None:
        raise ValueError(f"load_program: {os.fspath(filename)} holds no program")
    tensors = load_file(filename)
    try:
        return verify(_program(json.loads(text), tensors))
    except (KeyError, TypeError, IndexError, AttributeError, RuntimeError, RecursionError, NotImplementedError) as problem:
        raise ValueError(f"load_program: {os.fspath(filename)} is damaged: {type(problem).__name__}: {problem}") from problem


# ---- writing


def _step(step: Step | Check, drawn: _Drawn) -> dict[str, Any]:
    if isinstance(step, Check):
        return {"check": step.value.number, "found": _written(step.found), "where": step.where}
    if isinstance(step.op, Update):
        raise ValueError(f"save_program: {step.where} is an optimizer's step, whose numbers come from Python; record the forward pass, or the gradients")
    inputs = [_drawing(each, drawn) if isinstance(each, Draw) else _written(each) for each in step.inputs]
    return {
        "op": _name_of(step.op), "inputs": inputs, "parameters": [_written(each) for each in step.parameters],
        "results": [each.number for each in step.results], "in_place": step.in_place, "where": step.where,
    }  # fmt: skip


@cache
def _known() -> dict[str, Op]:
    """numod's ops by (kind, name)."""
    found: dict[str, Op] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("numod.ops."):
            named = [*vars(module).values(), *getattr(module, "rows", {}).values()]
            found.update({f"{type(each).__name__}.{each.name}": each for each in named if isinstance(each, Op) and each.portable})
    return found


def _drawing(draw: Draw, drawn: _Drawn) -> dict[str, Any]:
    if draw.generator is not default_generator:
        raise ValueError("save_program: a random op draws from a generator of its own, which a file cannot name; use the default one")
    return {"draw": drawn.setdefault(id(draw), len(drawn)), "count": draw.count}


def _name_of(op: Op) -> Any:
    """The name of an op; of a row derived as a gradient [row, "grad", input]."""
    if op is EMPTY:
        return "empty"
    if isinstance(op, Closing):
        return ["total", op.row.name]
    if _known().get(f"{type(op).__name__}.{op.name}") is op:
        return f"{type(op).__name__}.{op.name}"
    for base in (*pointwise.rows.values(), *[reduction.closing(each).scaled for each in pointwise.rows.values()]):
        for position, gradient in base._derived.items():
            if gradient is op:
                scaled = base.name not in pointwise.rows or pointwise.rows[base.name] is not base
                return ["total_grad" if scaled else "grad", base.name.removesuffix("_total") if scaled else base.name, position]
    raise ValueError(f"save_program: {op.name} has no name that a file could hold; save the program as it was recorded")


def _written(each: Any) -> Any:
    """A parameter, number or result as JSON."""
    if isinstance(each, Value):
        return {"value": each.number}
    if each is None or isinstance(each, (bool, str)):
        return each
    if isinstance(each, int):
        return int(each)
    if isinstance(each, float):
        return each if each - each == 0.0 else {"float": repr(each)}
    if isinstance(each, dtypes.dtype):
        return {"dtype": each.name}
    if isinstance(each, Device):
        return {"device": str(each)}
    if isinstance(each, (tuple, list)) and type(each) in (tuple, list, Size):
        return {type(each).__name__: [_written(part) for part in each]}
    if isinstance(each, slice):
        return {"slice": [each.start, each.stop, each.step]}
    if isinstance(each, dict) and all(isinstance(key, str) for key in each):
        return {"dict": [[key, _written(part)] for key, part in each.items()]}
    raise ValueError(f"save_program: a {type(each).__name__} cannot be written to a file")


# ---- reading


def _program(text: dict[str, Any], tensors: dict[str, Tensor]) -> Program:
    if text["format"] != FORMAT:
        raise ValueError(f"load_program: format {text['format']} is newer than this version, which reads {FORMAT}")
    if len(text["steps"]) > _LIMIT:
        raise ValueError(f"load_program: a program of {len(text['steps'])} steps")
    program = Program()
    program.layouts = {Value(number): _layout(*rest) for number, *rest in text["layouts"]}
    program.inputs, program.shared = [Value(each) for each in text["inputs"]], [int(each) for each in text["shared"]]
    for number, storage, offset in text["held"]:
        program.held[Value(number)] = _held(tensors[storage], program.layouts[Value(number)], offset)
    draws: dict[int, Draw] = {}
    program.steps = [_read_step(each, draws) for each in text["steps"]]
    program.gradients = {Value(leaf): None if each is None else Value(each) for leaf, each in text["gradients"]}
    program.outputs = _read(text["outputs"])
    return program


def _layout(name: str, shape: list[int], strides: list[int]) -> Layout:
    if not all(isinstance(each, int) and each >= 0 for each in (*shape, *strides)) or len(shape) != len(strides):
        raise ValueError(f"load_program: a layout of shape {shape} and strides {strides}")
    return layout(tuple(shape), dtypes.ALL[name], Device("cpu"), tuple(strides))


def _held(whole: Tensor, form: Layout, offset: int) -> Tensor:
    if form.dtype is not whole.dtype or not 0 <= offset <= whole.numel() - form.extent:
        raise ValueError("load_program: a tensor reaches beyond its memory")
    return wrap(whole._storage, form, whole._offset + offset)


def _read_step(text: dict[str, Any], draws: dict[int, Draw]) -> Step | Check:
    if "check" in text:
        return Check(Value(text["check"]), _read(text["found"]), str(text["where"]))
    inputs = tuple([_draw(each, draws) if isinstance(each, dict) and "draw" in each else _read(each) for each in text["inputs"]])
    results = tuple([Value(each) for each in text["results"]])
    return Step(_op(text["op"]), inputs, tuple([_read(each) for each in text["parameters"]]), results, bool(text["in_place"]), str(text["where"]))


def _draw(text: dict[str, Any], draws: dict[int, Draw]) -> Draw:
    if text["draw"] not in draws:
        draw = draws[text["draw"]] = Draw(0)
        draw.generator, draw.count = default_generator, int(text["count"])
    return draws[text["draw"]]


def _op(name: Any) -> Op:
    if isinstance(name, str):
        return EMPTY if name == "empty" else _known()[name]
    kind, row, *rest = name
    if kind == "total":
        return reduction.closing(pointwise.rows[row])
    base = pointwise.rows[row] if kind == "grad" else reduction.closing(pointwise.rows[row]).scaled
    found = base.gradient_of(rest[0])
    if not isinstance(found, Op):
        raise ValueError(f"load_program: {row} has no derived op for input {rest[0]}")
    return found


def _read(each: Any) -> Any:
    if not isinstance(each, dict):
        return each
    ((kind, inner),) = each.items()
    return _READERS[kind](inner)


_READERS = {
    "value": lambda inner: Value(int(inner)), "float": float, "dtype": dtypes.ALL.__getitem__, "device": Device, "slice": lambda inner: slice(*inner),
    "tuple": lambda inner: tuple([_read(part) for part in inner]), "list": lambda inner: [_read(part) for part in inner],
    "Size": lambda inner: Size([_read(part) for part in inner]), "dict": lambda inner: {key: _read(part) for key, part in inner},
}  # fmt: skip
