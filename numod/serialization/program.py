"""A recorded program in one file: its steps as JSON, its tensors as safetensors.

Loading executes no code and does not need the model's Python code.

The file is a safetensors file whose metadata contains the program under the key `numod.program`. Each storage of a
captured tensor is a flat tensor. The program is written as recorded, op by op; graph passes and compilation happen
after loading. Optimizer steps are rejected, since their scalars come from Python.

Security. Loading parses JSON and creates tensors, with memory proportional to the file's size. It opens no other path,
imports no name, and puts no text of the file into kernel source. A step names one of numod's ops. Its inputs and
attributes must satisfy the op's contract (`ops.contract`) in type, range and length before anything is planned
(`graph.ir.verify`). Running executes numod's ops on tensors of the sizes in the file, so it may take any time and
memory. It writes to its own tensors, its inputs and gradients, and it advances the default generator. Reads by index
are bounds-checked (`graph.ir.bounds`) even if the file contains no such checks.
"""

from __future__ import annotations

import json
import math
import os
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

from .. import dtypes, ops
from ..core import return_types
from ..core.create.generator import Draw, default_generator
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
from . import records
from .refusal import shorten
from .safetensors import load_file, load_metadata, save_file
from .torch_objects import is_index

KEY, FORMAT = "numod.program", 1
_MAX_STEPS = 1 << 20  # maximum number of steps accepted from a file
_NUMBERS = 1 << 40  # limit for the numbers of values, which appear in messages and printed programs
_MAX_DIMENSIONS, _MAX_ELEMENTS = 64, 1 << 60  # limits for the dimensions and elements of a layout
_DEPTH = 50  # limit for nested containers in results and attributes
_WHERE = 200  # limit for the characters of a step's source location, which is only displayed
_Drawn = dict[int, int]  # the number of each draw, by its id


def save_program(
    program: Program, filename: str | os.PathLike, about: Any = None, further: dict[str, Tensor] | None = None
) -> None:
    """Write a program that `numod.graph.trace` recorded.

    `about` is plain data stored with it, of the types that results may have. `further` are more tensors; their names
    must not begin with "storage" or a digit. Raises ValueError for steps that depend on this process, such as an
    optimizer's scalars.
    """
    text, tensors = described(program)
    text |= {} if about is None else {"about": _to_json(about)}
    records.require_names([text["outputs"], text.get("about")])
    save_file(tensors | (further or {}), filename, {KEY: json.dumps(text, separators=(",", ":"))})


