"""A recorded program in one file: its steps as JSON, its tensors as safetensors.

Loading executes no code and does not need the model's Python code.

The file is a safetensors file whose metadata contains the program under the key `numod.program`; each storage of a
captured tensor is a flat tensor. The program is written as recorded, op by op; graph passes and compilation happen
after loading. Optimizer steps are refused: their scalars come from Python.

What a file can make its reader do. Loading: parse JSON and make tensors, with memory in proportion to the file's size;
no path but the file's own is opened, no name in it is imported, no text of it gets into a kernel's source. A step names
one of numod's ops, whose contract (`ops.contract`) its inputs and attributes must fit, in type, range and length,
before anything is planned (`graph.verify`). Running: numod's ops on tensors of the sizes that the file says, so a
program may take any time and memory, as its `layouts` and steps tell; it writes to its own tensors and, as recorded
programs do, to its inputs and to gradients; it advances the default generator. Indices are checked where memory is read
by them (`graph.bounds`), whether the file has such checks or not.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from .. import dtypes
from ..core.create.random import Draw, default_generator
from ..core.tensor import Tensor, wrap
from ..device import Layout, Size
from ..device.device import Device
from ..device.layout import layout
from ..graph.ir.bounds import bounded
from ..graph.ir.program import EMPTY, Check, Program, Step, Value
from ..graph.ir.verify import verify
from ..ops import pointwise
from ..ops.reduce import reduction
from ..ops.op import Op
from ..ops.pointwise import OverComplex
from ..ops.reduce.reduction import FusedMapReduce
from ..ops.update import Update
from ..ops.update import rows as updates
from .refusal import shorten
from .safetensors import load_file, load_metadata, save_file
from .torch_objects import is_index

KEY, FORMAT = "numod.program", 1
_LIMIT = 1 << 20  # maximum number of steps accepted from a file
_NUMBERS = 1 << 40  # of values: they stand in messages and printed programs
_MAX_DIMENSIONS, _MOST = 64, 1 << 60  # dimensions and elements of a layout
_DEPTH = 50  # of containers in results and attributes
_WHERE = 200  # characters of a line's name, which is only shown
_Drawn = dict[int, int]  # the number of each draw, by its id


def save_program(
    program: Program, filename: str | os.PathLike, about: Any = None, further: dict[str, Tensor] | None = None
) -> None:
    """Write a program that `numod.graph.trace` recorded.

    Raises ValueError for steps that depend on this process, such as an optimizer's scalars.

    `about`: plain data that goes with it, of what results may hold; `further`: more tensors, whose names begin with
    neither "storage" nor a digit.
    """
    text, tensors = described(program)
    text |= {} if about is None else {"about": _written(about)}
    save_file(tensors | (further or {}), filename, {KEY: json.dumps(text, separators=(",", ":"))})


def described(program: Program) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(what a file says of a program, as JSON; the tensors that it holds: the storages, flat). `program_of` undoes it.

    Raises ValueError as `save_program` does.
    """
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
        "format": FORMAT, "inputs": [input.number for input in program.inputs], "shared": program.shared, "held": held,
        "layouts": [[value.number, layout.dtype.name, list(layout.shape), list(layout.strides)] for value,
            layout in program.layouts.items()],
        "steps": [_step(step, drawn) for step in program.steps],
        "gradients": [[leaf.number, None if gradient is None else gradient.number] for leaf,
            gradient in program.gradients.items()], "outputs": _written(program.outputs),
    }  # fmt: skip
    return text, tensors


def program_of(fields: Any, tensors: dict[str, Tensor]) -> Program:
    """The program that `described` described, checked by `verify`. Raises ValueError for anything else."""
    return bounded(verify(_program(fields, tensors)))


def load_program(filename: str | os.PathLike) -> Program:
    """The program in a file, checked by `verify`. Raises ValueError for any other file.

    Call it to run it op by op; `numod.graph.Executable(program)` compiles it.
    """
    return read_program(filename)[0]


