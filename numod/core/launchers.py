"""Launchers: generated functions that allocate an op's results and launch its kernel, without loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ..device import Storage
from ..ops.op import Plan
from .tensor import Tensor

new = object.__new__


def launcher(plan: Plan) -> Callable:
    """The function that allocates the results and launches the kernel."""
    results = plan.layout if isinstance(plan.layout, tuple) else (plan.layout,)
    make = launcher_factory(plan.kinds, len(results), len(plan.constants), isinstance(plan.layout, tuple))
    memory = [
        part
        for result in results
        for part in (
            result,
            result.device.allocator(result.size * result.storage.itemsize),
            result.device.empty,
            result.size,
            result.storage,
        )
    ]
    return make(plan.launch, *plan.constants, new, Tensor, Storage, *memory)


@cache
def launcher_factory(
    kinds: str,
    results: int,
    constants: int,
    several: bool,
    into: tuple[bool, ...] | None = None,
) -> Callable:
    """The factory of launchers for inputs of these `kinds` ("t" a tensor, "n" a number, "-" neither).

    The code is generated without loops or starred arguments, which halves the Python overhead of an op. `into`: for
    in-place writes, whether each target is a kernel argument in addition to the inputs.
    """
    inputs, targets = [f"x{k}" for k in range(len(kinds))], [f"y{k}" for k in range(len(into or ()))]
    tensors = [x for x, kind in zip(inputs, kinds) if kind == "t"] + [
        y for y, is_separate in zip(targets, into or ()) if is_separate
    ]
    buffers = [f"{x}._storage.data[{x}._offset:] if {x}._offset else {x}._storage.data" for x in tensors]
    data, result_names, constant_names = (
        [f"{letter}{k}" for k in range(count)]
        for letter, count in (("data", results), ("result", results), ("c", constants))
    )
    lines = [
        f"{''.join(f'{variable}, ' for variable in variables)}= {source}"
        for variables, source in ((inputs, "inputs"), (targets, "targets"))
        if variables
    ]
    # a `try` costs nothing until it catches; the second attempt releases cached memory first
    for k in range(results):
        lines += [
            "try:",
            f"    data{k} = empty{k}(size{k}, kind{k})",
            "except MemoryError:",
            f"    data{k} = retry{k}(size{k}, kind{k})",
        ]
    numbers = [x for x, kind in zip(inputs, kinds) if kind == "n"]
    lines.append(f"launch({', '.join([*buffers, *data, *numbers, *constant_names])})")
    for k in range(results):
        lines += [f"result{k} = new(Tensor)", f"result{k}._layout = layout{k}"]
        lines += [f"memory = result{k}._storage = new(Storage)", f"memory.data, memory.version = data{k}, 0"]
    lines.append(
        f"return {''.join(f'{variable}, ' for variable in result_names) if several else ''.join(result_names)}"
    )
    parameters = ["launch", *constant_names, *(["new", "Tensor", "Storage"] if results else [])]
    parameters += [f"{name}{k}" for k in range(results) for name in ("layout", "empty", "retry", "size", "kind")]
    space: dict[str, Callable] = {}
    head = f"def make({', '.join(parameters)}):\n    def run({'inputs' if into is None else 'inputs, targets'}):\n"
    exec(head + "".join(f"        {line}\n" for line in lines) + "    return run", space)
    return space["make"]
