"""The worker process that compiles a program for one target.

Kernel sources and caches are specific to one machine, so each target has its own process. It reads a folder with
`program`, `job.json`, samples and packed weights, and writes a line of JSON and the object file to its standard
output.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..core.create.values import tensor
from ..device import target
from ..device.target import Machine
from ..graph.ir.program import Value
from .entry import Data
from .interface import Interface, Port, Size, Weight
from .program import load


def main(folder: str, machine: str, kernel: str = "", packed: str = "") -> None:
    """Compile the folder's program for `machine` (JSON).

    `kernel`: the function's name, if it is one of several. `packed`: where the packed weights are, if there are any.
    """
    home, machine = Path(folder), Machine(**json.loads(machine))
    target.compile_for(machine)
    from ..graph.passes.freezing import with_packed_bytes
    from .module import compiled, planned, weights_of
    from .variants import Variants

    job = json.loads((home / "job.json").read_text())
    interface = interface_of(job["interface"])
    exported = load(home / "program")
    program, dynamic, words = exported.program, exported.dynamic, None
    if packed:
        count = len([*(home / packed).iterdir()])  # another processor may read one weight in two formats
        words = [tensor(np.fromfile(home / packed / str(k), np.int32)) for k in range(count)]
        program, _ = with_packed_bytes(program, words, sizes_vary=dynamic is not None, vectors=job["vectors"])
    plan = planned(program, job["stream"], words or ())
    variants = None if dynamic is None else Variants(dynamic, job["stream"], machine.alignment, words, job["vectors"])
    weights = weights_of(plan, {Value(int(number)): name for number, name in job["names"].items()}, job["constants"])
    samples = [
        [(home / f"{kind}{k}").read_bytes() for k in range(len(ports))]
        for kind, ports in (("input", interface.inputs), ("output", interface.outputs))
    ]
    data = Data(
        b"", (), tuple(samples[0]), tuple(samples[1]), tuple(job["scales"]), job["abi"], (home / "header").read_bytes()
    )
    result = compiled(plan, interface, weights, machine, data, job["size"], kernel, variants)
    sys.stdout.buffer.write(json.dumps({"arena": dataclasses.astuple(result.arena)}).encode() + b"\n" + result.code)


def interface_of(fields: dict) -> Interface:
    """An interface from its JSON fields."""
    kinds = {"inputs": Port, "outputs": Port, "weights": Weight, "sizes": Size}
    rows = {name: tuple([kind(**frozen(row)) for row in fields[name]]) for name, kind in kinds.items()}
    return Interface(**{**fields, **rows, "checks": tuple(fields["checks"]), "parts": tuple(fields["parts"])})


def frozen(value: Any) -> Any:
    """JSON lists as tuples, recursively."""
    if isinstance(value, dict):
        return {key: frozen(part) for key, part in value.items()}
    return tuple([frozen(part) for part in value]) if isinstance(value, list) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