def read_program(filename: str | os.PathLike) -> tuple[Program, Any, dict[str, Tensor]]:
    """(the program, the plain data that was saved with it or None, the file's tensors).

    Raises as `load_program` does.
    """
    shown = os.fspath(filename) if isinstance(filename, (str, os.PathLike)) else "the file"
    text = load_metadata(filename).get(KEY)
    if text is None:
        raise ValueError(f"load_program: {shown} holds no program")
    tensors = load_file(filename)
    try:
        fields = json.loads(text, parse_constant=_refuse_constant)
        program = program_of(fields, tensors)
        return program, _read(fields["about"]) if "about" in fields else None, tensors
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        kind = "" if type(problem) is ValueError else f"{type(problem).__name__}: "
        raise ValueError(f"load_program: {shown} is damaged: {kind}{problem}") from problem


def unsaveable(program: Program) -> list[str]:
    """Why each of the program's steps that cannot be in a file cannot."""
    found = []
    for step in program.steps:
        try:
            _step(step, {})
        except ValueError as problem:
            found.append(str(problem).removeprefix("save_program: "))
    return list(dict.fromkeys(found))


# ---- writing


def _step(step: Step | Check, drawn: _Drawn) -> dict[str, Any]:
    if isinstance(step, Check):
        return {"check": step.value.number, "found": _written(step.found), "where": step.where}
    if isinstance(step.op, Update) and step.parameters[0] is not None:
        raise ValueError(
            f"save_program: {step.where} is an optimizer's step ({step.op.name}), whose numbers come from Python; "
            "record the forward pass or the gradients, or capture the step with numod.export.export"
        )
    inputs = [_drawing(input, drawn) if isinstance(input, Draw) else _written(input) for input in step.inputs]
    return {
        "op": _name_of(step.op), "inputs": inputs, "parameters": [_written(parameter) for parameter in step.parameters],
        "results": [result.number for result in step.results], "in_place": step.in_place, "where": step.where,
    }  # fmt: skip


@cache
def _known() -> dict[str, Op]:
    """numod's ops by (kind, name)."""
    found: dict[str, Op] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("numod.ops."):
            named = [*vars(module).values(), *getattr(module, "rows", {}).values()]
            found.update(
                {
                    f"{type(each).__name__}.{each.name}": each
                    for each in named
                    if isinstance(each, Op) and each.portable and each.takes is not None
                }
            )
    return found


def _drawing(draw: Draw, drawn: _Drawn) -> dict[str, Any]:
    if draw.generator is not default_generator:
        raise ValueError(
            "save_program: a random op draws from a generator of its own, which a file cannot name; use the default one"
        )
    return {"draw": drawn.setdefault(id(draw), len(drawn)), "count": draw.count}


def _name_of(op: Op) -> Any:
    """The name of an op; of a row derived as a gradient [row, "grad", input]."""
    if op is EMPTY:
        return "empty"
    if isinstance(op, OverComplex):  # which its row becomes where a tensor is complex
        op = op.row
    if isinstance(op, FusedMapReduce):
        return ["total", op.row.name]
    if isinstance(op, Update):
        return ["update", op.name]
    if _known().get(f"{type(op).__name__}.{op.name}") is op:
        return f"{type(op).__name__}.{op.name}"
    for base in (*pointwise.rows.values(), *[reduction.closing(row).scaled for row in pointwise.rows.values()]):
        for position, gradient in base._derived.items():
            if gradient is op:
                scaled = base.name not in pointwise.rows or pointwise.rows[base.name] is not base
                return [
                    "total_grad" if scaled else "grad",
                    base.name.removesuffix("_total") if scaled else base.name,
                    position,
                ]
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
    if isinstance(each, complex):
        return {"complex": [repr(each.real), repr(each.imag)]}
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


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _program(text: Any, tensors: dict[str, Tensor]) -> Program:
    text = _keyed(text, "the program", "format inputs shared held layouts steps gradients outputs")
    if text["format"] != FORMAT:
        raise ValueError(f"format {shorten(text['format'])} is newer than this version, which reads {FORMAT}")
    if len(_of(list, text["steps"], "steps")) > _LIMIT:
        raise ValueError(f"a program of {len(text['steps'])} steps")
    program = Program()
    program.layouts = {_value(number): _layout(*rest) for number, *rest in _rows(text["layouts"], "layouts", 4)}
    program.inputs = [_value(each) for each in _of(list, text["inputs"], "inputs")]
    program.shared = [_of(int, each, "shared") for each in _of(list, text["shared"], "shared")]
    for number, storage, offset in _rows(text["held"], "held", 3):
        if _of(str, storage, "the name of a tensor") not in tensors:
            raise ValueError(f"there is no tensor {shorten(storage)}")
        program.held[_value(number)] = _held(tensors[storage], program.layouts[_value(number)], offset)
    draws: dict[int, Draw] = {}
    program.steps = [_read_step(each, number, draws) for number, each in enumerate(text["steps"])]
    program.gradients = {
        _value(leaf): None if each is None else _value(each) for leaf, each in _rows(text["gradients"], "gradients", 2)
    }
    program.outputs = _read(text["outputs"])
    return program