def described(program: Program) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(what a file says of a program, as JSON; the tensors that it holds: the storages, flat). `program_of` undoes it.

    Raises ValueError as `save_program` does.
    """
    storages: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    captured = []
    for value, tensor in program.held.items():
        storage = tensor._storage
        if id(storage) not in storages:
            storages[id(storage)] = f"storage{len(storages)}"
            whole = layout((len(storage.data),), tensor.dtype, tensor.device)
            tensors[storages[id(storage)]] = wrap(storage, whole, 0)
        captured.append([value.number, storages[id(storage)], tensor._offset])
    drawn: _Drawn = {}
    text = {
        "format": FORMAT, "inputs": [input.number for input in program.inputs], "shared": program.shared,
        "held": captured,
        "layouts": [[value.number, layout.dtype.name, list(layout.shape), list(layout.strides)] for value,
            layout in program.layouts.items()],
        "steps": [_step(step, drawn) for step in program.steps],
        "gradients": [[leaf.number, None if gradient is None else gradient.number] for leaf,
            gradient in program.gradients.items()], "outputs": _to_json(program.outputs),
    }  # fmt: skip
    return text, tensors


def program_of(fields: Any, tensors: dict[str, Tensor]) -> Program:
    """The program that `described` described, checked by `verify`. Raises ValueError for anything else."""
    return bounded(verify(_program(fields, tensors)))


def load_program(filename: str | os.PathLike) -> Program:
    """The program in a file, checked by `verify`. Raises ValueError for any other file.

    Call it to run it op by op. `numod.graph.Executable(program)` compiles it.
    """
    return read_program(filename)[0]


def read_program(filename: str | os.PathLike) -> tuple[Program, Any, dict[str, Tensor]]:
    """(the program, the plain data saved with it or None, the file's tensors). Raises as `load_program` does."""
    is_path = isinstance(filename, (str, os.PathLike))
    path = os.fspath(filename) if is_path else "the file"
    text = load_metadata(filename).get(KEY)
    if text is None:
        raise ValueError(f"load_program: {path} holds no program")
    tensors = load_file(filename)
    try:
        fields = json.loads(text, parse_constant=_refuse_constant)
        program = program_of(fields, tensors)
        return program, _from_json(fields["about"]) if "about" in fields else None, tensors
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise ValueError(f"load_program: {path} is damaged: {kind}{error}") from error


def unsaveable(program: Program) -> list[str]:
    """For each step that cannot be saved, the reason."""
    reasons = []
    for step in program.steps:
        try:
            _step(step, {})
        except ValueError as error:
            reasons.append(str(error).removeprefix("save_program: "))
    return list(dict.fromkeys(reasons))


# ---- writing


def _step(step: Step | Check, drawn: _Drawn) -> dict[str, Any]:
    if isinstance(step, Check):
        return {"check": step.value.number, "found": _to_json(step.expected), "where": step.location}
    if isinstance(step.op, Update) and step.attributes[0] is not None:
        raise ValueError(
            f"save_program: {step.location} is an optimizer's step ({step.op.name}), whose numbers come from Python; "
            "record the forward pass or the gradients, or capture the step with numod.export.export"
        )
    inputs = [_draw_to_json(input, drawn) if isinstance(input, Draw) else _to_json(input) for input in step.inputs]
    return {
        "op": _name_of(step.op), "inputs": inputs, "parameters": [_to_json(parameter) for parameter in step.attributes],
        "results": [result.number for result in step.results], "in_place": step.in_place, "where": step.location,
    }  # fmt: skip


@cache
def _ops_by_name() -> dict[str, Op]:
    """numod's ops by "kind.name". The module of an op is not part of its name, so it may move."""
    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        import_module(module.name)  # some are imported on first use
    by_name: dict[str, Op] = {}
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("numod.ops."):
            for op in (*vars(module).values(), *getattr(module, "rows", {}).values()):
                if isinstance(op, Op) and op.portable and op.takes is not None:
                    name = f"{type(op).__name__}.{op.name}"
                    if by_name.setdefault(name, op) is not op:
                        raise NameError(
                            f"two ops are called {name} in the file format; rename the one of {module_name}"
                        )
    return by_name


def _draw_to_json(draw: Draw, drawn: _Drawn) -> dict[str, Any]:
    if draw.generator is not default_generator:
        raise ValueError(
            "save_program: a random op draws from a generator of its own, which a file cannot name; use the default one"
        )
    return {"draw": drawn.setdefault(id(draw), len(drawn)), "count": draw.count}


def _name_of(op: Op) -> Any:
    """The name of an op; for a row's derived gradient op, a list such as [row, "grad", input]."""
    if op is EMPTY:
        return "empty"
    if isinstance(op, OverComplex):  # the complex form of a row
        op = op.row
    if isinstance(op, FusedMapReduce):
        return ["total", op.row.name]
    if isinstance(op, Update):
        return ["update", op.name]
    if _ops_by_name().get(f"{type(op).__name__}.{op.name}") is op:
        return f"{type(op).__name__}.{op.name}"
    for base in (
        *pointwise.rows.values(),
        *[reduction.fused_map_reduce(row).scaled for row in pointwise.rows.values()],
    ):
        for position, gradient in base._derived.items():
            if gradient is op:
                scaled = base.name not in pointwise.rows or pointwise.rows[base.name] is not base
                return [
                    "total_grad" if scaled else "grad",
                    base.name.removesuffix("_total") if scaled else base.name,
                    position,
                ]
    raise ValueError(f"save_program: {op.name} has no name in the file format; save the program as it was recorded")


def _to_json(value: Any) -> Any:
    """An attribute, number or result as JSON."""
    if isinstance(value, Value):
        return {"value": value.number}
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if value - value == 0.0 else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    if isinstance(value, Device):
        return {"device": str(value)}
    if type(value) in _TAGS:
        return {_TAGS[type(value)]: [_to_json(part) for part in value]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": [[key, _to_json(part)] for key, part in value.items()]}
    if records.is_record(value):
        name, fields = records.described(value)
        return {"record": [name, [[key, _to_json(part)] for key, part in fields.items()]]}
    raise ValueError(
        f"save_program: a {type(value).__name__} cannot be written to a file, which holds tensors, numbers, strings, "
        "tuples, lists, dicts with strings as keys, numod.return_types and registered dataclasses "
        "(torch.export.register_dataclass); convert it before it is returned"
    )


# ---- reading


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _program(text: Any, tensors: dict[str, Tensor]) -> Program:
    """A program from its JSON form. Raises ValueError for an invalid one."""
    text = _checked_fields(text, "the program", "format inputs shared held layouts steps gradients outputs")
    if text["format"] != FORMAT:
        raise ValueError(f"format {shorten(text['format'])} is newer than this version, which reads {FORMAT}")
    if len(_checked(list, text["steps"], "steps")) > _MAX_STEPS:
        raise ValueError(f"a program of {len(text['steps'])} steps")
    program = Program()
    program.layouts = {_value(number): _layout(*rest) for number, *rest in _rows(text["layouts"], "layouts", 4)}
    program.inputs = [_value(entry) for entry in _checked(list, text["inputs"], "inputs")]
    program.shared = [_checked(int, entry, "shared") for entry in _checked(list, text["shared"], "shared")]
    for number, storage, offset in _rows(text["held"], "held", 3):
        if _checked(str, storage, "the name of a tensor") not in tensors:
            raise ValueError(f"there is no tensor {shorten(storage)}")
        program.held[_value(number)] = _captured_tensor(tensors[storage], program.layouts[_value(number)], offset)
    draws: dict[int, Draw] = {}
    program.steps = [_read_step(entry, number, draws) for number, entry in enumerate(text["steps"])]
    program.gradients = {
        _value(leaf): None if entry is None else _value(entry)
        for leaf, entry in _rows(text["gradients"], "gradients", 2)
    }
    program.outputs = _from_json(text["outputs"])
    return program


def _checked(kind: type, value: Any, label: str) -> Any:
    """`value` if it has exactly this type, so that JSON's true is not a number."""
    if type(value) is not kind:
        raise ValueError(f"{label} must be of type {kind.__name__}, got {shorten(value)}")
    return value


def _checked_fields(value: Any, label: str, keys: str) -> dict[str, Any]:
    """`value` if it is a dict with these keys."""
    missing = [key for key in keys.split() if key not in _checked(dict, value, label)]
    if missing:
        raise ValueError(f"{label} lacks {missing[0]!r}")
    return value


def _rows(rows: Any, label: str, count: int) -> list[list]:
    """`rows` if it is a list of lists of `count` entries."""
    for row in _checked(list, rows, label):
        if type(row) is not list or len(row) != count:
            raise ValueError(f"{label} must be lists of {count}, got {shorten(row)}")
    return rows


def _value(number: Any) -> Value:
    if not 0 <= _checked(int, number, "the number of a value") < _NUMBERS:
        raise ValueError(f"the number of a value must be from 0 to {_NUMBERS}, got {shorten(number)}")
    return Value(number)


def _layout(name: str, shape: list[int], strides: list[int]) -> Layout:
    sizes = (*_checked(list, shape, "a shape"), *_checked(list, strides, "strides"))
    if (
        not all(map(is_index, sizes))
        or len(shape) != len(strides)
        or len(shape) > _MAX_DIMENSIONS
        or math.prod(n or 1 for n in shape) >= _MAX_ELEMENTS
    ):
        raise ValueError(f"a layout of shape {shorten(shape)} and strides {shorten(strides)}")
    return layout(tuple(shape), _dtype(name), Device("cpu"), tuple(strides))


def _captured_tensor(whole: Tensor, view: Layout, offset: int) -> Tensor:
    if view.dtype is not whole.dtype or not 0 <= _checked(int, offset, "an offset") <= whole.numel() - view.extent:
        raise ValueError("a tensor reaches beyond its memory")
    return wrap(whole._storage, view, whole._offset + offset)


def _read_step(text: Any, number: int, draws: dict[int, Draw]) -> Step | Check:
    """A step or a check from its JSON form. Raises ValueError for an invalid one."""
    checks = type(text) is dict and "check" in text
    text = _checked_fields(
        text, f"step {number}", "check found where" if checks else "op inputs parameters results in_place where"
    )
    where = "".join(
        character if character.isprintable() else "?"
        for character in _checked(str, text["where"], f"step {number}: where")[:_WHERE]
    )
    if checks:
        expected = text["found"]
        if type(expected) not in (bool, int, float) and not (
            isinstance(expected, dict) and expected.keys() == {"float"}
        ):
            raise ValueError(f"step {number}: a check must expect a number, got {shorten(expected)}")
        return Check(_value(text["check"]), _number(_from_json(expected)), where)
    op = _op(text["op"])
    try:
        inputs = tuple([_read_input(entry, draws) for entry in _checked(list, text["inputs"], "inputs")])
        attributes = tuple([_from_json(entry) for entry in _checked(list, text["parameters"], "parameters")])
        results = tuple([_value(entry) for entry in _checked(list, text["results"], "results")])
        return Step(op, inputs, attributes, results, _checked(bool, text["in_place"], "in_place"), where)
    except ValueError as error:
        raise ValueError(f"step {number} ({op.name}): {error}") from None


def _number(number: Any) -> float | int | bool:
    if type(number) is int and not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"a check must expect a number of 64 bits, got {shorten(number)}")
    return number


def _read_input(node: Any, draws: dict[int, Draw]) -> Any:
    if isinstance(node, dict) and "draw" in node:
        return _draw_from_json(node, draws)
    if (
        node is None
        or type(node) in (bool, int, float)
        or (isinstance(node, dict) and node.keys() <= {"value", "float", "complex"})
    ):
        return _from_json(node)
    raise ValueError(f"an input must be a value, a number or null, got {shorten(node)}")


def _draw_from_json(text: dict[str, Any], draws: dict[int, Draw]) -> Draw:
    number = _checked(int, text["draw"], "the number of a draw")
    if number not in draws:
        if not is_index(text["count"]):
            raise ValueError(f"the count of a draw must be a non-negative integer, got {shorten(text['count'])}")
        draw = draws[number] = Draw(0)
        draw.generator, draw.count = default_generator, text["count"]
    return draws[number]


def _op(name: Any) -> Op:
    """The op for a name that `_name_of` returned."""
    if isinstance(name, str):
        op = EMPTY if name == "empty" else _ops_by_name().get(name)
        if op is None:
            raise ValueError(f"there is no op {shorten(name)}")
        return op
    kind, row, *rest = _checked(list, name, "the name of an op")
    if kind == "update" and not rest and _checked(str, row, "a row") in updates:
        return updates[row]
    if (
        _checked(str, row, "a row") not in pointwise.rows
        or kind not in ("total", "grad", "total_grad")
        or len(rest) != (kind != "total")
    ):
        raise ValueError(f"there is no op {shorten(name)}")
    if kind == "total":
        return reduction.fused_map_reduce(pointwise.rows[row])
    base = pointwise.rows[row] if kind == "grad" else reduction.fused_map_reduce(pointwise.rows[row]).scaled
    op = base.gradient_of(rest[0]) if type(rest[0]) is int and 0 <= rest[0] < len(base.inputs) else None
    if not isinstance(op, Op):
        raise ValueError(f"{row} has no derived op for input {shorten(rest[0])}")
    return op


def _from_json(node: Any, depth: int = 0) -> Any:
    """The inverse of `_to_json`."""
    if depth > _DEPTH:
        raise ValueError("containers are nested too deeply")
    if not isinstance(node, dict):
        if isinstance(node, list):
            raise ValueError(f"{shorten(node)} has no tag")
        return node
    if len(node) != 1:
        raise ValueError(f"{shorten(node)} must have one tag")
    ((kind, inner),) = node.items()
    if kind in _CONTAINERS:
        return _CONTAINERS[kind]([_from_json(part, depth + 1) for part in _checked(list, inner, f"a {kind}")])
    if kind == "dict":
        return _dict_from_json(inner, depth)
    if kind == "record":
        name, entries = _checked(list, inner, "a record")
        return records.of_description(name, _dict_from_json(entries, depth))
    if kind not in _READERS:
        raise ValueError(f"there is no tag {shorten(kind)}")
    return _READERS[kind](inner)


def _dict_from_json(entries: Any, depth: int) -> dict[str, Any]:
    return {_checked(str, key, "a key"): _from_json(part, depth + 1) for key, part in _checked(list, entries, "a dict")}


def _slice(parts: Any) -> slice:
    start, stop, step = _checked(list, parts, "a slice")
    if not all(part is None or type(part) is int for part in (start, stop, step)):
        raise ValueError(f"a slice of {shorten(parts)}")
    return slice(start, stop, step)


def _dtype(name: Any) -> dtypes.dtype:
    if _checked(str, name, "a dtype") not in dtypes.ALL:
        raise ValueError(f"there is no dtype {shorten(name)}")
    return dtypes.ALL[name]


def _float(text: Any) -> float:
    return float(_checked(str, text, "a float"))


def _complex(parts: Any) -> complex:
    real, imaginary = _checked(list, parts, "a complex number")
    return complex(_float(real), _float(imaginary))


_CONTAINERS: dict[str, Callable] = {"tuple": tuple, "list": list, "Size": Size} | {
    f"return_types.{name}": kind for name, kind in vars(return_types).items() if isinstance(kind, type)
}
_TAGS = {kind: tag for tag, kind in _CONTAINERS.items()}
_READERS: dict[str, Callable] = {
    "value": _value, "float": _float, "complex": _complex, "dtype": _dtype,
    "device": lambda inner: Device(_checked(str, inner, "a device")), "slice": _slice,
}  # fmt: skip