def _of(kind: type, thing: Any, what: str) -> Any:
    """The thing, which must be of exactly this type: JSON's true is no number."""
    if type(thing) is not kind:
        raise ValueError(f"{what} must be of type {kind.__name__}, got {shorten(thing)}")
    return thing


def _keyed(thing: Any, what: str, keys: str) -> dict[str, Any]:
    """The dict, which must have these keys."""
    missing = [key for key in keys.split() if key not in _of(dict, thing, what)]
    if missing:
        raise ValueError(f"{what} lacks {missing[0]!r}")
    return thing


def _rows(thing: Any, what: str, count: int) -> list[list]:
    """The list, whose entries must be lists of so many."""
    for each in _of(list, thing, what):
        if type(each) is not list or len(each) != count:
            raise ValueError(f"{what} must be lists of {count}, got {shorten(each)}")
    return thing


def _value(number: Any) -> Value:
    if not 0 <= _of(int, number, "the number of a value") < _NUMBERS:
        raise ValueError(f"the number of a value must be from 0 to {_NUMBERS}, got {shorten(number)}")
    return Value(number)


def _layout(name: str, shape: list[int], strides: list[int]) -> Layout:
    sizes = (*_of(list, shape, "a shape"), *_of(list, strides, "strides"))
    if (
        not all(map(is_index, sizes))
        or len(shape) != len(strides)
        or len(shape) > _MAX_DIMENSIONS
        or math.prod(n or 1 for n in shape) >= _MOST
    ):
        raise ValueError(f"a layout of shape {shorten(shape)} and strides {shorten(strides)}")
    return layout(tuple(shape), _dtype(name), Device("cpu"), tuple(strides))


def _held(whole: Tensor, form: Layout, offset: int) -> Tensor:
    if form.dtype is not whole.dtype or not 0 <= _of(int, offset, "an offset") <= whole.numel() - form.extent:
        raise ValueError("a tensor reaches beyond its memory")
    return wrap(whole._storage, form, whole._offset + offset)


def _read_step(text: Any, number: int, draws: dict[int, Draw]) -> Step | Check:
    checks = type(text) is dict and "check" in text
    text = _keyed(
        text, f"step {number}", "check found where" if checks else "op inputs parameters results in_place where"
    )
    where = "".join(
        each if each.isprintable() else "?" for each in _of(str, text["where"], f"step {number}: where")[:_WHERE]
    )
    if checks:
        found = text["found"]
        if type(found) not in (bool, int, float) and not (isinstance(found, dict) and found.keys() == {"float"}):
            raise ValueError(f"step {number}: a check must find a number, got {shorten(found)}")
        return Check(_value(text["check"]), _number(_read(found)), where)
    op = _op(text["op"])
    try:
        inputs = tuple([_read_input(each, draws) for each in _of(list, text["inputs"], "inputs")])
        attributes = tuple([_read(each) for each in _of(list, text["parameters"], "parameters")])
        results = tuple([_value(each) for each in _of(list, text["results"], "results")])
        return Step(op, inputs, attributes, results, _of(bool, text["in_place"], "in_place"), where)
    except ValueError as problem:
        raise ValueError(f"step {number} ({op.name}): {problem}") from None


def _number(found: Any) -> float | int | bool:
    if type(found) is int and not -(1 << 63) <= found < 1 << 63:
        raise ValueError(f"a check must find a number of 64 bits, got {shorten(found)}")
    return found


def _read_input(each: Any, draws: dict[int, Draw]) -> Any:
    if isinstance(each, dict) and "draw" in each:
        return _draw(each, draws)
    if (
        each is None
        or type(each) in (bool, int, float)
        or (isinstance(each, dict) and each.keys() <= {"value", "float", "complex"})
    ):
        return _read(each)
    raise ValueError(f"an input must be a value, a number or null, got {shorten(each)}")


def _draw(text: dict[str, Any], draws: dict[int, Draw]) -> Draw:
    number = _of(int, text["draw"], "the number of a draw")
    if number not in draws:
        if not is_index(text["count"]):
            raise ValueError(f"the count of a draw must be a non-negative integer, got {shorten(text['count'])}")
        draw = draws[number] = Draw(0)
        draw.generator, draw.count = default_generator, text["count"]
    return draws[number]


def _op(name: Any) -> Op:
    """The op that a file names, as `_name_of` does."""
    if isinstance(name, str):
        found = EMPTY if name == "empty" else _known().get(name)
        if found is None:
            raise ValueError(f"there is no op {shorten(name)}")
        return found
    kind, row, *rest = _of(list, name, "the name of an op")
    if kind == "update" and not rest and _of(str, row, "a row") in updates:
        return updates[row]
    if (
        _of(str, row, "a row") not in pointwise.rows
        or kind not in ("total", "grad", "total_grad")
        or len(rest) != (kind != "total")
    ):
        raise ValueError(f"there is no op {shorten(name)}")
    if kind == "total":
        return reduction.closing(pointwise.rows[row])
    base = pointwise.rows[row] if kind == "grad" else reduction.closing(pointwise.rows[row]).scaled
    found = base.gradient_of(rest[0]) if type(rest[0]) is int and 0 <= rest[0] < len(base.inputs) else None
    if not isinstance(found, Op):
        raise ValueError(f"{row} has no derived op for input {shorten(rest[0])}")
    return found


def _read(each: Any, depth: int = 0) -> Any:
    """What `_written` wrote."""
    if depth > _DEPTH:
        raise ValueError("containers are nested too deeply")
    if not isinstance(each, dict):
        if isinstance(each, list):
            raise ValueError(f"{shorten(each)} has no tag")
        return each
    if len(each) != 1:
        raise ValueError(f"{shorten(each)} must have one tag")
    ((kind, inner),) = each.items()
    if kind in _CONTAINERS:
        return _CONTAINERS[kind]([_read(part, depth + 1) for part in _of(list, inner, f"a {kind}")])
    if kind == "dict":
        return {_of(str, key, "a key"): _read(part, depth + 1) for key, part in _of(list, inner, "a dict")}
    if kind not in _READERS:
        raise ValueError(f"there is no tag {shorten(kind)}")
    return _READERS[kind](inner)


def _slice(parts: Any) -> slice:
    start, stop, step = _of(list, parts, "a slice")
    if not all(each is None or type(each) is int for each in (start, stop, step)):
        raise ValueError(f"a slice of {shorten(parts)}")
    return slice(start, stop, step)


def _dtype(name: Any) -> dtypes.dtype:
    if _of(str, name, "a dtype") not in dtypes.ALL:
        raise ValueError(f"there is no dtype {shorten(name)}")
    return dtypes.ALL[name]


def _float(text: Any) -> float:
    return float(_of(str, text, "a float"))


def _complex(parts: Any) -> complex:
    real, imaginary = _of(list, parts, "a complex number")
    return complex(_float(real), _float(imaginary))


_CONTAINERS: dict[str, Callable] = {"tuple": tuple, "list": list, "Size": Size}
_READERS: dict[str, Callable] = {
    "value": _value, "float": _float, "complex": _complex, "dtype": _dtype,
    "device": lambda inner: Device(_of(str, inner, "a device")), "slice": _slice,
}  # fmt: skip
